// Package webhook signs events as Standard Webhooks specifies, and delivers them to the addresses of merchants. Use
// [Sign], [Verify] and [Sender].
//
// An address that a merchant gives is not trusted: unless the operator allows a network, a [Sender] connects only to
// public addresses. It follows no redirect, and reads no more than the beginning of an answer.
package webhook

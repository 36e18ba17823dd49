// Package webhook signs events as Standard Webhooks has it, and delivers them to the addresses of
// merchants. Use [Sign], [Verify] and [Sender].
//
// An address that a merchant gives is foreign: a [Sender] connects to public addresses only, unless the
// operator allows a network, follows no redirect, and reads no more than the beginning of an answer.
package webhook

// Package message reads, checks, shows and writes the messages of EMV 3-D Secure
// 2.1.0, 2.2.0 and 2.3.1.
//
// Use [Parse] and [Message.Check] to validate a message, [Message.Describe] to
// show it with card data masked, and [Compose] to write one. [TableOf] returns
// the table of a message, for programs that generate code or documentation.
//
// Each message has a [Table] per version, with one row per element: its name, form, length,
// presence by channel and category, condition, mask and nested table. The rows of a version
// are written as changes to those of the version before. All functions read these rows.
//
// [NewTable] makes a table for an object that the protocol leaves to others, such as the data
// of a message extension; package message/extension has those that are public.
//
// A [Message] keeps the bytes that it was read from. Nothing is converted, so a
// program that passes a message on sends the bytes that it received. Parse
// reports whether the bytes are JSON; Check reports all faults of the message.
//
// The package does no I/O, has no clock and no configuration, and has nothing that is
// specific to a payment system.
//
// Stability: Parse, Check, Describe, Compose, NewTable, Error and the constants are for
// everybody and change only with a line in CHANGELOG.md. [ReadRequest] and
// the methods of [Request] are for the server of this module and may change
// with any release.
package message

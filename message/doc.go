// Package message reads, checks, shows and writes the messages of EMV 3-D Secure
// 2.1.0, 2.2.0 and 2.3.1.
//
// Use [Parse] and [Message.Check] to validate a message, [Message.Describe] to
// show it with card data masked, and [Compose] to write one. [TableOf] returns
// the table of a message, for programs that generate code or documentation.
//
// A message is a table: one row per element with its name, written form,
// length, presence per channel and category, condition, mask and nested table.
// A version is a difference to the one before. Everything else reads the rows.
//
// A [Message] keeps the bytes that it was read from. Nothing is converted, so a
// program that passes a message on sends the bytes that it received. Parse
// reports whether the bytes are JSON; Check reports all faults of the message.
//
// The package does no I/O, has no clock and no configuration, and knows no
// payment system.
//
// Stability: Parse, Check, Describe, Compose, Error and the constants are for
// everybody and change only with a line in CHANGELOG.md. [ReadRequest] and
// the methods of [Request] are for the server of this module and may change
// with any release.
package message

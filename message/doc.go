// Package message knows the messages of EMV 3-D Secure 2.1.0, 2.2.0 and 2.3.1:
// how to read one, what is wrong with it, how to write one.
//
// A message is a table: one row per element with its name, written form,
// length, presence per channel and category, condition, mask and nested table.
// A version is a difference to the one before. Everything else reads the rows.
//
// A Message keeps the bytes it was read from; nothing is converted, so what is
// passed on is what was received. Parse says whether the bytes are JSON, Check
// says all that is wrong with the message.
//
// The package does no I/O, and has no clock and no configuration. It knows no
// payment system: what those add to the protocol belongs to the engine.
package message

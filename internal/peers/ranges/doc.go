// Package ranges knows which card numbers take part in 3-D Secure, and with which protocol
// versions. Use [ReadPRes] or [ReadFile] to read the card range data of a directory server,
// [Response.Next] to make an immutable generation of it, and [Schemes.Lookup] to find the
// ranges of a card number.
//
//	PRes ─────ReadPRes──▶ *Response ─┐
//	file ─────ReadFile──▶ *Response ─┼─Next(old)──▶ *Generation ──Put──▶ Schemes ──Lookup──▶ []Hit
//	               old *Generation ──┘               │      ▲
//	                                          WriteTo▼      │ReadGeneration
//	                                               snapshot
//
// A generation is complete and valid, or it is not made: a fault of a PRes, of one range or of one update leaves the
// previous generation as it is.
//
// The package asks no directory server, writes nothing to disk and knows no clock: it reads
// from an io.Reader and writes to an io.Writer. Package directory decides when a PRes is
// fetched, and what is kept of it.
package ranges

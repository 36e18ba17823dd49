// Package ranges knows which card numbers take part in 3-D Secure and with
// which protocol versions. It reads the card range data of a directory server
// (a PRes), makes immutable generations of it, and finds the range of a card
// number in them.
//
//	PRes ─────ReadPRes──▶ *Response ─┐
//	file ─────ReadFile──▶ *Response ─┼─Next(old)──▶ *Generation ──Put──▶ Schemes ──Lookup──▶ []Hit
//	               old *Generation ──┘               │      ▲
//	                                          WriteTo▼      │ReadGeneration
//	                                               snapshot
//
// A generation is complete and valid or it is not made: a fault of a PRes, of
// one range or of one update leaves the former generation as it is.
//
// The package asks no directory server, keeps nothing on disk and knows no
// clock: it reads from an io.Reader and writes to an io.Writer. Who fetches a
// PRes, when, and what is kept of it, is the business of others.
package ranges

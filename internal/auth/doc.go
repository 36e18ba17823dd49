// Package auth is the engine of EMV 3-D Secure 2.x. Set the fields of an [Engine]. Then
// call [Engine.Preauth] to learn whether a card is enrolled, [Engine.Authenticate] for one
// authentication, [Engine.Receive] for what a directory server posts, such as the result
// of a challenge, and [Engine.Result] to fetch that result.
//
// The package knows no HTTP, no SQL and no TLS. It declares what it needs of a store, of the
// directory servers and of the card ranges; internal/server plugs them in.
//
//	requestor          Engine                    directory server
//	    │ Preauth ──────▶│ ranges, transid            │
//	    │ Authenticate ─▶│ check → claim ── AReq ────▶│
//	    │◀── ARes ───────│ commit ◀───────── ARes ────│
//	    │                │ Receive ◀──────── RReq ────│
//	    │                │ commit ────────── RRes ───▶│
//	    │ Result ───────▶│                            │
//
// What a caller gets is either bytes to send or a [message.Error], which the
// listener turns into an answer; any other error is a fault of the server.
package auth

// Package auth is the engine of EMV 3-D Secure 2.x: whether a card is
// enrolled, one authentication, the receipt of a challenge's result and its
// handing out. It knows no HTTP, no SQL and no TLS: what it needs of a store,
// of the directory servers and of the card ranges it declares here, and the
// command plugs it in.
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
// listener turns into an answer; any other error is a fault of ours.
package auth

// Package directory is the client of the directory servers. Use [New], then [Client.Resume], [Client.Run] in a
// goroutine, and [Client.Send] for each AReq; [Client.Report] sends an Erro about an answer that was not valid.
// [Client.Run] keeps the card ranges fresh with PReqs. [NewV1] returns the client of 3-D Secure 1.0.2.
//
//	        ┌─ peer visa ─────── own connections, certificate, trust, limits
//	Client ─┼─ peer mastercard ─ …
//	        └─ …
//
// Each payment scheme is a peer of its own, so a directory server that hangs or sends wrong answers harms no other
// scheme. A request leaves at most once: it is retried only when no byte of it can have been sent. The messages of
// 1.0.2 are questions, so [V1Client] may send one twice.
//
// The package does not check an ARes; the sender of the AReq does. Card ranges and the [RefreshStatus] of each scheme
// must outlast the process. They are kept in a [Keeper].
package directory

// Package directory is the client of the directory servers: it carries an AReq
// there and the answer back, keeps the card ranges fresh with PReq, and tells a
// directory server about a message of its that was not valid.
//
//	        ┌─ peer visa ─────── own connections, certificate, trust, bounds
//	Client ─┼─ peer mastercard ─ …
//	        └─ …
//
// Each payment scheme is a peer of its own, so that one that hangs or lies
// harms no other. A request leaves at most once: it is tried a second time only
// when not a single byte of it can have been sent.
//
// V1Client is the same for 3-D Secure 1.0.2, where messages are questions and may be
// asked twice.
//
// The package does not judge an ARes; whoever sends the AReq does. What has to
// outlast the process, ranges and how things stand with each directory, it gives
// to a keeper and finds there again.
package directory

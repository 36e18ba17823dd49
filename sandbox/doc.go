// Package sandbox plays all the parties that a 3-D Secure server talks to: a directory server for each scheme, the
// issuers behind them, and the pages that a cardholder's browser sees. It is a peer and not a mock: real HTTPS, real
// mutual TLS, real messages.
//
//	box := &sandbox.Sandbox{}
//	if err := box.Start(); err != nil { … }
//	defer box.Close()
//	for _, ds := range box.Directories() { … configure the server under test … }
//
// [Sandbox.Start] opens everything, and [Sandbox.Directories] returns what the server under test has to be configured
// with. scenarios/cards.txt says what each card does; it is program and manual in one. scenarios/merchants.txt says
// what goes wrong with each merchant. [Sandbox.Received] and the control listener return what passed on the wire; the
// protocol listeners speak only the protocol.
//
// The directory servers answer for their card ranges in every version: [Sandbox.Ranges] changes them, generates
// millions of them, and chooses what goes wrong, out of scenarios/ranges.txt.
//
// Five schemes have a directory server and issuers of 3-D Secure 1.0.2 too, see [Sandbox.V1Directories] and
// scenarios/v1.txt.
//
// It shares only the package message with the server, to judge what it receives. What it sends is written by its own
// encoder, so that a mistake of the server is not made twice.
//
// It is not for production: certificates are made at start, nothing is kept at exit, and nothing that it gets leaves
// the machine.
package sandbox

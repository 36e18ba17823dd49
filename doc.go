// Package threeds is the map of a 3-D Secure server; it holds no code.
//
// Bytes come in at a listener, become a message, go through an engine, and
// leave by a listener or an adapter. The packages stand in eight wings,
// each of which imports what stands below it:
//
//	cmd/threeds, threedstest
//	internal/run        a server of all the others, and its configuration
//	internal/edge       listeners and pages; shed says whether a request is served
//	internal/operate    what operators and merchants change, and are told
//	internal/engine     preauth, authenticate, result; not in operate, nor the other way round
//	internal/peers      directory servers, card ranges, certificates
//	internal/state      store, journal, keys
//	internal/protocol   schemes, outcomes, faults, 3-D Secure 1.0.2: no I/O
//	message             messages of EMV 3DS
//	internal/base       what all use
//
// The sandbox, which plays directory servers and issuers, imports message and
// nothing of the server.
package threeds

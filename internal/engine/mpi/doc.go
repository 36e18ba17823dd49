// Package mpi is the engine of 3-D Secure 1.0.2, a merchant plug-in. Set the fields of an [Engine], then call
// [Engine.Enrolled] and [Engine.Check]. The engine asks a card scheme's directory server whether a card takes part,
// makes the PAReq that the cardholder's browser carries to the issuer, and checks the PARes that the browser brings
// back.
//
//	Enrolled  VEReq → directory server → VERes → PAReq, kept for an hour
//	Check     PARes → signature, chain, shape → what the kept PAReq says
//
// It knows neither HTTP nor TLS nor SQL: a [Client] carries messages, a [Store]
// keeps what has to be compared later. XML and signatures are package v1's.
//
// Everything between the two calls passes through the cardholder's browser. The
// PAReq is not signed, so the cardholder may change it; the Message id of a PARes
// lies outside of what is signed, so they may change that too. Only the signed
// element says what the issuer has approved. That is why a PAReq is found again
// both by Message id and by the signed xid (see findRequests), and why
// nothing but the signed element ever reaches an answer.
package mpi

// Package scheme knows what card schemes ask of an AReq beyond the protocol,
// and what their own codes mean, as far as either is public. The facts are a
// text, profiles.txt, each with its source and how certain it is; this package
// reads it, holds requests against it, and explains.
//
// It decides nothing: what becomes of a finding is for the engine and for the
// merchant's settings. What is not public is not here, so a request without a
// finding may still be refused by a directory server.
package scheme

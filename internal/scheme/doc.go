// Package scheme knows what card schemes ask of an AReq beyond the protocol,
// and what their own codes mean, as far as either is public. The facts are a
// text, profiles.txt, each with its source and how certain it is. This package
// reads the text, checks requests by it, and says what codes mean.
//
// It decides nothing: what to do about a finding is for the engine and the
// merchant's settings. Rules that are not public are missing, so a directory server
// may refuse a request without a finding.
package scheme

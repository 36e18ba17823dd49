package conformance

// tl is TLS and certificates.
var tl = []check{}

package conformance

// ht is HTTP.
var ht = []check{}

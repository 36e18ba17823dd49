package conformance

// to is timeouts.
var to = []check{}

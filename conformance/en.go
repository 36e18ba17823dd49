package conformance

// en is encoding and sizes.
var en = []check{}

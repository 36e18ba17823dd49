package conformance

// tm is the 3DS Method.
var tm = []check{}

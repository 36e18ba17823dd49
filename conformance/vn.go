package conformance

// vn is version negotiation.
var vn = []check{}

package conformance

// vr is the validation of RReq.
var vr = []check{}

package conformance

// va is the validation of ARes.
var va = []check{}

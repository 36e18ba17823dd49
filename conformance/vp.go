package conformance

// vp is the validation of PRes and of card range data.
var vp = []check{}

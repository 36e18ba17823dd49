package conformance

// sp is secure payment confirmation.
var sp = []check{}

package conformance

// ap is the app flow.
var ap = []check{}

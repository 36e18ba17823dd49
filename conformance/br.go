package conformance

// br is the browser flow.
var br = []check{}

package conformance

// ri is the 3RI flow.
var ri = []check{}

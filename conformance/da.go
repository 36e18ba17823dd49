package conformance

// da is decoupled authentication.
var da = []check{}

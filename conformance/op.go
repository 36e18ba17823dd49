package conformance

// op is operation messages.
var op = []check{}

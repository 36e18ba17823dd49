package conformance

// mx is the construction of messages other than the AReq.
var mx = []check{}

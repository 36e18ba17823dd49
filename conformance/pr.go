package conformance

// pr is the protocol of PReq and PRes.
var pr = []check{}

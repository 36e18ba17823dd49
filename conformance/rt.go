package conformance

// rt is retries and failures.
var rt = []check{}

package conformance

// cf is confidentiality, storage and logging.
var cf = []check{}

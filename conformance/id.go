package conformance

// id is transaction ids and state.
var id = []check{}

package main

// The API keys of every sandbox, of two merchants. They are in the README so
// that its lines work as pasted, and they are worth nothing elsewhere: only
// runSandbox puts them into a store, a new one in an empty directory.
const (
	sandboxKey      = "5a5a5a5a-0000-4000-8000-000000000001"
	sandboxOtherKey = "5a5a5a5a-0000-4000-8000-000000000002"
)

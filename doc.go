// Package threeds is the map of a 3-D Secure server; it holds no code.
//
// Bytes come in at a listener, become a message, go through an engine, and
// leave by a listener or an adapter. Imports point down; internal/server
// builds a server from all of them, and from a configuration. The listeners
// ask internal/shed whether to serve a request.
//
//	           cmd/threeds ─── playground, threedstest
//	             ┌─────────┴──────────┬─────────────┐
//	      internal/server      internal/config      │
//	 ┌──────────┬┴───────────────┐                  │
//	api      results       directory, store/*   sandbox
//	 ├────┬─────┘                │               │
//	mpi  auth ─── account        │               │
//	 │    │                      │               │
//	v1  ranges scheme transid store              │
//	 │    └──────────┬───────────┘               │
//	xmldsig       message ◀──────────────────────┘
//	                 │
//	                iso
package threeds

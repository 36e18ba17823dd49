package store

import "context"

// A Surveyor is a [Store] that says where its tables lie. Both stores on disk are one.
type Surveyor interface {
	// Layout asks all servers of the store. It counts no row of a database with a server, but takes its estimates.
	Layout(ctx context.Context) (Layout, error)
}

// A Layout says where the tables of a [Store] lie.
type Layout struct {
	Engine  string        `json:"engine"`  // sqlite, postgres or citus
	Version string        `json:"version"` // of the engine and of what it is an extension of
	Nodes   []LayoutNode  `json:"nodes"`
	Tables  []LayoutTable `json:"tables"` // by name
}

// The roles of a node.
const (
	FileRole        = "file"        // a directory of this machine
	PrimaryRole     = "primary"     // the server that takes all writes
	CoordinatorRole = "coordinator" // the server of Citus that is asked
	WorkerRole      = "worker"      // a server of Citus with shards
)

// A LayoutNode is a server with tables, or the directory of a store without a server.
type LayoutNode struct {
	Name   string `json:"name"`   // HOST:PORT, or the path of the directory
	Role   string `json:"role"`   // FileRole and so on
	IsUp   bool   `json:"up"`     // it answers
	Shards int    `json:"shards"` // of distributed tables
	Bytes  *int64 `json:"bytes"`  // of the tables; nil: not known
}

// The kinds of a table.
const (
	LocalTable       = "local"       // it lies on one server
	ReferenceTable   = "reference"   // each server has a copy
	DistributedTable = "distributed" // its rows are spread over shards by their key
)

// A LayoutTable is a table.
type LayoutTable struct {
	Name   string        `json:"name"`
	Kind   string        `json:"kind"`          // LocalTable and so on
	Key    string        `json:"key,omitempty"` // the column by which a table is distributed
	Shards int           `json:"shards"`        // of a distributed table
	Places []LayoutPlace `json:"places"`        // the nodes that have rows of it
}

// A LayoutPlace is what a node has of a table.
type LayoutPlace struct {
	Node   string `json:"node"`
	Shards int    `json:"shards"` // of a distributed table
	Rows   *int64 `json:"rows"`   // an estimate; nil: not known
	Bytes  *int64 `json:"bytes"`  // with indexes; nil: not known
}

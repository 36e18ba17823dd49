package store

import (
	"context"
	"time"
)

// A Node is a process that serves with the store, as it tells the others.
type Node struct {
	ID   string
	Name string // what people call it; several nodes may have the same
	Note []byte // opaque; nil and empty are the same

	// Age is the time since the last PutNode, by the clock of the store. PutNode ignores it.
	Age time.Duration
}

// Nodes keep which processes serve. The store forgets none of them by itself: the caller decides by the age which of
// them are still alive.
type Nodes interface {
	// PutNode adds a node, or replaces the one with the same ID.
	PutNode(ctx context.Context, n Node) error

	// Nodes returns all nodes in the order of their IDs, byte by byte.
	Nodes(ctx context.Context) ([]Node, error)

	// RemoveNode removes a node. It is no error if there is none with that ID.
	RemoveNode(ctx context.Context, id string) error
}

package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// brokenNodes are the replaced methods of [store.Nodes].
type brokenNodes struct {
	putNode    func(context.Context, store.Node) error
	nodes      func(context.Context) ([]store.Node, error)
	removeNode func(context.Context, string) error
}

func (b *broken) PutNode(ctx context.Context, n store.Node) error {
	if b.brokenNodes.putNode != nil {
		return b.brokenNodes.putNode(ctx, n)
	}
	return b.Memory.PutNode(ctx, n)
}

func (b *broken) Nodes(ctx context.Context) ([]store.Node, error) {
	if b.brokenNodes.nodes != nil {
		return b.brokenNodes.nodes(ctx)
	}
	return b.Memory.Nodes(ctx)
}

func (b *broken) RemoveNode(ctx context.Context, id string) error {
	if b.brokenNodes.removeNode != nil {
		return b.brokenNodes.removeNode(ctx, id)
	}
	return b.Memory.RemoveNode(ctx, id)
}

// changeNodes has a broken store return its nodes changed.
func changeNodes(b *broken, change func([]store.Node) []store.Node) {
	b.brokenNodes.nodes = func(ctx context.Context) ([]store.Node, error) {
		all, err := b.Memory.Nodes(ctx)
		return change(all), err
	}
}

var brokenNodesStores = []sabotage{
	{"nodes have no age", "Nodes", func(b *broken, _ *clock) {
		changeNodes(b, func(all []store.Node) []store.Node {
			for i := range all {
				all[i].Age = 0
			}
			return all
		})
	}},
	{"nodes have no order", "Nodes", func(b *broken, _ *clock) {
		changeNodes(b, func(all []store.Node) []store.Node { slices.Reverse(all); return all })
	}},
	{"a node is not replaced", "Nodes", func(b *broken, _ *clock) {
		b.brokenNodes.putNode = func(ctx context.Context, n store.Node) error {
			b.mu.Lock()
			_, isThere := b.memory.nodes[n.ID]
			b.mu.Unlock()
			if isThere {
				return ctx.Err()
			}
			return b.Memory.PutNode(ctx, n)
		}
	}},
	{"no node is removed", "NodeRemoved", func(b *broken, _ *clock) {
		b.brokenNodes.removeNode = func(ctx context.Context, _ string) error { return ctx.Err() }
	}},
	{"a node that is not there cannot be removed", "NodeRemoved", func(b *broken, _ *clock) {
		b.brokenNodes.removeNode = func(ctx context.Context, id string) error {
			b.mu.Lock()
			_, isThere := b.memory.nodes[id]
			b.mu.Unlock()
			if !isThere {
				return cmpErr(ctx.Err(), store.ErrNotFound)
			}
			return b.Memory.RemoveNode(ctx, id)
		}
	}},
	{"old nodes are forgotten", "NodesStay", func(b *broken, _ *clock) {
		changeNodes(b, func(all []store.Node) []store.Node {
			return slices.DeleteFunc(all, func(n store.Node) bool { return n.Age > time.Hour })
		})
	}},
}

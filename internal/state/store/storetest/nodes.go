package storetest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A node is what a Memory holds of one, and when it was put.
type node struct {
	store.Node
	seen time.Time
}

// PutNode implements [store.Store].
func (s *Memory) PutNode(ctx context.Context, n store.Node) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	n.Note = bytes.Clone(n.Note)
	s.nodes[n.ID] = node{n, s.now()}
	return nil
}

// RemoveNode implements [store.Store].
func (s *Memory) RemoveNode(ctx context.Context, id string) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	delete(s.nodes, id)
	return nil
}

// Nodes implements [store.Store].
func (s *Memory) Nodes(ctx context.Context) (all []store.Node, err error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		n.Note, n.Age = bytes.Clone(n.Note), s.now().Sub(n.seen).Truncate(time.Millisecond)
		all = append(all, n.Node)
	}
	slices.SortFunc(all, func(a, b store.Node) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// putNode puts a node and returns it.
func (c *check) putNode(id, name, note string) store.Node {
	c.Helper()
	n := store.Node{ID: id, Name: name, Note: []byte(note), Age: time.Hour} // the age does not count
	if err := c.s.PutNode(c.Context(), n); err != nil {
		c.Errorf("PutNode(%q): %v", id, err)
	}
	clear(n.Note) // the store has kept no reference
	return store.Node{ID: id, Name: name, Note: []byte(note)}
}

// wantNodes checks which nodes there are, in this order.
func (c *check) wantNodes(want ...store.Node) {
	c.Helper()
	got, err := c.s.Nodes(c.Context())
	isSame := func(a, b store.Node) bool {
		return a.ID == b.ID && a.Name == b.Name && bytes.Equal(a.Note, b.Note) && a.Age == b.Age
	}
	if err != nil || !slices.EqualFunc(got, want, isSame) {
		c.Errorf("Nodes = %+v, %v; want %+v", got, err, want)
	}
}

func testNodes(c *check) {
	c.wantNodes()
	b := c.putNode("b", "one", "x")
	c.wantNodes(b)
	c.Pass(1500 * time.Millisecond)
	b.Age = 1500 * time.Millisecond
	upper, a := c.putNode("B", "", ""), c.putNode("a", "'; DROP TABLE nodes", "y")
	c.wantNodes(upper, a, b)
	c.Pass(time.Millisecond)
	upper.Age, a.Age = time.Millisecond, time.Millisecond
	b = c.putNode("b", "two", "z")
	c.wantNodes(upper, a, b)
}

func testNodeRemoved(c *check) {
	a := c.putNode("a", "one", "")
	c.putNode("b", "two", "")
	for range 2 {
		if err := c.s.RemoveNode(c.Context(), "b"); err != nil {
			c.Errorf("RemoveNode: %v", err)
		}
		c.wantNodes(a)
	}
}

// testNodesStay: no time that passes and no sweep removes a node, and reopening does not.
func testNodesStay(c *check) {
	a := c.putNode("a", "one", "x")
	c.Pass(1000 * time.Hour)
	a.Age = 1000 * time.Hour
	if _, err := c.s.Sweep(c.Context(), c.Now()); err != nil {
		c.Errorf("Sweep: %v", err)
	}
	c.wantNodes(a)
	if c.Reopen != nil {
		c.s = c.Reopen(c, c.s)
		c.wantNodes(a)
	}
}

func testShareNodes(c *check) {
	other := c.shared()
	defer other.s.Close() // the data is no longer needed
	a := c.putNode("a", "one", "x")
	other.wantNodes(a)
	if err := other.s.RemoveNode(c.Context(), "a"); err != nil {
		c.Errorf("RemoveNode: %v", err)
	}
	c.wantNodes()
}

package storetest

import (
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// testLayout: a [store.Surveyor] names what it is, its servers, and each table with the servers that have rows of it.
// What it says of servers is what it says of their tables, taken together.
func testLayout(c *check) {
	surveyor, ok := c.s.(store.Surveyor)
	if !ok {
		return
	}
	t := store.Txn{ID: "id", State: "sent", Data: []byte("data"), Expires: c.Now().Add(time.Hour)}
	if err := c.s.Create(c.Context(), t); err != nil {
		c.Fatal(err)
	}
	l, err := surveyor.Layout(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	if l.Engine == "" || l.Version == "" || len(l.Nodes) == 0 {
		c.Errorf("engine %q, version %q, %d nodes", l.Engine, l.Version, len(l.Nodes))
	}
	shards, nodes := map[string]int{}, map[string]bool{}
	for _, n := range l.Nodes {
		nodes[n.Name] = true
		if !n.IsUp || n.Bytes == nil {
			c.Errorf("node %+v: not up, or of no known size", n)
		}
	}
	for _, t := range l.Tables {
		placed := 0
		for _, p := range t.Places {
			placed += p.Shards
			shards[p.Node] += p.Shards
			if !nodes[p.Node] || p.Rows == nil {
				c.Errorf("table %s: place %+v is no node, or has no rows", t.Name, p)
			}
		}
		if len(t.Places) == 0 || placed != t.Shards || (t.Kind == store.DistributedTable) != (t.Key != "") {
			c.Errorf("table %+v: %d shards are placed", t, placed)
		}
	}
	for _, n := range l.Nodes {
		if n.Shards != shards[n.Name] {
			c.Errorf("node %s has %d shards, its tables %d", n.Name, n.Shards, shards[n.Name])
		}
	}
	for _, name := range []string{"api_keys", "audit", "deliveries", "events", "leases", "objects", "snapshots", "txns"} {
		if !slices.ContainsFunc(l.Tables, func(t store.LayoutTable) bool { return t.Name == name }) {
			c.Errorf("there is no table %s in %+v", name, l.Tables)
		}
	}
}

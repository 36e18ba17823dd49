package cluster_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/cluster"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// A world is a store with a clock that a test sets.
type world struct {
	*testing.T
	*storetest.Memory
	now time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, now: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)}
	w.Memory = storetest.NewMemory(func() time.Time { return w.now })
	return w
}

// putNote stores what a node says of itself.
func (w *world) putNote(id, name string, note cluster.Note) {
	w.Helper()
	data, err := json.Marshal(note)
	if err == nil {
		err = w.PutNode(w.Context(), store.Node{ID: id, Name: name, Note: data})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// want checks the states of the nodes, and what is found about them.
func (w *world) want(states string, findings ...string) []cluster.Member {
	w.Helper()
	all, err := cluster.Members(w.Context(), w.Memory, w.now)
	if err != nil {
		w.Fatal(err)
	}
	var got, texts []string
	for _, m := range all {
		got = append(got, m.Name+" "+m.State)
	}
	for _, f := range cluster.Compare(all, w.now) {
		texts = append(texts, f.Text)
	}
	if s := strings.Join(got, ", "); s != states || !slices.Equal(texts, findings) {
		w.Errorf("nodes: %q, want %q\nfindings: %q,\nwant %q", s, states, texts, findings)
	}
	return all
}

// TestNodesAreReadyDrainingOrSilent: by what they said last, and when. A node that ended in good order is not missed; a
// silent one is missed for a day, or until a node of its name is there.
func TestNodesAreReadyDrainingOrSilent(t *testing.T) {
	w := newWorld(t)
	w.want("")
	ready := cluster.Note{File: "k1", Status: cluster.Status{Release: "v1", Config: "c1", IsReady: true, Since: w.now}}
	unready, draining, stopped := ready, ready, ready
	unready.Status.IsReady, draining.Status.IsDraining, stopped.IsStopped = false, true, true
	w.putNote("1", "b", ready)
	w.putNote("2", "a", unready)
	w.putNote("3", "c", draining)
	w.putNote("4", "d", stopped)
	w.want("a unready, b ready, c draining")
	w.now = w.now.Add(cluster.SilentAfter - time.Millisecond)
	w.want("a unready, b ready, c draining")
	w.putNote("2", "a", ready)
	w.putNote("3", "c", stopped)
	w.now = w.now.Add(time.Millisecond)
	w.want("a ready, b silent", "Node b has been silent since 1 Mar 12:00:00 UTC")
	w.putNote("5", "b", ready)
	w.want("a ready, b ready")
	w.putNote("5", "b", stopped)
	w.now = w.now.Add(cluster.MissedFor)
	w.putNote("2", "a", ready)
	w.want("a ready, b silent")
}

// TestNodesThatDifferAreNamed: with what they differ in. What a silent node ran with does not count.
func TestNodesThatDifferAreNamed(t *testing.T) {
	w := newWorld(t)
	note := cluster.Note{File: "k1", Status: cluster.Status{Release: "v1", Config: "c1", JournalKeys: "j1", IsReady: true}}
	other := cluster.Note{File: "k2", Status: cluster.Status{Release: "v2", Config: "c2", IsReady: true}}
	w.putNote("1", "a", note)
	w.putNote("2", "b", note)
	w.want("a ready, b ready")
	w.putNote("3", "c", other)
	w.want("a ready, b ready, c ready",
		"Nodes differ in their release: v1 on a and b, v2 on c", "Nodes differ in their configuration: c1 on a and b, c2 on c",
		"Nodes differ in their key file: k1 on a and b, k2 on c", "Nodes differ in their journal's key file: j1 on a and b, none on c")
	w.now = w.now.Add(cluster.SilentAfter)
	w.putNote("1", "a", note)
	w.putNote("2", "b", note)
	w.want("a ready, b ready, c silent", "Node c has been silent since 1 Mar 12:00:00 UTC")
}

// TestProblemsOfANodeAreApartFromThoseThatAreOver.
func TestProblemsOfANodeAreApartFromThoseThatAreOver(t *testing.T) {
	w := newWorld(t)
	w.putNote("1", "a", cluster.Note{Status: cluster.Status{Problems: []cluster.Problem{
		{Part: "store", Text: "cannot be reached", Since: w.now.Add(-time.Hour), Over: w.now},
		{Part: "journal", Text: "is not written", Since: w.now},
	}}})
	m := w.want("a unready")[0]
	if len(m.Problems) != 1 || m.Problems[0].Part != "journal" || len(m.Past) != 1 || m.Past[0].Part != "store" {
		t.Errorf("problems %+v, past %+v", m.Problems, m.Past)
	}
}

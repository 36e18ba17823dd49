// Package cluster says which processes serve with one store, and how each of them is. Use [Members] for what they have
// told, and [Compare] for where they differ or are silent. A node tells it with its sign of life, see package rotation.
package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	// SilentAfter is how long after its last word a node counts as silent. It tells every ten seconds that it serves.
	SilentAfter = 40 * time.Second

	// WayTo begins the part of a problem that is a directory server which cannot be reached; its scheme follows.
	WayTo = "way to "

	// MissedFor is how long a silent node is missed. Then it is taken for one that does not come back.
	MissedFor = 24 * time.Hour
)

// A Note is what a node tells the others of itself, apart from its secrets.
type Note struct {
	File      string `json:"file"`                // id of the current secret in its key file
	IsStopped bool   `json:"isStopped,omitempty"` // it has ended in good order
	Status    Status `json:"status,omitzero"`
}

// A Status is how a node is.
type Status struct {
	Release     string    `json:"release"`
	Since       time.Time `json:"since"` // when the process began
	IsReady     bool      `json:"ready"`
	IsDraining  bool      `json:"draining,omitempty"`
	Config      string    `json:"config,omitempty"`      // the hash of the configuration in use
	JournalKeys string    `json:"journalKeys,omitempty"` // id of the keys in the file of the journal
	Problems    []Problem `json:"problems,omitempty"`    // the oldest first, also those that are over
}

// A Problem is something that is not well with a node, or was not.
type Problem struct {
	Part  string    `json:"part"` // as /readyz names it, or WayTo and a scheme
	Text  string    `json:"text"`
	Since time.Time `json:"since"`
	Over  time.Time `json:"over,omitzero"` // zero: it is not over
}

// The states of a node.
const (
	Ready    = "ready"
	Unready  = "unready"
	Draining = "draining" // it ends, and finishes what it has begun
	Silent   = "silent"   // it has said nothing for SilentAfter
)

// A Member is a node as operators see it.
type Member struct {
	Name        string    `json:"name"`
	State       string    `json:"state"` // ready, unready, draining or silent
	Release     string    `json:"release"`
	Since       time.Time `json:"since"`   // when the process began
	Seen        time.Time `json:"seen"`    // its last word
	Config      string    `json:"config"`  // the hash of the configuration in use
	KeyFile     string    `json:"keyFile"` // id of the current secret in its key file
	JournalKeys string    `json:"journalKeyFile,omitempty"`
	Problems    []Problem `json:"problems"` // that are not over
	Past        []Problem `json:"-"`        // that are
}

// NewMember returns a node that spoke last at a time.
func NewMember(name string, note Note, seen, now time.Time) Member {
	s := note.Status
	m := Member{
		Name: name, State: Unready, Release: s.Release, Since: s.Since.UTC(), Seen: seen.UTC().Truncate(time.Second),
		Config: s.Config, KeyFile: note.File, JournalKeys: s.JournalKeys, Problems: []Problem{},
	}
	switch {
	case now.Sub(seen) >= SilentAfter:
		m.State = Silent
	case s.IsDraining:
		m.State = Draining
	case s.IsReady:
		m.State = Ready
	}
	for _, p := range s.Problems {
		if p.Over.IsZero() {
			m.Problems = append(m.Problems, p)
		} else {
			m.Past = append(m.Past, p)
		}
	}
	return m
}

// Members returns the nodes of a store by name: those that serve, and those that are silent. Nodes that have ended in
// good order are none of them, nor is a silent one whose successor has its name.
func Members(ctx context.Context, st store.Nodes, now time.Time) ([]Member, error) {
	rows, err := st.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	all := []Member{}
	for _, row := range rows {
		var note Note
		if err := json.Unmarshal(row.Note, &note); err != nil {
			return nil, fmt.Errorf("node %q: %w", row.Name, err)
		}
		if !note.IsStopped {
			all = append(all, NewMember(row.Name, note, now.Add(-row.Age), now))
		}
	}
	lives := map[string]bool{}
	for _, m := range all {
		lives[m.Name] = lives[m.Name] || m.State != Silent
	}
	all = slices.DeleteFunc(all, func(m Member) bool { return m.State == Silent && lives[m.Name] })
	slices.SortStableFunc(all, func(a, b Member) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Since.Compare(b.Since))
	})
	return all, nil
}

// A Finding is something about all nodes together that needs attention.
type Finding struct {
	Key   string    // the same as long as it is the same thing
	Text  string    // a sentence without its full stop
	Since time.Time // zero: it is not known
}

// Compare says where the nodes that serve do not run with the same, and which nodes are silent.
func Compare(all []Member, now time.Time) (findings []Finding) {
	for _, of := range []struct {
		what  string
		value func(*Member) string
	}{
		{"release", func(m *Member) string { return m.Release }},
		{"configuration", func(m *Member) string { return m.Config }},
		{"key file", func(m *Member) string { return m.KeyFile }},
		{"journal's key file", func(m *Member) string { return m.JournalKeys }},
	} {
		names := map[string][]string{}
		var values []string
		for i := range all {
			if m := &all[i]; m.State != Silent {
				value := cmp.Or(of.value(m), "none")
				if names[value] == nil {
					values = append(values, value)
				}
				names[value] = append(names[value], m.Name)
			}
		}
		if len(values) < 2 {
			continue
		}
		for i, value := range values {
			values[i] = value + " on " + strings.Join(names[value], " and ")
		}
		findings = append(findings, Finding{
			Key: "differ in " + of.what, Text: "Nodes differ in their " + of.what + ": " + strings.Join(values, ", "),
		})
	}
	for i := range all {
		if m := &all[i]; m.State == Silent && now.Sub(m.Seen) < MissedFor {
			findings = append(findings, Finding{
				"silent " + m.Name, fmt.Sprintf("Node %s has been silent since %s", m.Name, m.Seen.Format("2 Jan 15:04:05 UTC")),
				m.Seen,
			})
		}
	}
	return findings
}

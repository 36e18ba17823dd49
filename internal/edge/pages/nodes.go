package pages

import (
	"strconv"
	"time"

	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/internal/state/cluster"
)

// A nodeRow is a node as the page shows it.
type nodeRow struct {
	cluster.Member
	Pill pill
	Age  string // Age says how long ago the node was last heard of.
}

// nodePill returns the state of a node in words.
func nodePill(state string) pill {
	switch state {
	case cluster.Ready:
		return pill{"good", "check", "Ready"}
	case cluster.Draining:
		return pill{"info", "clock", "Draining"}
	case cluster.Silent:
		return pill{"bad", "cross", "Silent"}
	}
	return pill{"bad", "cross", "Not ready"}
}

// describeAge says how old a word is, to the second.
func describeAge(age time.Duration) string {
	if age < 2*time.Minute {
		return strconv.Itoa(int(max(0, age)/time.Second)) + " s"
	}
	return lanes.Span(age.Milliseconds())
}

// A nodesView is the data of the page of nodes.
type nodesView struct {
	Nodes    []nodeRow
	Findings []cluster.Finding
}

func nodesPage(h *Handler, v *visit) (result, error) {
	start := time.Now()
	all, err := h.Admin.ListNodes(v.Context(), v.session.Actor)
	if err != nil {
		return result{}, err
	}
	now := h.Now()
	view := nodesView{Findings: cluster.Compare(all, now)}
	for _, m := range all {
		view.Nodes = append(view.Nodes, nodeRow{m, nodePill(m.State), describeAge(now.Sub(m.Seen))})
	}
	return result{template: "nodes", title: "Nodes", data: view, db: time.Since(start)}, nil
}

package admin

import (
	"context"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/state/cluster"
)

// ListNodes returns the nodes that share the store.
func (h *Handler) ListNodes(ctx context.Context, by operator.Actor) ([]cluster.Member, error) {
	if err := ops.Find("nodes").Check(&by); err != nil {
		return nil, err
	}
	if h.Node == nil {
		return nil, errNoNode
	}
	return h.Node.Members(ctx)
}

// noticesOfNodes says where nodes differ, and which are silent.
func (h *Handler) noticesOfNodes(all []cluster.Member) (notices []Notice) {
	for _, f := range cluster.Compare(all, h.Now()) {
		text, help := "Each says what it runs with. During a change of one node after the other that is as it should be.",
			stateHelp+"nodesdiffer"
		if !f.Since.IsZero() {
			text = "It has ended without a word, or cannot reach the store. Its load balancer must not send it requests."
			help = alertsHelp + "nodenotready"
		}
		notices = append(notices, Notice{
			Key: "nodes " + f.Key, Level: LevelWarning, Title: f.Text, Text: text, Link: "/nodes", Do: "See nodes",
			Help: help, Since: f.Since,
		})
	}
	return notices
}

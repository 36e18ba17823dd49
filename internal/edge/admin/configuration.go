package admin

import (
	"context"
	"net/http"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
)

// A Configuration is what this node runs with, and what a reload of its file would change.
type Configuration struct {
	File     string          `json:"file"`
	Settings []Setting       `json:"settings"`
	Changes  []SettingChange `json:"changes"` // from what is in use to what is in the file
	Faults   []string        `json:"faults"`  // why a start with the file would fail; then there are no changes
}

// A Setting is one key of the configuration in use, as "threeds config show" lists it. It never holds a secret: of
// those it has the file.
type Setting struct {
	Key        string `json:"key"`
	Value      string `json:"value,omitempty"`
	SecretFile string `json:"secretFile,omitempty"`
	Source     string `json:"source" schema:"enum=file|store|default"`
	Line       int    `json:"line,omitempty"` // where it is in the file
}

// A SettingChange is a key whose value in the file is not the one in use, as "threeds config diff" lists it.
type SettingChange struct {
	Key          string `json:"key"`
	Before       string `json:"before,omitempty"`
	After        string `json:"after,omitempty"`
	NeedsRestart bool   `json:"needsRestart"` // a running server refuses the file because of this key
	Line         int    `json:"line,omitempty"`
}

func showConfiguration(h *Handler, r *request) (any, error) {
	return h.ShowConfiguration(r.Context(), r.actor)
}

// HasConfiguration reports whether this node runs by a configuration file.
func (h *Handler) HasConfiguration() bool {
	return h.Node != nil && h.Node.HasFile != nil && h.Node.HasFile()
}

// ShowConfiguration returns the configuration of this node.
func (h *Handler) ShowConfiguration(_ context.Context, by operator.Actor) (*Configuration, error) {
	if err := ops.Find("config show").Check(&by); err != nil {
		return nil, err
	}
	if h.HasConfiguration() {
		return h.Node.Configuration(), nil
	}
	return nil, refuse(http.StatusNotFound, "This server has no configuration file.")
}

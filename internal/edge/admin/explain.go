package admin

import (
	"cmp"
	"encoding/json"
	"net/http"
)

// maxExplained is the length of the longest body to explain.
const maxExplained = 256 << 10

// maxBody returns the length of the longest body of an operation.
func (rt *route) maxBody() int64 {
	switch rt.path {
	case "explain":
		return maxExplained
	case "certificates/{scheme}/install":
		return maxCertificates
	}
	return maxBody
}

// explainSchema describes a body of explain: one of /auth or of an authentication, or a text with a message.
var explainSchema = map[string]any{"type": []string{"object", "string"}}

// explain explains the body of a request, or the text that a JSON string has. It is in no log and no audit trail.
func explain(h *Handler, r *request) (any, error) {
	name := cmp.Or(r.URL.Query().Get("merchant"), r.actor.Merchant)
	if name != "" {
		if _, err := h.Merchant(r.Context(), r.actor, name); err != nil {
			return nil, err
		}
	}
	text, pasted := r.body, ""
	if json.Unmarshal(r.body, &pasted) == nil {
		text = []byte(pasted)
	}
	if len(text) > maxExplained {
		return nil, refuse(http.StatusBadRequest, "The text has more than %d bytes.", maxExplained)
	}
	answer, err := h.Explain(name, text)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "There is nothing to explain in it: %v.", err)
	}
	return answer, nil
}

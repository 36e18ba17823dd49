package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
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

// explain explains the body of a request, or the text that a JSON string has. It is in no log and no audit trail.
func explain(h *Handler, r *request) (any, error) {
	text, pasted := r.body, ""
	if json.Unmarshal(r.body, &pasted) == nil {
		text = []byte(pasted)
	}
	return h.ExplainText(r.Context(), r.actor, r.URL.Query().Get("merchant"), text)
}

// ExplainText says what is wrong with a text, for a merchant; "" is that of the actor. It is in no
// log and no audit trail.
func (h *Handler) ExplainText(ctx context.Context, by operator.Actor, merchant string,
	text []byte) (json.RawMessage, error) {
	if err := ops.Find("explain").Check(&by); err != nil {
		return nil, err
	}
	if merchant = cmp.Or(merchant, by.Merchant); merchant != "" {
		if _, err := h.Merchant(ctx, by, merchant); err != nil {
			return nil, err
		}
	}
	if len(text) > maxExplained {
		return nil, refuse(http.StatusBadRequest, "The text has more than %d bytes.", maxExplained)
	}
	answer, err := h.Explain(merchant, text)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "There is nothing to explain in it: %v.", err)
	}
	return answer, nil
}

package pages

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/edge/lanes"
)

// An explained is what the admin API says of a text.
type explained struct {
	Kind, Verdict          string
	Scheme, MessageVersion string
	Errors                 []struct {
		Pointer, Code, Rule, Cure, Source string
	}
	Warnings           []struct{ Text string }
	Normalised         []struct{ Pointer, Rule string }
	SchemeFindings     []api.SchemeFinding
	Lines              []string
	Message, WouldSend json.RawMessage // masked
}

// IsValid reports whether nothing is wrong.
func (e *explained) IsValid() bool { return e.Verdict == "valid" }

// IsRequest reports whether the text was a request of a merchant.
func (e *explained) IsRequest() bool { return e.Kind == "request" }

// An explainView is the data of the page. What was pasted is not in it: it may have a whole card number.
type explainView struct {
	Merchants []choice
	HasOne    bool // the visitor sees one merchant
	Fault     string
	Got       *explained
	Findings  findingsView
	Groups    []lanes.Group
	Raw       string
}

func (h *Handler) newExplainView(v *visit) (view *explainView, err error) {
	view = &explainView{HasOne: v.session.Actor.Merchant != ""}
	view.Merchants, err = h.merchantChoices(v, v.PostForm.Get("merchant"))
	return view, err
}

func explainPage(h *Handler, v *visit) (result, error) {
	view, err := h.newExplainView(v)
	return result{template: "explain", title: "Explain", data: view}, err
}

// explainText explains what was pasted. Nothing keeps it, and the page shows it masked.
func explainText(h *Handler, v *visit) (result, error) {
	view, err := h.newExplainView(v)
	if err != nil {
		return result{}, err
	}
	got := result{template: "explain", title: "Explain", data: view}
	var answer explained
	said, err := h.Admin.ExplainText(v.Context(), v.session.Actor, v.PostForm.Get("merchant"),
		[]byte(strings.TrimSpace(v.PostForm.Get("text"))))
	if view.Fault, err = faultOf(err); err == nil && view.Fault == "" {
		err = json.Unmarshal(said, &answer)
	}
	if err != nil {
		return result{}, err
	}
	if got.status = faultStatus(view.Fault); view.Fault != "" {
		return got, nil
	}
	view.Got, view.Findings = &answer, newFindingsView(answer.Scheme, answer.SchemeFindings)
	shown := answer.WouldSend
	if !answer.IsRequest() {
		shown = answer.Message
	}
	if len(shown) > 0 && string(shown) != "null" {
		var text bytes.Buffer
		if json.Indent(&text, shown, "", "  ") == nil {
			view.Raw = text.String()
		}
		explainer := lanes.Explainer{Meaning: h.scheme(answer.Scheme).Rules.Meaning}
		view.Groups = explainer.Explain(shown)
	}
	return got, nil
}

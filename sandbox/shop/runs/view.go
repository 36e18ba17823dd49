package runs

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/edge/lanes"
)

// A View is a run as the page shows it.
type View struct {
	ID       string
	Drawing  *lanes.Drawing
	Card     *lanes.Card // the message that the address chooses
	Changes  []string    // what the server changed of the request
	Findings []string
	Console  string // the address of the same in the console; "": there is none
	Module   string // the address of threeds.js
	Runs     []Summary
}

// A Summary is a run in the list.
type Summary struct {
	ID, Card, At, Took string
	Word, Class        string // the state
	Current            bool
}

// View returns a run with one of its steps chosen by the address; nil if it is not remembered.
func (h *History) View(ctx context.Context, id string, asked url.Values) *View {
	h.mu.Lock()
	r := h.find(id)
	if r == nil {
		h.mu.Unlock()
		return nil
	}
	steps, token := slices.Clone(r.steps), r.token
	scheme, version := r.last.Card.Scheme, r.last.MessageVersion
	h.mu.Unlock()

	v := &View{ID: id, Module: h.Server + "/threeds.js", Runs: h.summaries(id)}
	if source := h.source(); source != nil {
		beyond := source.Steps(ctx, id, token)
		for i := range beyond {
			if beyond[i].Step == "request" {
				v.Changes = append(v.Changes, beyond[i].Findings...)
			} else {
				v.Findings = append(v.Findings, beyond[i].Findings...)
				steps = append(steps, beyond[i])
			}
		}
		if at := source.ConsoleURL(); at != "" {
			v.Console = at + "/authentications/" + url.PathEscape(id)
		}
	}
	slices.SortStableFunc(steps, compareSteps)
	h.draw(v, steps, parties(string(scheme), string(version)), asked)
	return v
}

// source returns the source of the steps beyond the shop; nil if there is none.
func (h *History) source() Source {
	if h.Source == nil {
		return nil
	}
	return h.Source()
}

// draw adds the drawing, and the message that the address chooses.
func (h *History) draw(v *View, steps []lanes.Step, parties []lanes.Party, asked url.Values) {
	names := make([]string, len(steps))
	for i := range steps {
		names[i] = steps[i].Step
	}
	keys := lanes.Keys(names)
	chosen, open := asked.Get("step"), unanswered(steps)
	openKey := ""
	if open >= 0 {
		openKey = keys[open]
	}
	for _, telling := range []string{openKey, "rreq", "ares", "erro", "told", "webhook", keys[len(keys)-1]} {
		if !slices.Contains(keys, chosen) {
			chosen = telling
		}
	}
	hops := make([]lanes.Hop, len(steps))
	for i := range steps {
		hops[i] = newHop(&steps[i])
		to := url.Values{"authentication": {v.ID}, "step": {keys[i]}}
		hops[i].Key, hops[i].Link = keys[i], "/order?"+to.Encode()+"#message"
	}
	v.Drawing = lanes.Draw(parties, hops, chosen)
	at := slices.Index(keys, chosen)
	text := plain(&steps[at])
	if at == open {
		text += " No answer that could be used has come."
	}
	v.Card = lanes.NewCard(&v.Drawing.Rows[at], text, steps[at].Message, lanes.Explainer{
		Docs: h.Docs, Amount: h.Price, Other: func(path string) (meaning, ref string) {
			meaning, page := explain(path)
			if h.Docs == "" || page == "" {
				return meaning, ""
			}
			return meaning, h.Docs + page
		},
	})
}

// answers are the steps that answer a message to another party.
var answers = map[string][]string{"areq": {"ares", "erro"}, "creq": {"cres", "rreq", "bank.erro"}}

// unanswered returns the index of the last message to which no answer came, -1 if there is none. An answer without a
// message is the server's own note that none came.
func unanswered(steps []lanes.Step) int {
	for i, s := range slices.Backward(steps) {
		isAnswer := func(later lanes.Step) bool {
			return slices.Contains(answers[s.Step], later.Step) && len(later.Message) > 0
		}
		if answers[s.Step] != nil && !slices.ContainsFunc(steps[i+1:], isAnswer) {
			return i
		}
	}
	return -1
}

// newHop returns how a step of a run is drawn. All parties are in the sandbox, so nothing is unseen.
func newHop(s *lanes.Step) lanes.Hop {
	h := lanes.HopOf(s.Step, s.Message)
	h.At, h.Name, h.Gist = s.At, cmp.Or(s.Name, h.Name), cmp.Or(s.Gist, h.Gist)
	if h.Beyond == lanes.Unseen {
		h.Beyond = lanes.Seen
	}
	if s.Step == "challenge" { // the CReq of the browser is the next
		h.Waits, h.Doing = lanes.Browser, ""
	}
	return h
}

// plain says in a sentence what a step says.
func plain(s *lanes.Step) string {
	if s.Step == "request" {
		return "One call begins it. Four members are enough; the merchant's profile has the others."
	}
	return lanes.Plain(s.Step, s.Message)
}

// parties returns what stands above the lanes.
func parties(scheme, version string) []lanes.Party {
	directory := "Directory"
	if scheme != "" {
		directory = strings.ToUpper(scheme[:1]) + scheme[1:]
	}
	return []lanes.Party{
		{Name: "Browser", Sub: "of the shopper"}, {Name: "Shop", Sub: "Fjord Audio"}, {Name: "threeds", Sub: "this server"},
		{Name: directory, Sub: strings.TrimSpace("directory " + version)}, {Name: "Issuer", Sub: "of the sandbox"},
	}
}

// order is how steps of the same millisecond follow each other.
var order = []string{
	"pay", "request", "created", "handed", "hosted", "begin", "method.asked", "method", "method.done", "method.notice",
	"lookup", "spc.answer", "areq", "ares", "spc", "erro", "complaint", "challenge", "creq", "rreq", "rres", "cres",
	"bank.erro", "cres.notice", "confirm", "cancel", "cancelled", "expired", "end", "webhook", "order", "asked", "told",
}

// compareSteps orders steps by their time, to the millisecond.
func compareSteps(a, b lanes.Step) int {
	byTime := cmp.Compare(a.At.UnixMilli(), b.At.UnixMilli())
	return cmp.Or(byTime, cmp.Compare(slices.Index(order, a.Step), slices.Index(order, b.Step)))
}

// summaries returns the runs, newest first. Current is the id of the one that is shown.
func (h *History) summaries(current string) []Summary {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Summary
	for _, r := range h.runs {
		s := Summary{ID: r.id, Card: r.last.Card.Last4, At: r.begun.UTC().Format("15:04:05"), Current: r.id == current}
		s.Word, s.Class = r.state()
		if r.took > 0 {
			s.Took = lanes.Span(r.took.Milliseconds())
		}
		all = append(all, s)
	}
	return all
}

// states are the words and classes of results and, before the end, of status. They are those of the console.
var states = map[string][2]string{
	"authenticated": {"Authenticated", "good"}, "attempted": {"Attempted", "info"},
	"informational": {"Informational", "info"}, "data_only": {"Data only", "info"},
	"not_authenticated": {"Not authenticated", "bad"}, "rejected": {"Rejected", "bad"},
	"unavailable": {"Unavailable", "calm"}, "not_enrolled": {"Not enrolled", "calm"}, "abandoned": {"Abandoned", "warn"},
	"bank_unreachable": {"Bank unreachable", "warn"},
	"error":            {"Failed", "bad"}, "requires_browser": {"Waiting for the browser", "info"},
	"challenge": {"Waiting for the shopper", "info"}, "decoupled": {"Waiting for the bank", "info"},
	"in_progress": {"Waiting for the directory", "info"},
}

// state returns how far a run has come, in words.
func (r *run) state() (word, class string) {
	key := string(r.last.Status)
	if r.last.Outcome != nil {
		key = string(r.last.Outcome.Result)
	}
	s, ok := states[key]
	if !ok {
		return cmp.Or(key, "Begun"), "calm"
	}
	return s[0], s[1]
}

// Package runs remembers the last payments of the demo shop, and shows each as the messages that passed
// between browser, shop, server, directory server and issuer. Set the fields of a [History], have it see the
// shop's requests with [History.Watch] and [History.Transport], and show a run with [History.View].
// [History.Register] has its own pages.
//
// Messages are masked when they come. The request of each run is kept whole, so that it can be made again: the cards of
// the demo shop are test cards.
package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/base/answered"
	"github.com/openthreeds/threeds/internal/edge/lanes"
)

// keep is how many runs are remembered.
const keep = 20

// A Source tells what passed beyond the shop.
type Source interface {
	// Steps returns what is known of an authentication, oldest first. Messages are masked. The token is the one that
	// its browser has.
	Steps(ctx context.Context, id, token string) []lanes.Step
	// ConsoleURL is the address of a console that shows the same; "" if there is none.
	ConsoleURL() string
}

// A History is the last runs of a shop. Set its fields before use.
type History struct {
	Server string // the address of the server, for browsers
	Key    string // an API key that everybody may know; "": the curl line has $KEY in its place
	Price  string // of what is sold, for people
	Docs   string // the address of the documentation, with a slash at the end; "": elements have no links to it
	Source func() Source
	Now    func() time.Time
	Log    *slog.Logger

	// Authenticate makes a request again, and Base is the address of the shop for a browser.
	Authenticate func(ctx context.Context, request map[string]any) (*client.Authentication, error)
	Base         func(r *http.Request) string
	// Page shows a page of a template of [AddTemplates].
	Page func(w http.ResponseWriter, status int, name string, data any)

	mu   sync.Mutex
	runs []*run // newest first
}

// A run is one payment. The lock of its history guards it.
type run struct {
	id, token string
	begun     time.Time
	request   []byte // as the shop sent it
	steps     []lanes.Step
	last      api.AuthenticationSummary // what the server said last, without its messages
	took      time.Duration             // until it was over
}

// has reports whether a run has a step.
func (r *run) has(step string) bool {
	return slices.ContainsFunc(r.steps, func(s lanes.Step) bool { return s.Step == step })
}

// find returns a run; nil if it is not remembered. The caller holds the lock.
func (h *History) find(id string) *run {
	i := slices.IndexFunc(h.runs, func(r *run) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	return h.runs[i]
}

// A visit is one request of a browser to the shop. Run is what came of it.
type visit struct {
	step lanes.Step
	run  *run
}

type visitKey struct{}

// maxBody is the length of the longest request that is remembered.
const maxBody = 64 << 10

// Watch reports requests of browsers to the history. Step is "pay", which begins a run, or "order", which asks for one.
func (h *History) Watch(step string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{step: lanes.Step{Step: step, Name: r.Method + " " + r.URL.Path, At: h.Now()}}
		if step == "order" {
			h.addVisit(r.FormValue("authentication"), v)
		} else {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			if err != nil {
				http.Error(w, "The request is too long.", http.StatusRequestEntityTooLarge)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			v.step.Message = mask(body)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
		h.mu.Lock()
		defer h.mu.Unlock()
		if v.run != nil {
			id, _ := json.Marshal(map[string]string{"id": v.run.id}) // strings alone
			v.run.steps = append(v.run.steps, lanes.Step{Step: "handed", At: h.Now(), Message: id})
		}
	})
}

// addVisit adds the first request for the end of a run.
func (h *History) addVisit(id string, v *visit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.find(id); r != nil && !r.has(v.step.Step) {
		r.steps = append(r.steps, v.step)
	}
}

// WatchEvents reports the events that a handler accepts to the history.
func (h *History) WatchEvents(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		r.Body = io.NopCloser(io.TeeReader(r.Body, &body)) // the handler says how much of it is read
		seen := &answered.Writer{ResponseWriter: w}
		next.ServeHTTP(seen, r)
		if seen.Status < http.StatusMultipleChoices {
			h.addEvent(body.Bytes())
		}
	})
}

// addEvent adds an event that the server posted to the shop, once.
func (h *History) addEvent(body []byte) {
	var event api.Event[api.AuthenticationSummary]
	if json.Unmarshal(body, &event) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.find(event.Data.ID); r != nil && !r.has("webhook") {
		r.steps = append(r.steps, lanes.Step{Step: "webhook", At: h.Now(), Gist: string(event.Type), Message: mask(body)})
		h.setLast(r, event.Data)
	}
}

// add remembers a run that has just begun. The caller holds the lock.
func (h *History) add(r *run) {
	h.runs = slices.Insert(h.runs, 0, r)
	h.runs = h.runs[:min(len(h.runs), keep)]
}

// setLast keeps what the server has said about a run. The caller holds the lock.
func (h *History) setLast(r *run, a api.AuthenticationSummary) {
	if r.last.IsFinal() {
		return
	}
	r.last = a
	if a.IsFinal() {
		r.took = h.Now().Sub(r.begun)
	}
}

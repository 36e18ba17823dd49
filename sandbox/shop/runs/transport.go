package runs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/edge/lanes"
)

// A transport reports the shop's requests to the server to a history.
type transport struct {
	http.RoundTripper
	history *History
}

// Transport returns a client that makes the same calls as c, or as a new client if c is nil. It reports the calls that
// begin authentications, or ask for them, to the history.
func (h *History) Transport(c *http.Client) *http.Client {
	if c == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.IdleConnTimeout = 30 * time.Second // the server closes after 60 s at the earliest
		c = &http.Client{Transport: own}
	}
	watched := *c
	if watched.Transport == nil {
		watched.Transport = http.DefaultTransport
	}
	watched.Transport = transport{watched.Transport, h}
	return &watched
}

// CloseIdleConnections closes connections that are not in use.
func (t transport) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	isBegin := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/authentications")
	isAsk := r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/authentications/")
	if !isBegin && !isAsk {
		return t.RoundTripper.RoundTrip(r)
	}
	sent := t.history.Now()
	var request []byte
	if r.Body != nil {
		var err error
		if request, err = io.ReadAll(r.Body); err != nil {
			return nil, errors.Join(err, r.Body.Close())
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(request))
	}
	res, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	var a api.Authentication
	if json.Unmarshal(raw, &a) != nil || a.ID == "" || res.StatusCode >= http.StatusBadRequest {
		return res, nil // the shop says so
	}
	if isBegin {
		v, _ := r.Context().Value(visitKey{}).(*visit)
		t.history.addRun(v, sent, request, &a, raw)
	} else {
		t.history.addAnswer(sent, &a, raw)
	}
	return res, nil
}

// addRun remembers an authentication that has begun.
func (h *History) addRun(v *visit, sent time.Time, request []byte, a *api.Authentication, raw []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := &run{id: a.ID, begun: sent, request: request}
	if v != nil {
		n.begun, v.run = v.step.At, n
		n.steps = append(n.steps, v.step)
	}
	if a.Browser != nil {
		n.token = a.Browser.Token
	}
	h.setLast(n, a.AuthenticationSummary)
	n.steps = append(n.steps,
		lanes.Step{Step: "request", Name: "POST /authentications", Gist: h.Price, At: sent, Message: mask(request)},
		lanes.Step{Step: "created", Gist: cmp.Or(string(a.Status), "begun"), At: h.Now(), Message: mask(raw)})
	h.add(n)
}

// addAnswer remembers what the server said about a run. Once the end is known, it keeps nothing more.
func (h *History) addAnswer(sent time.Time, a *api.Authentication, raw []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.find(a.ID)
	if r == nil || r.last.IsFinal() && r.has("told") {
		return
	}
	h.setLast(r, a.AuthenticationSummary)
	gist := string(a.Status)
	if a.Outcome != nil {
		gist = string(a.Outcome.Result)
	}
	r.steps = append(r.steps, lanes.Step{Step: "asked", At: sent},
		lanes.Step{Step: "told", Gist: gist, At: h.Now(), Message: mask(raw)})
}

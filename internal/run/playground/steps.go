package playground

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
)

// Steps returns what passed in an authentication, with its messages masked: what the server's journal has about it,
// what directory servers and issuers saw, and what its browser did at the server. The browser is known by its token.
// The steps are in no order.
func (p *Playground) Steps(ctx context.Context, id, token string) []lanes.Step {
	var all []lanes.Step
	for _, e := range p.Sandbox.Received(id) {
		if step := stepOf(&e); step != "" {
			all = append(all, lanes.Step{Step: step, At: e.At, Message: maskExchange(&e)})
		}
	}
	all = append(all, p.browsers.steps(token)...)
	all = append(all, p.browsers.steps(id)...)
	journal := p.server.Journal()
	if journal == nil {
		return all
	}
	record, err := journal.Show(ctx, id)
	if err != nil {
		return all // it is written a moment later
	}
	seen := len(all)
	isThere := map[string]bool{}
	for _, s := range record.Steps {
		if s.Step == "answered" || s.Step == "webhook" {
			continue // the shop knows better when it got the event
		}
		i := slices.IndexFunc(all[:seen], func(other lanes.Step) bool { return other.Step == s.Step })
		isAgain := isThere[s.Step] // the second AReq of SPC and its answer have another id, and are none that were seen
		isThere[s.Step] = true
		if i < 0 || isAgain {
			all = append(all, lanes.Step{Step: s.Step, At: s.At, Message: s.Message, Findings: s.Findings})
			continue
		}
		all[i].Findings = s.Findings
		if !slices.Contains(seenByIssuer, s.Step) {
			all[i].At = s.At
		}
		if len(s.Message) > 0 {
			all[i].Message = s.Message
		}
	}
	return all
}

// seenByIssuer are the steps of the browser that the issuer sees when they happen. The server knows a
// moment before or after.
var seenByIssuer = []string{"method", "challenge", "creq", "cres"}

// stepOf returns the step that an exchange of the sandbox is; "" for what is no part of a payment in a browser.
func stepOf(e *sandbox.Exchange) string {
	switch {
	case e.Body == "":
		return "" // it did not come
	case e.Type == "threeDSMethodData" && e.From == "browser":
		return "method"
	case e.Type == "threeDSMethodData":
		return "method.done"
	case e.Type == "Erro" && e.From == "server":
		return "complaint"
	case e.Type == "Erro" && e.From == "acs":
		return "bank.erro"
	case slices.Contains([]string{"AReq", "ARes", "CReq", "CRes", "RReq", "RRes", "Erro"}, e.Type):
		return strings.ToLower(e.Type)
	}
	return ""
}

// maskExchange returns the message of an exchange masked.
func maskExchange(e *sandbox.Exchange) []byte {
	if e.Type == "threeDSMethodData" {
		return keepMembers([]byte(e.Body), "threeDSServerTransID", "threeDSMethodNotificationURL")
	}
	return maskMessage([]byte(e.Body))
}

// maskMessage returns a message of EMV 3DS masked; nil if it cannot be read.
func maskMessage(raw []byte) []byte {
	m, err := message.Parse(raw, message.Limits{})
	if err != nil {
		return nil
	}
	return m.MaskedJSON()
}

// keepMembers returns an object with only those of its members that are texts and have these names.
func keepMembers(raw []byte, names ...string) []byte {
	var all map[string]any
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	kept := map[string]string{}
	for _, name := range names {
		if text, ok := all[name].(string); ok {
			kept[name] = text
		}
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return text
}

// keptBrowsers is how many browsers are remembered, keptBody how much of a request or an answer is read for it.
const keptBrowsers, keptBody = 1000, 64 << 10

// A browserLog remembers what browsers did at the server's pages, by token and by id.
type browserLog struct {
	mu    sync.Mutex
	all   map[string][]lanes.Step
	order []string // keys, oldest first
}

func newBrowserLog() *browserLog { return &browserLog{all: map[string][]lanes.Step{}} }

func (b *browserLog) add(key string, s lanes.Step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if key == "" || slices.ContainsFunc(b.all[key], func(other lanes.Step) bool { return other.Step == s.Step }) {
		return // a repeated step is shown once
	}
	if b.all[key] == nil {
		if b.order = append(b.order, key); len(b.order) > keptBrowsers {
			delete(b.all, b.order[0])
			b.order = b.order[1:]
		}
	}
	b.all[key] = append(b.all[key], s)
}

func (b *browserLog) steps(key string) []lanes.Step {
	if b == nil || key == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all[key])
}

// watch returns a handler that remembers the requests of browsers and passes them on.
func (b *browserLog) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		token, action := readToken(r)
		var body []byte
		if r.Method == http.MethodPost {
			var err error
			if body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, keptBody)); err != nil {
				http.Error(w, "The request is too long.", http.StatusRequestEntityTooLarge)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		switch {
		case token != "" && slices.Contains([]string{"begin", "confirm", "cancel"}, action) && r.Method == http.MethodPost:
			b.add(token, lanes.Step{Step: action, At: at, Message: browserData(body)})
		case token != "" && action == "" && r.Method == http.MethodGet:
			b.add(token, lanes.Step{Step: "hosted", At: at})
		case strings.HasPrefix(r.URL.Path, "/n/"):
			b.addNotice(r.URL.Path, body, at)
		}
		if token == "" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
			next.ServeHTTP(w, r)
			return
		}
		answer := &teeWriter{ResponseWriter: w}
		next.ServeHTTP(answer, r)
		b.addAnswer(token, answer.text.Bytes())
	})
}

// readToken returns the token of a browser's request, and what is to be done.
func readToken(r *http.Request) (token, action string) {
	path, isPage := strings.CutPrefix(r.URL.Path, "/a/")
	if !isPage {
		return "", ""
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return bearer, path
	}
	token, action, _ = strings.Cut(path, "/")
	if len(token) < 43 { // a frame
		return "", ""
	}
	return token, action
}

// browserData returns what a page reports about its browser.
func browserData(body []byte) []byte {
	var told struct{ Data json.RawMessage }
	if json.Unmarshal(body, &told) != nil || told.Data == nil {
		return nil
	}
	return keepMembers(told.Data, "browserJavaEnabled", "browserLanguage", "browserColorDepth", "browserScreenHeight",
		"browserScreenWidth", "browserTZ", "browserAcceptHeader", "challengeWindowSize")
}

// addNotice remembers that a browser came back from its issuer.
func (b *browserLog) addNotice(path string, body []byte, at time.Time) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return
	}
	step, field := "cres.notice", "cres"
	if strings.HasSuffix(path, "/method") {
		step, field = "method.notice", "threeDSMethodData"
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(form.Get(field), "="))
	var ids struct{ ThreeDSServerTransID string }
	if err != nil || json.Unmarshal(raw, &ids) != nil {
		return
	}
	masked := maskMessage(raw)
	if field == "threeDSMethodData" {
		masked = keepMembers(raw, "threeDSServerTransID")
	}
	b.add(ids.ThreeDSServerTransID, lanes.Step{Step: step, At: at, Message: masked})
}

// addAnswer remembers the step that the server gave to threeds.js.
func (b *browserLog) addAnswer(token string, text []byte) {
	var told struct {
		Step, End         string
		Method, Challenge *struct{ URL string }
	}
	if json.Unmarshal(text, &told) != nil {
		return
	}
	s := lanes.Step{At: time.Now()}
	shown := map[string]any{"step": told.Step}
	switch {
	case told.Step == "method" && told.Method != nil:
		s.Step = "method.asked"
		shown["method"] = map[string]string{"url": told.Method.URL}
	case told.Step == "challenge" && told.Challenge != nil:
		s.Step = "challenge"
		shown["challenge"] = map[string]string{"url": told.Challenge.URL}
	case told.Step == "end":
		s.Step, s.Gist = "end", told.End
		shown["end"] = told.End
	default:
		return
	}
	var err error
	if s.Message, err = json.Marshal(shown); err == nil {
		b.add(token, s)
	}
}

// A teeWriter keeps the beginning of an answer.
type teeWriter struct {
	http.ResponseWriter
	text bytes.Buffer
}

func (w *teeWriter) Write(p []byte) (int, error) {
	if w.text.Len()+len(p) <= keptBody {
		w.text.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] find what is behind.
func (w *teeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

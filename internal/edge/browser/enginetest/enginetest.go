// Package enginetest stands in for the authentication engine behind the pages of package browser. Call [NewEngine], and
// add an authentication for each course that a test needs. [Bank] serves the pages of an issuer.
package enginetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/session"
)

// An Engine has authentications whose course a test prescribes.
type Engine struct {
	mu      sync.Mutex
	changed chan struct{}
	rows    map[string]*Row // by token
	tags    map[string]*Row
	number  int
	lost    map[string]bool // steps whose next answer is lost after it took effect
}

var errAnswerLost = errors.New("the answer is lost")

// lose reports whether the answer to a step is to be lost, once. The caller holds the lock.
func (e *Engine) lose(step string) bool {
	isLost := e.lost[step]
	delete(e.lost, step)
	return isLost
}

// A Row is an authentication: how it goes on, and what has become of it.
type Row struct {
	View      session.BrowserView
	Binding   string
	Data      session.BrowserData
	Tag       string
	MethodURL string // "": no 3DS Method
	ACSURL    string // "": no challenge
	Info      string
	End       string              // how it ends
	AReqs     int                 // how many AReqs left
	IsSlow    bool                // the result does not come
	Version   string              // messageVersion; "": 2.2.0
	MethodEnd time.Duration       // how long the engine waits for the notification of the 3DS Method; zero: an hour
	SPC       *session.BrowserSPC // what the issuer asks for before it decides; nil: nothing
	Answers   []session.SPCAnswer // what became of that
}

// NewEngine returns an engine without authentications.
func NewEngine() *Engine {
	return &Engine{changed: make(chan struct{}), rows: map[string]*Row{}, tags: map[string]*Row{}}
}

// Add adds an authentication and returns its token.
func (e *Engine) Add(row Row) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.number++
	id := make([]byte, 48)
	copy(id, fmt.Sprintf("%016d", e.number))
	copy(id[16:], newSecret())
	token := base64.RawURLEncoding.EncodeToString(id)
	row.View.ID = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	row.View.Step, row.View.Merchant = session.StepBegin, cmp.Or(row.View.Merchant, "shop")
	if row.View.Amount == "" {
		row.View.Amount, row.View.Currency, row.View.Exponent = "12900", "EUR", "2"
	}
	if row.End == "" {
		row.End = "completed"
	}
	if row.MethodEnd == 0 {
		row.MethodEnd = time.Hour
	}
	row.Tag = fmt.Sprintf("tag%d", e.number)
	e.rows[token], e.tags[row.Tag] = &row, &row
	return token
}

// Row returns a copy of an authentication.
func (e *Engine) Row(token string) Row {
	e.mu.Lock()
	defer e.mu.Unlock()
	return *e.rows[token]
}

// Lose makes the engine lose its next answer to each of the steps: "begin", "state", "spc" or "finish". The steps still
// have their effect. A call replaces the steps of an earlier call.
func (e *Engine) Lose(steps ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost = map[string]bool{}
	for _, step := range steps {
		e.lost[step] = true
	}
}

// WillLose reports whether the next answer to a step is still to be lost.
func (e *Engine) WillLose(step string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost[step]
}

// SetStep moves an authentication to a step, as if its issuer or its merchant had.
func (e *Engine) SetStep(token string, step session.BrowserStep) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.set(e.rows[token], step)
}

// newSecret returns 256 random bits in base64url.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (e *Engine) set(row *Row, step session.BrowserStep) {
	if row.View.Step == session.StepEnd {
		return
	}
	row.View.Step = step
	row.View.Version++
	row.View.Method, row.View.Challenge, row.View.SPC, row.View.CardholderInfo = nil, nil, nil, ""
	switch step {
	case session.StepMethod:
		row.View.Method = &session.BrowserMethod{URL: row.MethodURL, Data: row.Tag}
	case session.StepChallenge:
		row.View.Challenge = &session.BrowserChallenge{ACSURL: row.ACSURL, CReq: row.Tag, MessageVersion: cmp.Or(row.Version, "2.2.0")}
	case session.StepSPC:
		row.View.SPC = row.SPC
	case session.StepConfirm:
		row.View.CardholderInfo = row.Info
	case session.StepEnd:
		row.View.End = row.End
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *Engine) find(token, binding string) (*Row, error) {
	row := e.rows[token]
	switch {
	case row == nil:
		return nil, auth.ErrNoAuthentication
	case row.Binding != binding:
		return nil, session.ErrOtherBrowser
	}
	return row, nil
}

// OpenBrowser is the method of the engine that package browser calls.
func (e *Engine) OpenBrowser(_ context.Context, token string) (*session.BrowserView, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	row := e.rows[token]
	if row == nil {
		return nil, auth.ErrNoAuthentication
	}
	v := session.BrowserView{
		ID: row.View.ID, Language: row.View.Language, Merchant: row.View.Merchant, Amount: row.View.Amount,
		Currency: row.View.Currency, Exponent: row.View.Exponent, Step: row.View.Step,
	}
	return &v, nil
}

// BeginBrowser is the method of the engine that package browser calls.
func (e *Engine) BeginBrowser(_ context.Context, token, binding string, data session.BrowserData) (*session.BrowserView, string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if row := e.rows[token]; row != nil && row.Binding == "" {
		row.Binding, row.Data = binding, data
		if row.MethodURL != "" && data["browserJavascriptEnabled"] == "true" {
			e.set(row, session.StepMethod)
			time.AfterFunc(row.MethodEnd, func() { e.endMethod(row) })
		} else {
			e.sendAReq(row)
		}
	}
	row, err := e.find(token, binding)
	if err != nil {
		return nil, "", err
	}
	if e.lose("begin") {
		return nil, "", errAnswerLost
	}
	v := row.View
	return &v, binding, nil
}

func (e *Engine) sendAReq(row *Row) {
	row.AReqs++
	switch {
	case row.SPC != nil && row.Data["spc"] == "true" && len(row.Answers) == 0:
		e.set(row, session.StepSPC)
	case row.ACSURL != "":
		e.set(row, session.StepChallenge)
	case row.Info != "":
		e.set(row, session.StepConfirm)
	case row.IsSlow:
		e.set(row, session.StepAuthentication)
	default:
		e.set(row, session.StepEnd)
	}
}

func (e *Engine) endMethod(row *Row) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if row.View.Step == session.StepMethod {
		e.sendAReq(row)
	}
}

// ViewBrowser is the method of the engine that package browser calls.
func (e *Engine) ViewBrowser(ctx context.Context, token, binding string, after int) (*session.BrowserView, error) {
	for {
		e.mu.Lock()
		row, err := e.find(token, binding)
		if err != nil {
			e.mu.Unlock()
			return nil, err
		}
		v, changed, isLost := row.View, e.changed, e.lose("state")
		e.mu.Unlock()
		if isLost {
			return nil, errAnswerLost
		}
		if v.Version > after {
			return &v, nil
		}
		select {
		case <-ctx.Done():
			return &v, nil
		case <-changed:
		}
	}
}

// AnswerSPC is the method of the engine that package browser calls.
func (e *Engine) AnswerSPC(_ context.Context, token, binding string, answer session.SPCAnswer) (*session.BrowserView, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	row, err := e.find(token, binding)
	if err != nil {
		return nil, err
	}
	if row.View.Step == session.StepSPC {
		row.Answers = append(row.Answers, answer)
		e.sendAReq(row)
	}
	if e.lose("spc") {
		return nil, errAnswerLost
	}
	v := row.View
	return &v, nil
}

// ConfirmBrowser is the method of the engine that package browser calls.
func (e *Engine) ConfirmBrowser(_ context.Context, token, binding string) (*session.BrowserView, error) {
	return e.finish(token, binding, "")
}

// CancelBrowser is the method of the engine that package browser calls.
func (e *Engine) CancelBrowser(_ context.Context, token, binding string) (*session.BrowserView, error) {
	return e.finish(token, binding, "cancelled")
}

func (e *Engine) finish(token, binding, end string) (*session.BrowserView, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if row := e.rows[token]; row != nil && row.Binding == "" && end != "" {
		row.Binding = binding
	}
	row, err := e.find(token, binding)
	if err != nil {
		return nil, err
	}
	if end != "" && row.View.Step != session.StepEnd {
		row.End = end
	}
	e.set(row, session.StepEnd)
	if e.lose("finish") {
		return nil, errAnswerLost
	}
	v := row.View
	return &v, nil
}

// EndBrowserChallenge is the method of the engine that package browser calls.
func (e *Engine) EndBrowserChallenge(_ context.Context, tag string) (*session.BrowserView, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	row := e.tags[tag]
	if row == nil {
		return nil, auth.ErrNoAuthentication
	}
	e.set(row, session.StepEnd)
	v := row.View
	return &v, nil
}

// WaitAfterChallenge is the method of the engine that package browser calls.
func (e *Engine) WaitAfterChallenge(ctx context.Context, tag string) (*session.BrowserView, error) {
	return e.EndBrowserChallenge(ctx, tag)
}

// EndBrowserMethod is the method of the engine that package browser calls.
func (e *Engine) EndBrowserMethod(_ context.Context, tag, data string) error {
	e.mu.Lock()
	row := e.tags[tag]
	e.mu.Unlock()
	if row == nil || data != tag {
		return auth.ErrNoAuthentication
	}
	e.endMethod(row)
	return nil
}

// Bank returns the pages of an issuer that come back to origin. With ?silent, /method never sends its notice.
// /challenge passes by itself with ?pass. With ?deny it forbids framing, and passes by itself in the top window. With
// ?dead it never answers. As some issuers do, it sends back the session data that came with the first CReq of a
// challenge.
func Bank(origin string) http.Handler {
	var sessions sync.Map // the session data of each CReq
	page := func(w http.ResponseWriter, target string, fields string) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><title>Bank</title><h1>Test bank</h1>
<form method="post" action="%s">%s<button id="go">Confirm</button></form><script>
if (location.search.includes("pass") || location.search == "?deny" || location.pathname == "/method") document.forms[0].submit()</script>`,
			origin+target, fields)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /method", func(w http.ResponseWriter, r *http.Request) {
		tag := r.PostFormValue("threeDSMethodData")
		if r.URL.RawQuery != "silent" {
			page(w, "/n/"+tag+"/method", `<input name="threeDSMethodData" value="`+tag+`">`)
		}
	})
	mux.HandleFunc("POST /challenge", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // After the body is read, the end of the connection ends the context of the request.
		switch r.URL.RawQuery {
		case "deny":
			w.Header().Set("X-Frame-Options", "DENY")
		case "dead":
			<-r.Context().Done()
			return
		}
		creq := r.PostFormValue("creq")
		session, _ := sessions.LoadOrStore(creq, r.PostFormValue("threeDSSessionData"))
		page(w, "/n/"+creq+"/challenge", fmt.Sprintf(`<input name="cres" value="x"><input name="threeDSSessionData" value="%s">`, session))
	})
	return mux
}

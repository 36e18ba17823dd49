package browser

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/auth"
)

// A fakeEngine has authentications whose course a test prescribes.
type fakeEngine struct {
	mu      sync.Mutex
	changed chan struct{}
	rows    map[string]*fakeRow // by token
	tags    map[string]*fakeRow
	number  int
	lost    map[string]bool // steps of which the next answer is lost after it has had its effect
}

var errAnswerLost = errors.New("the answer is lost")

// lose reports whether the answer to a step is to be lost, once. The caller holds the lock.
func (e *fakeEngine) lose(step string) bool {
	isLost := e.lost[step]
	delete(e.lost, step)
	return isLost
}

type fakeRow struct {
	view      auth.BrowserView
	binding   string
	data      auth.BrowserData
	tag       string
	methodURL string // "": no 3DS Method
	acsURL    string // "": no challenge
	info      string
	end       string // how it ends
	areqs     int    // how many AReqs left
	isSlow    bool   // the result does not come
	version   string // messageVersion; "": 2.2.0
	methodEnd time.Duration
	spc       *auth.BrowserSPC // what the issuer asks for before it decides; nil: nothing
	answers   []auth.SPCAnswer // what became of that
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{changed: make(chan struct{}), rows: map[string]*fakeRow{}, tags: map[string]*fakeRow{}}
}

// add adds an authentication and returns its token.
func (e *fakeEngine) add(row fakeRow) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.number++
	id := make([]byte, 48)
	copy(id, fmt.Sprintf("%016d", e.number))
	copy(id[16:], newSecret())
	token := base64.RawURLEncoding.EncodeToString(id)
	row.view.ID = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	row.view.Step, row.view.Merchant = auth.StepBegin, cmp.Or(row.view.Merchant, "shop")
	if row.view.Amount == "" {
		row.view.Amount, row.view.Currency, row.view.Exponent = "12900", "EUR", "2"
	}
	if row.end == "" {
		row.end = "completed"
	}
	if row.methodEnd == 0 {
		row.methodEnd = 2 * time.Second
	}
	row.tag = fmt.Sprintf("tag%d", e.number)
	e.rows[token], e.tags[row.tag] = &row, &row
	return token
}

// row returns a copy of an authentication.
func (e *fakeEngine) row(token string) fakeRow {
	e.mu.Lock()
	defer e.mu.Unlock()
	return *e.rows[token]
}

func (e *fakeEngine) set(row *fakeRow, step auth.BrowserStep) {
	if row.view.Step == auth.StepEnd {
		return
	}
	row.view.Step = step
	row.view.Version++
	row.view.Method, row.view.Challenge, row.view.SPC, row.view.CardholderInfo = nil, nil, nil, ""
	switch step {
	case auth.StepMethod:
		row.view.Method = &auth.BrowserMethod{URL: row.methodURL, Data: row.tag}
	case auth.StepChallenge:
		row.view.Challenge = &auth.BrowserChallenge{ACSURL: row.acsURL, CReq: row.tag, MessageVersion: cmp.Or(row.version, "2.2.0")}
	case auth.StepSPC:
		row.view.SPC = row.spc
	case auth.StepConfirm:
		row.view.CardholderInfo = row.info
	case auth.StepEnd:
		row.view.End = row.end
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *fakeEngine) find(token, binding string) (*fakeRow, error) {
	row := e.rows[token]
	switch {
	case row == nil:
		return nil, auth.ErrNoAuthentication
	case row.binding != binding:
		return nil, auth.ErrOtherBrowser
	}
	return row, nil
}

func (e *fakeEngine) OpenBrowser(_ context.Context, token string) (*auth.BrowserView, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	row := e.rows[token]
	if row == nil {
		return nil, auth.ErrNoAuthentication
	}
	v := auth.BrowserView{ID: row.view.ID, Language: row.view.Language, Merchant: row.view.Merchant, Amount: row.view.Amount, Currency: row.view.Currency, Exponent: row.view.Exponent, Step: row.view.Step}
	return &v, nil
}

func (e *fakeEngine) BeginBrowser(_ context.Context, token, binding string, data auth.BrowserData) (*auth.BrowserView, string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if row := e.rows[token]; row != nil && row.binding == "" {
		row.binding, row.data = binding, data
		if row.methodURL != "" && data["browserJavascriptEnabled"] == "true" {
			e.set(row, auth.StepMethod)
			time.AfterFunc(row.methodEnd, func() { e.endMethod(row) })
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
	v := row.view
	return &v, binding, nil
}

func (e *fakeEngine) sendAReq(row *fakeRow) {
	row.areqs++
	switch {
	case row.spc != nil && row.data["spc"] == "true" && len(row.answers) == 0:
		e.set(row, auth.StepSPC)
	case row.acsURL != "":
		e.set(row, auth.StepChallenge)
	case row.info != "":
		e.set(row, auth.StepConfirm)
	case row.isSlow:
		e.set(row, auth.StepAuthentication)
	default:
		e.set(row, auth.StepEnd)
	}
}

func (e *fakeEngine) endMethod(row *fakeRow) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if row.view.Step == auth.StepMethod {
		e.sendAReq(row)
	}
}

func (e *fakeEngine) ViewBrowser(ctx context.Context, token, binding string, after int) (*auth.BrowserView, error) {
	for {
		e.mu.Lock()
		row, err := e.find(token, binding)
		if err != nil {
			e.mu.Unlock()
			return nil, err
		}
		v, changed, isLost := row.view, e.changed, e.lose("state")
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

func (e *fakeEngine) AnswerSPC(_ context.Context, token, binding string, answer auth.SPCAnswer) (*auth.BrowserView, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	row, err := e.find(token, binding)
	if err != nil {
		return nil, err
	}
	if row.view.Step == auth.StepSPC {
		row.answers = append(row.answers, answer)
		e.sendAReq(row)
	}
	if e.lose("spc") {
		return nil, errAnswerLost
	}
	v := row.view
	return &v, nil
}

func (e *fakeEngine) ConfirmBrowser(_ context.Context, token, binding string) (*auth.BrowserView, error) {
	return e.finish(token, binding, "")
}

func (e *fakeEngine) CancelBrowser(_ context.Context, token, binding string) (*auth.BrowserView, error) {
	return e.finish(token, binding, "cancelled")
}

func (e *fakeEngine) finish(token, binding, end string) (*auth.BrowserView, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if row := e.rows[token]; row != nil && row.binding == "" && end != "" {
		row.binding = binding
	}
	row, err := e.find(token, binding)
	if err != nil {
		return nil, err
	}
	if end != "" && row.view.Step != auth.StepEnd {
		row.end = end
	}
	e.set(row, auth.StepEnd)
	if e.lose("finish") {
		return nil, errAnswerLost
	}
	v := row.view
	return &v, nil
}

func (e *fakeEngine) WaitAfterChallenge(ctx context.Context, tag string) (*auth.BrowserView, error) {
	return e.EndBrowserChallenge(ctx, tag)
}

func (e *fakeEngine) EndBrowserChallenge(_ context.Context, tag string) (*auth.BrowserView, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	row := e.tags[tag]
	if row == nil {
		return nil, auth.ErrNoAuthentication
	}
	e.set(row, auth.StepEnd)
	v := row.view
	return &v, nil
}

func (e *fakeEngine) EndBrowserMethod(_ context.Context, tag, data string) error {
	e.mu.Lock()
	row := e.tags[tag]
	e.mu.Unlock()
	if row == nil || data != tag {
		return auth.ErrNoAuthentication
	}
	e.endMethod(row)
	return nil
}

// newBank returns the pages of an issuer that come back to origin. A bank of /method never
// answers silently with ?silent; one of /challenge passes by itself with ?pass, forbids framing with
// ?deny, and passes by itself at the top, and never answers with ?dead.
func newBank(t *testing.T, origin string) http.Handler {
	page := func(w http.ResponseWriter, target string, fields string) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><title>Bank</title><h1>Test bank</h1>
<form method="post" action="%s">%s<button id="go">Confirm</button></form><script>
if (location.search.includes("pass") || location.search == "?deny" || location.pathname == "/method") document.forms[0].submit()</script>`, origin+target, fields)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /method", func(w http.ResponseWriter, r *http.Request) {
		tag := r.PostFormValue("threeDSMethodData")
		if r.URL.RawQuery != "silent" {
			page(w, "/n/"+tag+"/method", `<input name="threeDSMethodData" value="`+tag+`">`)
		}
	})
	mux.HandleFunc("POST /challenge", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // the context of a request ends with its connection as soon as the body has been read
		switch r.URL.RawQuery {
		case "deny":
			w.Header().Set("X-Frame-Options", "DENY")
		case "dead":
			select {
			case <-r.Context().Done():
			case <-time.After(time.Minute):
			}
			return
		}
		page(w, "/n/"+r.PostFormValue("creq")+"/challenge", `<input name="cres" value="x"><input name="threeDSSessionData" value="`+r.PostFormValue("threeDSSessionData")+`">`)
	})
	return mux
}

package pages

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
)

// A tokensView is the data of the page of tokens.
type tokensView struct {
	Tokens               []operator.Token
	Merchants, Roles     []choice
	Fault, Name, Expires string
	New, NewName         string // a token that was just made, this once
}

func (h *Handler) newTokensView(v *visit) (*tokensView, error) {
	all, err := h.Acts.Tokens(v.Context(), v.session.Actor)
	if err != nil {
		return nil, err
	}
	view := &tokensView{Tokens: all, Roles: wordChoices(operator.Roles(), v.PostForm.Get("role"))}
	view.Merchants, err = h.merchantChoices(v, v.PostForm.Get("merchant"))
	return view, err
}

func tokensPage(h *Handler, v *visit) (result, error) {
	view, err := h.newTokensView(v)
	return result{template: "tokens", title: "Tokens", data: view}, err
}

// createToken makes a token. The answer shows it, and nothing shows it again.
func createToken(h *Handler, v *visit) (result, error) {
	form := v.PostForm
	asked := ops.NewToken{Name: strings.TrimSpace(form.Get("name")), Role: form.Get("role"), Merchant: form.Get("merchant")}
	var made ops.MadeToken
	var fault string
	if asked.Expires, fault = readEnd(form); fault == "" {
		var err error
		made, err = h.Acts.CreateToken(v.Context(), v.session.Actor, asked)
		if fault, err = faultOf(err); err != nil {
			return result{}, err
		}
	}
	view, err := h.newTokensView(v)
	if err != nil {
		return result{}, err
	}
	if view.Fault = fault; fault != "" {
		view.Name, view.Expires = form.Get("name"), form.Get("expires")
	}
	view.New, view.NewName = made.Token, made.Name
	return result{template: "tokens", title: "Tokens", data: view, status: faultStatus(fault)}, nil
}

func revokeToken(h *Handler, v *visit) (result, error) {
	_, err := ops.Find("token revoke").Do(h.Acts, v.Context(), v.session.Actor, v.PathValue("name"))
	return result{to: "/tokens"}, err
}

// auditNames are the fields of a search in the audit trail.
var auditNames = []string{"who", "action", "object"}

// An auditView is the data of the page of the audit trail.
type auditView struct {
	Fields  map[string]string
	Entries []auditEntry
	Older   string
	Fault   string
}

// An auditEntry is one line of the audit trail.
type auditEntry struct {
	operator.Entry
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// Change returns what a line says beside its object.
func (e *auditEntry) Change() string {
	return joinNonEmpty(" → ", lanes.Shorten(string(e.Before), 200), lanes.Shorten(string(e.After), 200))
}

// auditQuery returns the search that an address asks for, and what is wrong with it.
func auditQuery(v *visit) (query url.Values, fields map[string]string, fault string) {
	asked := v.URL.Query()
	query, fields = url.Values{}, map[string]string{}
	for _, name := range auditNames {
		if fields[name] = strings.TrimSpace(asked.Get(name)); fields[name] != "" {
			query.Set(name, fields[name])
		}
	}
	for _, name := range []string{"from", "to"} {
		if fields[name] = strings.TrimSpace(asked.Get(name)); fields[name] == "" {
			continue
		}
		at, err := readBound(name, fields[name])
		if err != nil {
			return query, fields, "The time \"" + name + "\" needs a form such as 2027-01-31 or 2027-01-31T09:30 (UTC)."
		}
		query.Set(name, at.Format(time.RFC3339))
	}
	return query, fields, reversedTimes(query)
}

func auditPage(h *Handler, v *visit) (result, error) {
	query, fields, fault := auditQuery(v)
	view := &auditView{Fields: fields}
	got := result{template: "audit", title: "Audit", data: view}
	if cursor := v.URL.Query().Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	var all list[auditEntry]
	start := time.Now()
	refusal, err := h.submit(v, http.MethodGet, "audit", query, nil, &all)
	if err != nil {
		return result{}, err
	}
	got.db = time.Since(start)
	if view.Fault = cmp.Or(fault, refusal); view.Fault != "" {
		got.status = http.StatusBadRequest
		return got, nil
	}
	if view.Entries = all.Data; all.Next != nil {
		view.Older = "/audit?" + without(v.URL.Query(), "cursor") + "&" + url.Values{"cursor": {*all.Next}}.Encode()
	}
	return got, nil
}

// serveAudit answers with the export of the audit trail, in which what a search does not want is a link. When it cannot be
// read to its end the connection is cut, so that nobody takes the file for a whole one.
func (h *Handler) serveAudit(w http.ResponseWriter, r *http.Request) {
	session, _ := operator.SessionOf(r.Context())
	v := &visit{r, session}
	query, _, fault := auditQuery(v)
	to := &fileWriter{ResponseWriter: w, kind: "application/jsonl", name: "audit.jsonl", begun: time.Now()}
	var err error = &admin.Problem{Status: http.StatusBadRequest, Detail: fault}
	if fault == "" {
		err = h.call(v, http.MethodGet, "audit/export", query, nil, to)
	}
	switch {
	case err == nil:
	case to.isBegun:
		h.Log.Error("console", "file", to.name, "err", err)
		panic(http.ErrAbortHandler)
	default:
		h.serve(w, r, func(*Handler, *visit) (result, error) { return result{}, err })
	}
}

// A fileWriter sends a file to keep. Its headers go with the first piece, and each piece has its own time to be sent.
type fileWriter struct {
	http.ResponseWriter
	kind, name string
	begun      time.Time
	isBegun    bool
}

func (w *fileWriter) Write(piece []byte) (int, error) {
	if !w.isBegun {
		w.isBegun = true
		w.Header().Set("Content-Type", w.kind)
		w.Header().Set("Content-Disposition", `attachment; filename="`+w.name+`"`)
		w.Header().Set("Server-Timing", "total;dur="+milliseconds(time.Since(w.begun)))
	}
	// A server that has no deadlines needs none.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(filePieceTime))
	return w.ResponseWriter.Write(piece)
}

// filePieceTime is how long one piece of a file may take to be sent.
const filePieceTime = 30 * time.Second

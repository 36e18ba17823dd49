package pages

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
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
	Group                string // as it was typed
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
	asked := api.NewToken{
		Name: strings.TrimSpace(form.Get("name")), Role: form.Get("role"), Merchant: form.Get("merchant"),
		Group: strings.TrimSpace(form.Get("group")),
	}
	var made api.MadeToken
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
		view.Name, view.Expires, view.Group = form.Get("name"), form.Get("expires"), form.Get("group")
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
	Label string // what the issuer of OpenID Connect calls the person; "" if that is not known
}

// maxObject is how much of an object a line shows: an id whole, and of a hash what tells it from others.
const maxObject = 36

// ShortObject returns the object, shortened.
func (e *auditEntry) ShortObject() string { return lanes.Shorten(e.Object, maxObject) }

// Changes returns what a line says in addition to its object: the members that differ, each with what it was before.
func (e *auditEntry) Changes() (lines []string) {
	before, hadMembers := e.Before.(map[string]any)
	after, hasMembers := e.After.(map[string]any)
	if e.Before != nil && !hadMembers || e.After != nil && !hasMembers {
		return []string{lanes.Join(" → ", shortText(e.Before), shortText(e.After))}
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		was, is := shortText(before[name]), shortText(after[name])
		switch {
		case reflect.DeepEqual(before[name], after[name]) || was+is == "":
		case was == "" || is == "" && e.After == nil:
			lines = append(lines, name+": "+was+is)
		default:
			lines = append(lines, name+": "+was+" → "+cmp.Or(is, "none"))
		}
	}
	return lines
}

// maxValue is the length of the longest value that a line of the audit trail shows.
const maxValue = 120

// shortText returns a text as it is and any other value as JSON, shortened; "" for none.
func shortText(value any) string {
	text, isText := value.(string)
	if !isText && value != nil {
		bytes, _ := json.Marshal(value) // it was read from JSON
		text = string(bytes)
	}
	return lanes.Shorten(text, maxValue)
}

// auditQuery returns the search that an address asks for, and what is wrong with it.
func auditQuery(v *visit) (q operator.Query, fields map[string]string, fault string) {
	asked := v.URL.Query()
	fields = map[string]string{}
	for _, name := range append([]string{"from", "to"}, auditNames...) {
		fields[name] = strings.TrimSpace(asked.Get(name))
	}
	q = operator.Query{Who: fields["who"], Action: fields["action"], Object: fields["object"]}
	for name, at := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		if fields[name] == "" {
			continue
		}
		var err error
		if *at, err = readBound(name, fields[name]); err != nil {
			return q, fields, "The time \"" + name + "\" needs a form such as 2027-01-31 or 2027-01-31T09:30 (UTC)."
		}
	}
	return q, fields, reversedTimes(q.From, q.To)
}

func auditPage(h *Handler, v *visit) (result, error) {
	q, fields, fault := auditQuery(v)
	view := &auditView{Fields: fields, Fault: fault}
	got := result{template: "audit", title: "Audit", data: view}
	start := time.Now()
	var found *api.List[operator.Entry]
	if fault == "" {
		var err error
		if q.Before, err = admin.ReadAuditCursor(v.URL.Query().Get("cursor")); err == nil {
			found, err = h.Admin.SearchAudit(v.Context(), v.session.Actor, q)
		}
		if view.Fault, err = faultOf(err); err != nil {
			return result{}, err
		}
	}
	got.db = time.Since(start)
	if view.Fault != "" {
		got.status = http.StatusBadRequest
		return got, nil
	}
	users, err := h.Acts.ListOperators(v.Context(), v.session.Actor)
	if err != nil {
		return result{}, err
	}
	labels := map[string]string{}
	for i := range users {
		labels[users[i].Who()] = users[i].Label
	}
	for _, e := range found.Data {
		view.Entries = append(view.Entries, auditEntry{e, labels[e.Who]})
	}
	if found.Next != "" {
		view.Older = "/audit?" + without(v.URL.Query(), "cursor") + "&" + url.Values{"cursor": {string(found.Next)}}.Encode()
	}
	return got, nil
}

// serveAudit answers with the export of the audit trail. Entries that the search leaves out appear only as links of the
// chain. If the trail cannot be read to its end, the connection is cut, so that the file is not taken for a complete
// one.
func (h *Handler) serveAudit(w http.ResponseWriter, r *http.Request) {
	session, _ := operator.SessionOf(r.Context())
	v := &visit{r, session}
	q, _, fault := auditQuery(v)
	to := &fileWriter{ResponseWriter: w, kind: "application/jsonl", name: "audit.jsonl", begun: time.Now()}
	var err error = &admin.Problem{Status: http.StatusBadRequest, Detail: fault}
	if fault == "" {
		err = h.Admin.ExportAudit(v.Context(), v.session.Actor, q, to)
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

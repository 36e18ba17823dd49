// Package pages serves the pages of the console: search and timeline of authentications, reports, merchants, keys and
// what else the admin API can do. Set the fields of a [Handler] and serve it behind the login.
//
// A page calls the same functions as the admin API, as the actor of the session. So it can do no more than a token with
// the same role, and its acts are in the same audit trail. Pages work without their script.
package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

//go:embed assets/*.css assets/*.js templates/*.html
var files embed.FS

// A Handler serves the pages. Set its fields before use. It serves requests whose context has a session, see
// [operator.SessionOf], and no others. The handler in front of it checks where a form comes from, and forbids framing.
type Handler struct {
	Admin *admin.Handler
	Acts  *ops.Acts
	Now   func() time.Time
	Log   *slog.Logger
	Shop  string // the address of a shop to try payments in; "": there is none
	// Schemes returns what the configuration says of a card scheme; nil: what is public is all.
	Schemes func(word string) Scheme
	// Confirm asks the person who has sent a form to confirm the act that the form is about. When that is done, the same
	// form comes again, and the actor of its session has confirmed the act. nil: nobody is asked.
	Confirm func(w http.ResponseWriter, r *http.Request, summary string, what operator.Intent)

	once      sync.Once
	handler   http.Handler
	mux       *http.ServeMux // what handler serves, without compression
	templates map[string]*template.Template
	styles    *compress.File
	script    *compress.File
	version   string // of the assets
}

// A Scheme is what is known of a card scheme in addition to its word.
type Scheme struct {
	Rules  *scheme.Sheet // nil: none are known
	Colour string        // of its mark, #rrggbb; "": it has none
}

// scheme returns what is known of a scheme.
func (h *Handler) scheme(word string) Scheme {
	if h.Schemes == nil {
		return Scheme{Rules: scheme.Public(word)}
	}
	return h.Schemes(word)
}

// A result is what a page answers with: a template and its data, or another page to go to.
type result struct {
	template, title string
	data            any
	status          int    // 0 means 200
	to              string // a path of ours, for what a form has changed
	db              time.Duration
	form            *http.Request // another form of ours, whose answer is the answer
}

// A route is one page. A visitor who may do none of its acts is refused; if a page has several acts, each checks the
// visitor itself.
type route struct {
	pattern string
	acts    []string
	do      func(h *Handler, v *visit) (result, error)
}

// routes returns the table of pages.
func routes() []route {
	return []route{
		{"GET /{$}", []string{"journal report"}, overviewPage},
		{"GET /authentications", []string{"journal search"}, searchPage},
		{"GET /authentications/search", []string{"journal search"}, cardPage},
		{"POST /authentications/search", []string{"journal search"}, searchByCard},
		{"GET /authentications/{id}", []string{"journal show"}, authenticationPage},
		{"GET /reports", []string{"journal report"}, reportsPage},
		{"GET /billing", []string{"journal billing"}, billingPage},
		{"GET /nodes", []string{"nodes"}, nodesPage},
		{"GET /configuration", []string{"config show"}, configurationPage},
		{"GET /directories", []string{"directory list"}, directoriesPage},
		{"GET /ranges", []string{"ranges status"}, rangesPage},
		{"GET /ranges/{scheme}/diff", []string{"ranges status"}, rangeDiffPage},
		{"POST /ranges/{scheme}/{do}", []string{"ranges accept", "ranges refresh"}, changeRanges},
		{"GET /merchants", []string{"merchant list"}, merchantsPage},
		{"POST /merchants", []string{"merchant add"}, addMerchant},
		{"GET /merchants/{name}", []string{"merchant list"}, merchantPage},
		{"POST /merchants/{name}", []string{"merchant set", "merchant remove", "merchant disable", "merchant enable"},
			changeMerchant},
		{"GET /keys", []string{"key list"}, keysPage},
		{"POST /keys", []string{"key create"}, createKey},
		{"POST /keys/{hash}/revoke", []string{"key revoke"}, revokeKey},
		{"GET /tokens", []string{"token list"}, tokensPage},
		{"POST /tokens", []string{"token create"}, createToken},
		{"POST /tokens/{name}/revoke", []string{"token revoke"}, revokeToken},
		{"GET /audit", []string{"audit search"}, auditPage},
		{"GET /certificates", []string{"cert status"}, certificatesPage},
		{"GET /certificates/{scheme}", []string{"cert status"}, certificatePage},
		{"POST /certificates/{scheme}",
			[]string{"cert request", "cert install", "cert activate", "cert rollback", "cert test"}, changeCertificate},
		{"GET /webhooks", []string{"webhook list"}, hooksPage},
		{"POST /webhooks", []string{"webhook add"}, addHook},
		{"GET /webhooks/{id}", []string{"webhook list", "webhook events"}, hookPage},
		{"POST /webhooks/{id}", append(endpointActs(), "webhook change", "webhook resend FROM"), changeHook},
		{"POST /webhooks/{id}/events/{event}/resend", []string{"webhook resend"}, resendEvent},
		{"GET /explain", []string{"explain"}, explainPage},
		{"POST /explain", []string{"explain"}, explainText},
		{"GET /operators", []string{"operator list"}, operatorsPage},
		{"POST /operators", []string{"operator invite"}, inviteOperator},
		{"POST /operators/{name}", []string{"operator role", "operator remove"}, changeOperator},
		{"GET /erase", []string{"journal erase"}, erasePage},
		{"GET /holds", []string{"journal hold list"}, holdsPage},
		{"POST /holds", []string{"journal hold add"}, addHold},
		{"POST /holds/{name}/lift", []string{"journal hold lift"}, liftHold},
		{"GET /approvals", []string{"approval list"}, approvalsPage},
		{"POST /approvals/{id}", []string{"approval allow", "approval refuse"}, changeApproval},
	}
}

// A fileRoute is a page whose answer may be a file, or takes its own time. A visitor who may not do its act is refused.
type fileRoute struct {
	pattern, act string
	serve        func(h *Handler, w http.ResponseWriter, r *http.Request)
}

// fileRoutes returns the table of those pages.
func fileRoutes() []fileRoute {
	const csv = "text/csv; charset=utf-8"
	return []fileRoute{
		{"GET /reports.csv", "journal report", func(h *Handler, w http.ResponseWriter, r *http.Request) {
			h.serveFile(w, r, csv, "reports.csv", writeReport)
		}},
		{"GET /billing.csv", "journal billing", func(h *Handler, w http.ResponseWriter, r *http.Request) {
			h.serveFile(w, r, csv, "billing.csv", writeBilling)
		}},
		{"GET /audit.jsonl", "audit export", (*Handler).serveAudit},
		{"POST /erase", "journal erase", (*Handler).serveErase},
	}
}

// A visit is one request for a page.
type visit struct {
	*http.Request
	session *operator.Session
}

// can reports whether the visitor may do an act.
func (v *visit) can(act string) bool { return ops.Find(act).May(&v.session.Actor) }

// maxForm is the length of the longest form: a pasted request, and what is around it.
const maxForm = 1 << 20

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.once.Do(h.init)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", policy)
	if _, ok := operator.SessionOf(r.Context()); !ok {
		http.Error(w, "Not logged in.", http.StatusForbidden)
		return
	}
	h.handler.ServeHTTP(w, r)
}

// policy allows our own style, script and forms, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

func (h *Handler) init() {
	mux := http.NewServeMux()
	h.mux, h.handler = mux, compress.Handler(mux)
	for _, rt := range routes() {
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, rt.do, rt.acts...) })
	}
	mux.HandleFunc("GET /assets/{name}", h.serveAsset)
	for _, rt := range fileRoutes() {
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			session, _ := operator.SessionOf(r.Context())
			if err := ops.Find(rt.act).Check(&session.Actor); err != nil {
				h.serve(w, r, func(*Handler, *visit) (result, error) { return result{}, err })
				return
			}
			rt.serve(h, w, r)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r, func(*Handler, *visit) (result, error) { return result{}, errNoPage })
	})
	h.initTemplates()
}

// errOldForm refuses a form of another session.
var errOldForm = &admin.Problem{
	Status: http.StatusForbidden,
	Detail: "It is of an earlier login. Nothing was changed. Go back, load the page again, and send the form again.",
}

var errNoPage = &admin.Problem{Status: http.StatusNotFound, Detail: "The address is wrong, or what it showed has gone."}

func (h *Handler) initTemplates() {
	rules, _ := files.ReadFile("assets/ui.css") // they are in the binary
	more, _ := files.ReadFile("assets/directories.css")
	styles := slices.Concat(lanes.Tokens(), lanes.Base(), rules, more, lanes.Styles())
	script, _ := files.ReadFile("assets/console.js")
	script = slices.Concat(script, lanes.Script())
	h.styles, h.script = compress.NewFile("text/css; charset=utf-8", styles),
		compress.NewFile("text/javascript; charset=utf-8", script)
	sum := sha256.Sum256(slices.Concat(styles, script))
	h.version = hex.EncodeToString(sum[:6])
	h.templates = map[string]*template.Template{}
	base := template.Must(template.New("").Funcs(h.functions()).ParseFS(files, "templates/layout.html",
		"templates/parts.html"))
	lanes.AddTemplates(base)
	names, _ := files.ReadDir("templates")
	for _, entry := range names {
		name := strings.TrimSuffix(entry.Name(), ".html")
		if name != "layout" && name != "parts" {
			h.templates[name] = template.Must(template.Must(base.Clone()).ParseFS(files, "templates/"+entry.Name()))
		}
	}
}

// A frame is what the layout shows around a page.
type frame struct {
	Title, Path string
	Version     string
	Groups      []navGroup
	Who         string
	Role        operator.Role
	Of          string // whose data the visitor sees; "" means that of all merchants
	CSRF        string
	Data        any
}

// serve answers a request for a page.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, do func(*Handler, *visit) (result, error),
	acts ...string) {
	start := time.Now()
	session, _ := operator.SessionOf(r.Context())
	v := &visit{r, session}
	got, err := func() (result, error) {
		if len(acts) > 0 && !slices.ContainsFunc(acts, v.can) {
			return result{}, ops.Find(acts[0]).Check(&session.Actor)
		}
		if r.Method == http.MethodPost {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			if err := r.ParseForm(); err != nil {
				return result{},
					&admin.Problem{Status: http.StatusBadRequest, Detail: "The form did not come whole, or is too long."}
			}
			if !session.IsFormToken(r.PostForm.Get("csrf")) {
				return result{}, errOldForm
			}
		}
		return do(h, v)
	}()
	if wanted, ok := errors.AsType[*ops.ConfirmError](err); ok && h.Confirm != nil {
		h.Confirm(w, r, ops.Find(wanted.Act).Summary, wanted.Intent)
		return
	}
	if wanted, ok := errors.AsType[*ops.ApprovalError](err); ok {
		got, err = h.askApproval(v, wanted.Intent)
	}
	if err != nil {
		got = h.failure(err)
	}
	if got.form != nil {
		h.mux.ServeHTTP(w, got.form)
		return
	}
	if got.to != "" {
		http.Redirect(w, r, got.to, http.StatusSeeOther)
		return
	}
	var page bytes.Buffer
	err = h.templates[got.template].ExecuteTemplate(&page, "layout", frame{
		Title: got.title, Path: r.URL.Path, Version: h.version, Groups: h.navigation(v), Who: session.Actor.Who,
		Role: session.Actor.Role, Of: ofWhom(&session.Actor), CSRF: session.FormToken(), Data: got.data,
	})
	if err != nil {
		h.Log.Error("console", "page", got.template, "err", err)
		http.Error(w, "The page could not be made. The log of the server says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	timing := "total;dur=" + milliseconds(time.Since(start))
	if got.db > 0 {
		timing += ", db;dur=" + milliseconds(got.db)
	}
	w.Header().Set("Server-Timing", timing)
	if got.status != 0 {
		w.WriteHeader(got.status)
	}
	_, _ = w.Write(page.Bytes()) // the browser that has gone needs no answer
}

// ofWhom says whose data an actor sees; "" means that of all merchants.
func ofWhom(by *operator.Actor) string {
	if by.Group != "" {
		return "the group " + by.Group
	}
	return by.Merchant
}

// serveFile answers with a file to keep. A failure is a page.
func (h *Handler) serveFile(w http.ResponseWriter, r *http.Request, kind, name string,
	write func(*Handler, *visit, *bytes.Buffer) error) {
	start := time.Now()
	session, _ := operator.SessionOf(r.Context())
	var file bytes.Buffer
	if err := write(h, &visit{r, session}, &file); err != nil {
		h.serve(w, r, func(*Handler, *visit) (result, error) { return result{}, err })
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	w.Header().Set("Server-Timing", "total;dur="+milliseconds(time.Since(start)))
	_, _ = w.Write(file.Bytes()) // the browser that has gone needs no answer
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }

// A failed is the data of a page that could not be shown.
type failed struct{ Heading, Text string }

// failure returns the page for an error. What is not the visitor's fault goes to the log.
func (h *Handler) failure(err error) result {
	p := admin.ProblemOf(err)
	if p == nil {
		h.Log.Error("console", "err", err)
		return result{template: "failure", title: "Broken", status: http.StatusServiceUnavailable, data: failed{
			Heading: "The console cannot read or write its store",
			Text:    "Payments do not depend on this page. The log of the server says why; /readyz says whether payments suffer.",
		}}
	}
	heading := map[int]string{
		http.StatusForbidden: "You may not do this", http.StatusNotFound: "There is nothing here",
		http.StatusConflict: "This has changed",
	}[p.Status]
	switch {
	case p == errOldForm:
		heading = "The form is too old"
	case heading == "":
		heading = "This does not work"
	}
	return result{template: "failure", title: heading, status: p.Status, data: failed{Heading: heading, Text: p.Detail}}
}

// faultOf returns a refusal that the form could mend as fault, and any other error as it is.
func faultOf(err error) (fault string, other error) {
	if p := admin.ProblemOf(err); p != nil && (p.Status == http.StatusBadRequest || p.Status == http.StatusConflict) {
		return p.Detail, nil
	}
	return "", err
}

// faultStatus returns the status of a page that says what is wrong with a form; "" means that the form is valid.
func faultStatus(fault string) int {
	if fault == "" {
		return http.StatusOK
	}
	return http.StatusBadRequest
}

// serveAsset serves the style and the script.
func (h *Handler) serveAsset(w http.ResponseWriter, r *http.Request) {
	asset := map[string]*compress.File{"console.css": h.styles, "console.js": h.script}[r.PathValue("name")]
	if asset == nil {
		http.NotFound(w, r)
		return
	}
	if r.URL.Query().Get("v") == h.version {
		w.Header().Set("Cache-Control", "private, max-age=604800, immutable")
	}
	asset.ServeHTTP(w, r)
}

// A navGroup is a part of the navigation.
type navGroup struct {
	Name  string
	Links []navLink
}

type navLink struct {
	Path, Name, Icon string
	Current          bool
}

// navigation returns the pages that the visitor may see. That of approvals is there if the configuration wants any,
// and that of the configuration if there is a file.
func (h *Handler) navigation(v *visit) []navGroup {
	all := []struct {
		group, path, name, icon, act string
	}{
		{"Watch", "/", "Overview", "home", "journal report"},
		{"Watch", "/authentications", "Authentications", "rows", "journal search"},
		{"Watch", "/reports", "Reports", "bars", "journal report"},
		{"Watch", "/nodes", "Nodes", "nodes", "nodes"},
		{"Watch", "/billing", "Billing", "receipt", "journal billing"},
		{"Watch", "/explain", "Explain", "question", "explain"},
		{"Set up", "/merchants", "Merchants", "shop", "merchant list"},
		{"Set up", "/keys", "Keys", "key", "key list"},
		{"Set up", "/directories", "Directories", "link", "directory list"},
		{"Set up", "/certificates", "Certificates", "certificate", "cert status"},
		{"Set up", "/ranges", "Card ranges", "ranges", "ranges status"},
		{"Set up", "/webhooks", "Webhooks", "hook", "webhook list"},
		{"House", "/configuration", "Configuration", "sliders", "config show"},
		{"House", "/audit", "Audit", "book", "audit search"},
		{"House", "/erase", "Erase", "eraser", "journal erase"},
		{"House", "/holds", "Legal holds", "lock", "journal hold list"},
		{"House", "/approvals", "Approvals", "check", "approval list"},
		{"House", "/operators", "Operators", "person", "operator list"},
		{"House", "/tokens", "Tokens", "key", "token list"},
	}
	var groups []navGroup
	for _, l := range all {
		if !v.can(l.act) || l.path == "/approvals" && !slices.ContainsFunc(ops.Groups(), h.Acts.NeedsTwo) ||
			l.path == "/configuration" && !h.Admin.HasConfiguration() {
			continue
		}
		if n := len(groups); n == 0 || groups[n-1].Name != l.group {
			groups = append(groups, navGroup{Name: l.group})
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(path.Clean(v.URL.Path), "/"), "/")
		last := &groups[len(groups)-1]
		last.Links = append(last.Links, navLink{l.path, l.name, l.icon, "/"+first == l.path})
	}
	return groups
}

package pages_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
	"github.com/openthreeds/threeds/internal/state/journal"
)

const (
	shop, otherShop       = consoletest.Shop, consoletest.OtherShop
	card                  = consoletest.Card
	avValue               = consoletest.AVValue
	passedID              = consoletest.PassedID
	lostID                = consoletest.LostID
	foreignID             = consoletest.ForeignID
	refusedID             = consoletest.RefusedID
	personalID            = consoletest.PersonalID
	hookID, foreignHookID = consoletest.HookID, consoletest.ForeignHookID
)

var (
	attacks       = consoletest.Attacks
	actor         = consoletest.Actor
	masked        = consoletest.Masked
	recordOf      = consoletest.RecordOf
	stepOf        = consoletest.StepOf
	newGeneration = consoletest.NewGeneration
)

// A site is a console with shorter names for what nearly each test does.
type site struct {
	*consoletest.Site
	added int // requests, by which each has an id of its own
}

func newSite(t testing.TB) *site {
	t.Helper()
	return &site{Site: consoletest.New(t)}
}

func (s *site) serve(caller string, r *http.Request) *httptest.ResponseRecorder {
	return s.Serve(caller, r)
}

func (s *site) get(caller, at string) *httptest.ResponseRecorder {
	s.Helper()
	return s.Get(caller, at)
}

// getGzip gets a page as a caller whose browser accepts gzip.
func (s *site) getGzip(caller, at string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, at, nil)
	r.Header.Set("Accept-Encoding", "gzip, deflate, br")
	return s.Serve(caller, r)
}

func (s *site) post(caller, at string, form url.Values) *httptest.ResponseRecorder {
	s.Helper()
	return s.Post(caller, at, form)
}

func (s *site) want(w *httptest.ResponseRecorder, status int, texts ...string) {
	s.Helper()
	s.Want(w, status, texts...)
}

func (s *site) add(kind journal.Kind, r journal.Record, steps ...journal.Step) {
	s.Helper()
	s.Add(kind, r, steps...)
}

// withoutToken returns a page without the tokens of its forms, which are never the same twice.
func withoutToken(w *httptest.ResponseRecorder) string {
	return regexp.MustCompile(`name="csrf" value="[^"]*"`).ReplaceAllString(w.Body.String(), "")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// callers returns the kinds of visitors: three roles, and the same roles of one merchant's own people.
func callers() []string {
	return []string{"viewer", "operator", "admin", "own-viewer", "own-operator", "own-admin"}
}

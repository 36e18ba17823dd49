package auth_test

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// TestO1StatusOfEachState holds where an authentication is after each thing that can happen to it.
func TestO1StatusOfEachState(t *testing.T) {
	for _, tt := range []struct {
		name   string
		do     func(t *testing.T, w *authtest.World, e *session.Engine) string // returns the id
		status api.Status
		result api.Result // "" before the end
	}{
		{"final ARes", func(t *testing.T, w *authtest.World, e *session.Engine) string {
			return authenticated(t, w, e, "Y")
		}, api.StatusCompleted, api.ResultAuthenticated},
		{"no answer", func(t *testing.T, w *authtest.World, e *session.Engine) string {
			id := authtest.Preauth(t, e, authtest.Shop)
			w.Reply = func(string, authtest.Object) ([]byte, error) { return nil, context.DeadlineExceeded }
			_, _, _ = e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", id).JSON())
			return id
		}, api.StatusFailed, api.ResultError},
		{"challenge", func(t *testing.T, w *authtest.World, e *session.Engine) string {
			return challengedAt(t, w, "2.2.0").Text("threeDSServerTransID")
		}, api.StatusChallenge, ""},
		{"challenge that nobody ends", func(t *testing.T, w *authtest.World, e *session.Engine) string {
			id := challengedAt(t, w, "2.2.0").Text("threeDSServerTransID")
			w.Pass(24*time.Hour + time.Minute)
			return id
		}, api.StatusExpired, api.ResultAbandoned},
		{"result", func(t *testing.T, w *authtest.World, e *session.Engine) string {
			req := challengedAt(t, w, "2.2.0")
			e.Receive(t.Context(), []string{"visa"}, authtest.RReq(req, "N", 1).JSON())
			return req.Text("threeDSServerTransID")
		}, api.StatusCompleted, api.ResultNotAuthenticated},
		{"Erro in place of the result", func(t *testing.T, w *authtest.World, e *session.Engine) string {
			req := challengedAt(t, w, "2.2.0")
			e.Receive(t.Context(), []string{"visa"}, authtest.Object{
				"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "402", "errorComponent": "D",
				"errorDescription": "x", "errorDetail": "y", "threeDSServerTransID": req["threeDSServerTransID"],
			}.JSON())
			return req.Text("threeDSServerTransID")
		}, api.StatusFailed, api.ResultError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := authtest.NewWorld()
			e := w.NewEngine(0)
			id := tt.do(t, w, e)
			a, err := e.Authentication(t.Context(), authtest.Shop, id)
			if err != nil || a.Status != tt.status || (a.Outcome != nil) != (tt.result != "") {
				t.Fatalf("%+v, %v; want %s", a, err, tt.status)
			}
			if a.Outcome != nil && a.Outcome.Result != tt.result {
				t.Errorf("result %s, want %s", a.Outcome.Result, tt.result)
			}
			if _, err := e.Authentication(t.Context(), authtest.Other, id); !errors.Is(err, auth.ErrNoAuthentication) {
				t.Errorf("another merchant: %v", err)
			}
			if a.Outcome != nil {
				testOfJournal(t, w, e, id, a)
			}
		})
	}
}

// testOfJournal checks that the journal says the same about an authentication when its row is gone, except for messages
// and value, and only to its merchant.
func testOfJournal(t *testing.T, w *authtest.World, e *session.Engine, id string, was *auth.Authentication) {
	t.Helper()
	row, err := w.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	st, err := journal.OpenFiles(t.TempDir(), journal.NewKeys())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Write(t.Context(), e.JournalEntries(row, w.Clock(), true, nil)); err != nil {
		t.Fatal(err)
	}
	w.Pass(25 * time.Hour)
	if _, err := e.Authentication(t.Context(), authtest.Shop, id); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("without a journal: %v", err)
	}
	if _, _, err := e.SearchAuthentications(t.Context(), authtest.Shop, journal.Query{}); !errors.Is(err, auth.ErrNoJournal) {
		t.Errorf("a search without a journal: %v", err)
	}
	e.Journal = st
	for name, ask := range map[string]func(acc *account.Account) (*auth.Authentication, error){
		"by id": func(acc *account.Account) (*auth.Authentication, error) {
			return e.Authentication(t.Context(), acc, id)
		},
		"search": func(acc *account.Account) (*auth.Authentication, error) {
			// The query names another merchant, which is not heeded.
			all, _, err := e.SearchAuthentications(t.Context(), acc, journal.Query{ID: id, Merchant: "Shop"})
			if err != nil || len(all) == 0 {
				return nil, cmp.Or(err, auth.ErrNoAuthentication)
			}
			return all[0], nil
		},
	} {
		if a, err := ask(authtest.Other); !errors.Is(err, auth.ErrNoAuthentication) {
			t.Errorf("%s: another merchant gets %+v, %v", name, a, err)
		}
		a, err := ask(authtest.Shop)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, want := *a.Outcome, *was.Outcome
		if e := want.Error; name == "search" && e != nil && e.Component != "S" { // without the texts of others
			code, _ := strconv.Atoi(e.Code)
			element, _, _ := strings.Cut(e.Detail, " ")
			want.Error = &api.OutcomeError{Component: e.Component, Code: e.Code, Description: message.Code(code).Description(), Detail: element}
		}
		if got.Authorisation != nil && want.Authorisation != nil {
			values := *want.Authorisation
			values.AuthenticationValue, values.Expired = "", true
			want.Authorisation = &values
		}
		want.CardholderInfo = ""
		if !reflect.DeepEqual(got, want) || a.Status != was.Status || a.Last4 != was.Last4 || a.Scheme != was.Scheme || !a.Created.Equal(was.Created) ||
			a.MessageVersion != was.MessageVersion || a.ARes != nil || a.RReq != nil {
			t.Errorf("%s: the journal says %+v of %+v, the row said %+v", name, got, a, want)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := e.SearchAuthentications(gone, authtest.Shop, journal.Query{}); !errors.Is(err, txn.ErrStoreUnreachable) {
		t.Errorf("a journal that is away: %v", err)
	}
}

// authenticated makes an /auth that ends with a final ARes, and returns its id.
func authenticated(t *testing.T, w *authtest.World, e *session.Engine, status string) string {
	t.Helper()
	id := authtest.Preauth(t, e, authtest.Shop)
	w.Reply = func(_ string, req authtest.Object) ([]byte, error) { return authtest.ARes(req, status), nil }
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", id).JSON()); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestK5BillingTellsDecoupledFromChallenged: the record says which of the two an ARes asked for, also after the end.
func TestK5BillingTellsDecoupledFromChallenged(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	for status, req := range map[string]authtest.Object{"D": authtest.Decoupled(t, w, "2.2.0", 10), "C": challengedAt(t, w, "2.2.0")} {
		for _, isAtEnd := range []bool{false, true} {
			if isAtEnd {
				e.Receive(t.Context(), []string{"visa"}, authtest.RReq(req, "Y", 1).JSON())
			}
			row, err := w.Get(t.Context(), req.Text("threeDSServerTransID"))
			if err != nil {
				t.Fatal(err)
			}
			entries := e.JournalEntries(row, w.Clock(), true, nil)
			r := entries[len(entries)-1].Record
			if r.Decoupled != (status == "D") || !r.Challenged || isAtEnd != (r.TransStatus == "Y") {
				t.Errorf("at the end: %t, of an ARes %s the record is %+v", isAtEnd, status, r)
			}
		}
	}
}

// TestD3ValuesAreHandedOutForTheirTime checks that the merchant can read an authentication for timeouts.values after
// its end, and not afterwards. /postauth ends earlier.
func TestD3ValuesAreHandedOutForTheirTime(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	final := authenticated(t, w, e, "Y")
	req := challengedAt(t, w, "2.2.0")
	e.Receive(t.Context(), []string{"visa"}, authtest.RReq(req, "Y", 1).JSON())
	w.Pass(29 * time.Minute)
	for _, id := range []string{final, req.Text("threeDSServerTransID")} {
		a, err := e.Authentication(t.Context(), authtest.Shop, id)
		if err != nil || a.Outcome.Authorisation.AuthenticationValue == "" {
			t.Errorf("after 29 minutes: %+v, %v", a, err)
		}
	}
	if _, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": req["threeDSServerTransID"]}.JSON()); authtest.CodeOf(err) != "203" {
		t.Errorf("/postauth after 29 minutes: %v, want 203", err)
	}
	w.Pass(2 * time.Minute)
	for _, id := range []string{final, req.Text("threeDSServerTransID")} {
		if _, err := e.Authentication(t.Context(), authtest.Shop, id); !errors.Is(err, auth.ErrNoAuthentication) {
			t.Errorf("after 31 minutes: %v", err)
		}
	}
}

// TestD3ValuesEndBeforeTheID checks that an authentication can no longer be read when its row stays only to keep the id
// used up.
func TestD3ValuesEndBeforeTheID(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	e.Timeouts.Preauth, e.Timeouts.Values, e.Timeouts.Result = time.Hour, 10*time.Minute, 5*time.Minute
	id := authenticated(t, w, e, "Y")
	w.Pass(11 * time.Minute)
	if _, err := w.Get(t.Context(), id); err != nil {
		t.Fatalf("the row is gone: %v", err)
	}
	if _, err := e.Authentication(t.Context(), authtest.Shop, id); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("after 11 minutes: %v", err)
	}
}

// lateReader is a store whose first Get returns an older version of the row.
type lateReader struct {
	txn.Store
	old  store.Txn
	once sync.Once
}

func (l *lateReader) Get(ctx context.Context, id string) (t store.Txn, err error) {
	t, err = l.Store.Get(ctx, id)
	l.once.Do(func() { t, err = l.old, nil })
	return t, err
}

// TestRowReadJustBeforeItsResultIsReadAgain holds that such a row is not taken for one that was put back.
func TestRowReadJustBeforeItsResultIsReadAgain(t *testing.T) {
	w := authtest.NewWorld()
	req := challengedAt(t, w, "2.2.0")
	id := req.Text("threeDSServerTransID")
	old, err := w.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	e := w.NewEngine(0)
	e.PutBack = func() { t.Error("a row was taken for one that was put back") }
	body := authtest.RReq(req, "Y", 1).JSON()
	if got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, body).Body); got.Text("messageType") != "RRes" {
		t.Fatal(got)
	}
	e.Store = &lateReader{Store: e.Store, old: old}
	if got, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": id}.JSON()); err != nil || string(got) != string(body) {
		t.Errorf("%q, %v; want the result", got, err)
	}
}

// TestAuthenticationOpensNothingForAForeignID holds that a foreign id costs what an unknown one does.
func TestAuthenticationOpensNothingForAForeignID(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	id := authenticated(t, w, e, "Y")
	s := &spy{Store: e.Store, Sealer: e.Sealer}
	e.Store, e.Sealer = s, s
	for _, id := range []string{id, "11111111-1111-4111-8111-111111111111"} {
		s.read = nil
		if _, err := e.Authentication(t.Context(), authtest.Other, id); !errors.Is(err, auth.ErrNoAuthentication) {
			t.Error(err)
		}
		if len(s.read) != 1 || s.read[0] == id || s.opened != 0 {
			t.Errorf("%q was read and %d records were opened, want one row that does not exist", s.read, s.opened)
		}
	}
}

// TestAuthenticationWhileTheStoreIsAway holds that a store that does not answer is no unknown id.
func TestAuthenticationWhileTheStoreIsAway(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	id := authenticated(t, w, e, "Y")
	w.Down = true
	if _, err := e.Authentication(t.Context(), authtest.Shop, id); !errors.Is(err, txn.ErrStoreUnreachable) {
		t.Errorf("%v", err)
	}
}

// TestF7CursorIsOfOneSearch: the pages of a search go on after a restart, on another node and with a new secret in the
// key file. Any other search, and any other merchant, is refused.
func TestF7CursorIsOfOneSearch(t *testing.T) {
	w := authtest.NewWorld()
	ring := authtest.NewKeyRing(t)
	first := w.NewEngine(0)
	first.Sealer = ring
	st, err := journal.OpenFiles(t.TempDir(), journal.NewKeys())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	first.Journal = st
	var ids []string
	for range 3 {
		id := authenticated(t, w, first, "Y")
		row, err := w.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Write(t.Context(), first.JournalEntries(row, w.Clock(), true, nil)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		w.Pass(time.Second)
	}
	q := journal.Query{Status: "completed", Limit: 1, From: w.Clock().Add(-time.Hour)}
	page, cursor, err := first.SearchAuthentications(t.Context(), authtest.Shop, q)
	if err != nil || len(page) != 1 || page[0].ID != ids[2] || cursor == "" {
		t.Fatalf("%+v, %q, %v", page, cursor, err)
	}

	h, err := ring.NewHandover(nil)
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := ring.Follow(&h)
	if err != nil {
		t.Fatal(err)
	}
	second := w.NewEngine(0)
	second.Sealer, second.Journal = rotated, st
	for name, tt := range map[string]struct {
		acc    *account.Account
		change func(q *journal.Query)
		err    error
	}{
		"the same":         {authtest.Shop, func(q *journal.Query) { q.Limit = 5 }, nil},
		"another merchant": {authtest.Other, func(*journal.Query) {}, auth.ErrCursor},
		"another names it": {authtest.Other, func(q *journal.Query) { q.Merchant = "Shop" }, auth.ErrCursor},
		"no status":        {authtest.Shop, func(q *journal.Query) { q.Status = "" }, auth.ErrCursor},
		"as a result":      {authtest.Shop, func(q *journal.Query) { q.Status, q.Result = "", q.Status }, auth.ErrCursor},
		"a card":           {authtest.Shop, func(q *journal.Query) { q.Card = "4000000000000103" }, auth.ErrCursor},
		"a reference":      {authtest.Shop, func(q *journal.Query) { q.Reference = "order-1" }, auth.ErrCursor},
		"last four":        {authtest.Shop, func(q *journal.Query) { q.Last4 = "0103" }, auth.ErrCursor},
		"a scheme":         {authtest.Shop, func(q *journal.Query) { q.Scheme = "visa" }, auth.ErrCursor},
		"earlier":          {authtest.Shop, func(q *journal.Query) { q.From = q.From.Add(-time.Second) }, auth.ErrCursor},
		"an end":           {authtest.Shop, func(q *journal.Query) { q.To = w.Clock() }, auth.ErrCursor},
		"no base64":        {authtest.Shop, func(q *journal.Query) { q.Cursor += "!" }, auth.ErrCursor},
		"cut off":          {authtest.Shop, func(q *journal.Query) { q.Cursor = q.Cursor[:8] }, auth.ErrCursor},
	} {
		q := q
		q.Cursor = cursor
		tt.change(&q)
		page, next, err := second.SearchAuthentications(t.Context(), tt.acc, q)
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: %+v, %v, want %v", name, page, err, tt.err)
		}
		if tt.err == nil && (len(page) != 2 || page[0].ID != ids[1] || page[1].ID != ids[0] || next != "") {
			t.Errorf("%s: %+v, %q, want the two older ones", name, page, next)
		}
	}

	second.Sealer = authtest.NewKeyRing(t)
	q.Cursor = cursor
	if page, _, err := second.SearchAuthentications(t.Context(), authtest.Shop, q); !errors.Is(err, auth.ErrCursor) {
		t.Errorf("with another key file: %+v, %v", page, err)
	}
}

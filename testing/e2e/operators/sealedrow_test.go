package operators

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// An opener puts the store of a plan where a statement of SQL can be run in it.
type opener func(t *testing.T, p *rig.Plan) func(s *rig.Site, statement string)

func openSQLite(t *testing.T, _ *rig.Plan) func(*rig.Site, string) {
	return func(s *rig.Site, statement string) {
		t.Helper()
		db, err := sql.Open("sqlite", "file:"+filepath.Join(filepath.Dir(s.ConfigFile), "data", "threeds.db")+"?_pragma=busy_timeout(5000)")
		rig.Must(t, err)
		defer db.Close() // what was written is written
		_, err = db.Exec(statement)
		rig.Must(t, err)
	}
}

func openPostgres(t *testing.T, p *rig.Plan) func(*rig.Site, string) {
	server := pgtest.Get(t)
	url := server.Schema(t)
	p.Store = "store: {url: \"" + url + "\"}\nkeys: keys.json"
	return func(_ *rig.Site, statement string) {
		t.Helper()
		server.Exec(t, url, statement)
	}
}

// TestKeyRowChangedBySQL: whoever can write to the database gives no key what it was
// not made with, on a node that knows the key and on one that looks it up. The key is told
// to come again, for its row may be mended; the others are served.
func TestKeyRowChangedBySQL(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	for name, tt := range map[string]struct {
		another, short string // another strict, a hash that we would not make
		open           opener
	}{
		"sqlite":   {"2", "x'01'", openSQLite},
		"postgres": {"NOT strict", `'\x01'`, openPostgres},
	} {
		t.Run(name, func(t *testing.T) {
			var p rig.Plan
			exec := tt.open(t, &p)
			s := rig.StartSite(t, ca, rig.NewWire(t, ca), p)
			changes := map[string]string{
				"merchant": "SET merchant = 'Shop'",
				"strict":   "SET strict = " + tt.another,
				"created":  "SET created = created + 1",
				"no seal":  "SET seal = substr(seal, 1, 0)",
				"left":     "SET seal = (SELECT seal FROM api_keys AS other WHERE other.merchant = 'right')",
				"right":    "SET seal = (SELECT seal FROM api_keys AS other WHERE other.merchant = 'Other')",
			}
			keys := make(map[string]string)
			for what := range changes {
				keys[what] = s.CreateKey(what)
			}
			status := func(s *rig.Site, key string) int {
				res, _ := s.Call(http.MethodPost, "/preauth", key, rig.Object{"acctNumber": rig.EnrolledPAN})
				return res.StatusCode
			}
			for what, key := range keys {
				if got := status(s, key); got != 200 {
					t.Errorf("%s: %d before the change", what, got)
				}
			}
			for _, what := range []string{"merchant", "strict", "created", "no seal", "left", "right"} {
				exec(s, "UPDATE api_keys "+changes[what]+" WHERE merchant = '"+what+"'")
			}
			exec(s, "INSERT INTO api_keys (hash, merchant, strict, created, seal) SELECT "+tt.short+
				", merchant, strict, created, seal FROM api_keys WHERE merchant = 'Other'")
			refused := len(changes) + 1
			for what, key := range keys {
				waittest.Until(t, what+" to be refused", func() bool { return status(s, key) == 400 })
			}
			beside := rig.StartSite(t, ca, s.Directory, rig.Plan{Beside: s, Unready: true})
			for _, node := range []*rig.Site{s, beside} {
				for what, key := range keys {
					t.Run(what, func(t *testing.T) { wantKeyNotJudged(node.In(t), key, http.StatusBadRequest) })
				}
				if got := status(node, strangersKey); got != 401 {
					t.Errorf("a key of which there is no row: %d, want 401", got)
				}
				for _, key := range []string{s.APIKey, s.OtherAPIKey} {
					if got := status(node, key); got != 200 {
						t.Errorf("a key that nobody has touched: %d", got)
					}
				}
				waittest.Until(t, fmt.Sprintf("all rows to be read, %d of them to be refused", refused), func() bool {
					m := node.Metrics()
					return m[`threeds_api_keys{state="good"}`] == 2 && m[`threeds_api_keys{state="refused"}`] == float64(refused)
				})
				waittest.Until(t, "/readyz to say that it is degraded", func() bool {
					code, status, problem := node.ReadyStatus("keys")
					return code == 200 && status == "degraded" && strings.Contains(problem, fmt.Sprintf("%d of %d API keys", refused, refused+2))
				})
				if n := node.Metric(`threeds_degraded{what="keys"}`); n != 1 {
					t.Errorf("threeds_degraded of keys is %v, want 1", n)
				}
				if n := strings.Count(node.Log.String(), "not as it was sealed"); n != refused {
					t.Errorf("%d lines in the log, want one of each row:\n%s", n, node.Log.String())
				}
			}
			wantRefused(s, refused)
			for _, key := range keys {
				s.RevokeKey(key)
			}
			exec(s, "DELETE FROM api_keys WHERE hash = "+tt.short)
			wantRefused(s, 0)
			waittest.Until(t, "/readyz to be well again", func() bool { return s.Readiness() == `{"status":"ready"}` })
		})
	}
}

// wantRefused checks what the list of keys says, beside two good ones.
func wantRefused(s *rig.Site, want int) {
	s.T.Helper()
	list := func(flags ...string) string {
		var out strings.Builder
		if code := rig.Run(s.T.Context(), append([]string{"key", "list", "--config", s.ConfigFile}, flags...), nil, &out, &out); code != 0 {
			s.T.Fatalf("key list: %d %s", code, out.String())
		}
		return out.String()
	}
	text := list()
	if n := strings.Count(text, "  refused  "); n != want || strings.Count(text, "  lenient  ") != 2 {
		s.T.Errorf("%d keys are listed as refused, want %d:\n%s", n, want, text)
	}
	if said := strings.Contains(text, "keys refused: the row in the store is not as it was sealed"); said != (want > 0) {
		s.T.Errorf("the list explains it: %t\n%s", said, text)
	}
	var all []rig.KeyReport
	if err := json.Unmarshal([]byte(list("--json")), &all); err != nil {
		s.T.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(k rig.KeyReport) bool { return k.State != rig.KeyRefused })
	if len(all) != want {
		s.T.Errorf("%d keys are refused in JSON, want %d", len(all), want)
	}
}

// TestTransactionRowChangedBySQL: whoever can write to the database makes of no
// transaction another's, and of no result another. Each row that is refused is counted.
func TestTransactionRowChangedBySQL(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]opener{"sqlite": openSQLite, "postgres": openPostgres} {
		t.Run(name, func(t *testing.T) {
			var p rig.Plan
			exec := open(t, &p)
			// The journal looks at all rows from time to time, and what it cannot open counts, too.
			p.Store = cmp.Or(p.Store, `store: {url: "file:data"}`) + "\njournal: off"
			s := rig.StartLegacy(t, p)
			change := func(id, set string) {
				exec(s.Site, "UPDATE txns SET "+set+" WHERE id = '"+id+"'")
			}
			counted := func() float64 { return s.Metric("threeds_store_records_refused_total") }
			refused := func(t *testing.T, id string) {
				t.Helper()
				for _, key := range []string{s.APIKey, s.OtherAPIKey} {
					if res, got := s.Call(http.MethodPost, "/postauth", key, rig.Object{"threeDSServerTransID": id}); res.StatusCode == 200 {
						t.Errorf("/postauth gave out %s", got)
					}
				}
			}
			if n := counted(); n != 0 {
				t.Fatalf("%v refused before anything was changed", n)
			}
			good, answer := s.Challenged("2.2.0")
			goodRReq := rig.Marshal(rig.RReq(good, answer, "Y"))
			other, otherAnswer := s.Challenged("2.2.0")
			s.Result(rig.Marshal(rig.RReq(other, otherAnswer, "Y")))
			foreign := "data = (SELECT data FROM txns AS other WHERE other.id = '" + other.Text("threeDSServerTransID") + "')"
			for what, set := range map[string]string{
				"owner": "owner = 'Other'", "expires": "expires = expires + 1", "record": foreign, "no record": "data = substr(data, 1, 0)",
				"the end": "data = substr(data, 1, length(data) - 1)",
			} {
				t.Run(what, func(t *testing.T) {
					before := counted()
					areq, answer := s.Challenged("2.2.0")
					id := areq.Text("threeDSServerTransID")
					change(id, set)
					if got := s.Result(rig.Marshal(rig.RReq(areq, answer, "Y"))); got.Text("errorCode") != "403" {
						t.Errorf("before the result: %v", got)
					}
					refused(t, id)
					areq, answer = s.Challenged("2.2.0")
					id = areq.Text("threeDSServerTransID")
					s.Result(rig.Marshal(rig.RReq(areq, answer, "Y")))
					if code, _ := s.Postauth(id); code != 200 {
						t.Fatalf("/postauth: %d before the change", code)
					}
					change(id, set)
					refused(t, id)
					want := 3.0 // the RReq, and /postauth of the owner, twice
					if what == "owner" {
						want = 1 // for a merchant that is not the owner by id and by row, the row is not opened
					}
					if n := counted() - before; n != want {
						t.Errorf("%v rows refused and counted, want %v", n, want)
					}
				})
			}
			t.Run("state", func(t *testing.T) { // of a result, so that another is taken
				change(other.Text("threeDSServerTransID"), "state = 'challenge'")
				if got := s.Result(rig.Marshal(rig.RReq(other, otherAnswer, "N"))); got.Text("errorCode") != "403" {
					t.Errorf("a second result: %v", got)
				}
				refused(t, other.Text("threeDSServerTransID"))
			})
			t.Run("PAReq", func(t *testing.T) {
				req := s.Enroll(rig.Purchase(rig.V1Visa))
				pares := rig.V1Issuers()["visa"].Sign(req.Answer(rig.V1Visa, "Y"))
				before := counted()
				exec(s.Site, "UPDATE txns SET expires = expires + 1 WHERE id LIKE 'v1%'")
				if code, got := s.Form("/check", url.Values{"pares": {pares}}); code != 503 || got["status"] != nil {
					t.Errorf("/check: %d %v", code, got)
				}
				if n := counted() - before; n != 1 {
					t.Errorf("%v rows refused and counted, want 1", n)
				}
			})
			before := counted()
			if got := s.Result(goodRReq); got.Text("messageType") != "RRes" {
				t.Errorf("the one that nobody has touched: %v", got)
			}
			if res, got := s.Call(http.MethodPost, "/postauth", s.APIKey,
				rig.Object{"threeDSServerTransID": good["threeDSServerTransID"]}); !bytes.Equal(got, goodRReq) {
				t.Errorf("its /postauth: %d %s", res.StatusCode, got)
			}
			if n := counted() - before; n != 0 {
				t.Errorf("%v rows refused and counted that nobody has touched", n)
			}
		})
	}
}

package journal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A tracedCard is a card that a site has seen in every way that leaves something behind.
type tracedCard struct {
	*rig.LegacySite
	pan        string
	references []string   // under which the merchant knows the authentications
	ids        []string   // ids of authentications
	body       rig.Object // the request that was sent with the Idempotency-Key key
	key        string
}

// leaveTraces has a card authenticated, refused, searched for and told of, in each API.
func leaveTraces(s *rig.LegacySite, pan string) *tracedCard {
	s.T.Helper()
	name := "order-of-" + pan[len(pan)-4:]
	c := &tracedCard{LegacySite: s, pan: pan, key: "key " + name, references: []string{name + "-a", name + "-b", name + "-c"}}
	id := s.Preauth(pan).Text("threeDSServerTransID")
	if res, data := s.Call(http.MethodPost, "/auth", s.APIKey, rig.BrowserRequest("2.2.0", pan, id, "U"), "X-Reference", c.references[0]); res.StatusCode != 200 {
		s.T.Fatalf("/auth: %d %s", res.StatusCode, data)
	}
	s.Call(http.MethodPost, "/auth", s.APIKey, rig.BrowserRequest("2.2.0", pan, id, "U").With(rig.Object{"mcc": "x"}), "X-Reference", c.references[1]) // refused
	c.body = rig.ThreeRIRequest("2.2.0", pan, "").With(rig.Object{"reference": c.references[2], "messageType": nil, "threeDSServerTransID": nil})
	made, replayed := c.create()
	if made.Text("id") == "" || replayed {
		s.T.Fatalf("/authentications: %v", made)
	}
	c.ids = []string{id, made.Text("id")}
	asked := s.Enroll(rig.With(rig.Purchase(pan), "order_id", name))
	if code, got := s.Check("visa", asked.Answer(pan, "N")); code != 200 {
		s.T.Fatalf("/check: %d %v", code, got)
	}
	return c
}

// search has answers kept that show the card, and are not about its number.
func (c *tracedCard) search() {
	c.T.Helper()
	for _, body := range []rig.Object{{"reference": c.references[0]}, {"last4": c.pan[len(c.pan)-4:]}} {
		_, data := c.Call(http.MethodPost, "/authentications/search", c.APIKey, body, "Idempotency-Key", "search "+c.key+body.Text("reference"))
		if !strings.Contains(string(data), c.pan[len(c.pan)-4:]) {
			c.T.Errorf("a search for %v finds %s", body, data)
		}
	}
}

// create makes the request with the Idempotency-Key, and says whether the answer is one that was kept.
func (c *tracedCard) create() (answer rig.Object, isReplayed bool) {
	c.T.Helper()
	res, data := c.Call(http.MethodPost, "/authentications", c.APIKey, c.body, "Idempotency-Key", c.key)
	return rig.ParseObject(c.T, data), res.Header.Get("Idempotency-Replayed") != ""
}

// traces are the texts and bytes by which a card is known in what is written.
func (c *tracedCard) traces(keys *journal.Keys) map[string]string {
	hash := keys.CardHash(c.pan)
	all := map[string]string{
		"number": c.pan, "hash": string(hash), "hash in hexadecimal": hex.EncodeToString(hash),
		"digits in a file": c.pan[:8] + c.pan[len(c.pan)-4:], "digits in a table": c.pan[:8] + "\t" + c.pan[len(c.pan)-4:],
	}
	for _, reference := range c.references {
		all["reference "+reference] = reference
	}
	return all
}

// tracesIn names the traces that data has.
func (c *tracedCard) tracesIn(keys *journal.Keys, data []byte) []string {
	var names []string
	for name, trace := range c.traces(keys) {
		if bytes.Contains(data, []byte(trace)) {
			names = append(names, name)
		}
	}
	return names
}

// command runs a command with what stdin has, and returns what it prints.
func command(s *rig.Site, stdin string, args ...string) string {
	s.T.Helper()
	var out, errs strings.Builder
	if code := rig.Run(s.T.Context(), append(args, "--config", s.ConfigFile), strings.NewReader(stdin), &out, &errs); code != 0 {
		s.T.Fatalf("%s: %d %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String() + errs.String()
}

// dumpFiles returns the bytes of all files of a directory.
func dumpFiles(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	for _, file := range rig.ListFiles(t, dir) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// dumpTables returns the rows of all tables of a schema of PostgreSQL, as COPY writes them.
func dumpTables(t *testing.T, url string) []byte {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) < 10 {
		t.Fatalf("%d tables, %v", len(names), err)
	}
	var all bytes.Buffer
	const undefinedTable = "42P01" // a partition of personal data, which are not kept, was dropped just now
	for _, name := range names {
		_, err := conn.PgConn().CopyTo(t.Context(), &all, `COPY `+pgx.Identifier{name}.Sanitize()+` TO STDOUT`)
		if fault, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || fault.Code != undefinedTable) {
			t.Fatal(err)
		}
	}
	return bytes.ReplaceAll(all.Bytes(), []byte(`\\x`), nil) // before bytes in hexadecimal
}

// TestD127EraseLeavesNoTraceOfACard: what a card has left by either API and by 3-D Secure 1.0.2 is gone from search,
// from exports, from a dump of the database, from the events and from the kept answers. Another card keeps all of that.
func TestD127EraseLeavesNoTraceOfACard(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		eraseCard(t, `store: {url: "file:data"}`, func(s *rig.Site) []byte { return dumpFiles(s.T, filepath.Join(filepath.Dir(s.ConfigFile), "data")) })
	})
	t.Run("postgres", func(t *testing.T) {
		url := pgtest.Get(t).Schema(t)
		place := fmt.Sprintf("store: {url: %q}\nkeys: %s", url, filepath.Join(t.TempDir(), "keys.json"))
		eraseCard(t, place, func(s *rig.Site) []byte { return dumpTables(s.T, url) })
	})
}

func eraseCard(t *testing.T, place string, dump func(*rig.Site) []byte) {
	s := rig.StartLegacy(t, rig.Plan{Store: place, Sections: "webhooks: {allow: [127.0.0.0/8], http: true}"})
	if res, data := s.Call(http.MethodPost, "/webhook-endpoints", s.APIKey, rig.Object{"url": "http://127.0.0.1:9/hook"}); res.StatusCode != 201 {
		t.Fatalf("endpoint: %d %s", res.StatusCode, data)
	}
	erased, other := leaveTraces(s, canaryPAN), leaveTraces(s, rig.EnrolledPAN)
	rig.Must(t, rig.WithJournal(t.Context(), s.ConfigFile, func(st journal.Store, keys *journal.Keys) error {
		waittest.Until(t, "the journal", func() bool {
			for _, c := range []*tracedCard{erased, other} {
				// Two authentications, one refusal, and two requests of 1.0.2.
				if page, err := st.Search(t.Context(), journal.Query{Card: c.pan}); err != nil || len(page.Records) != 5 {
					return false
				}
			}
			return true
		})
		erased.search()
		other.search()
		before := dump(s.Site)
		for name := range erased.traces(keys) {
			if !strings.HasPrefix(name, "reference") {
				continue
			}
			if !strings.Contains(strings.Join(erased.tracesIn(keys, before), ", "), name) {
				t.Errorf("the dump has no %s before: the test shows nothing", name)
			}
		}
		got := strings.Join(erased.tracesIn(keys, before), ", ")
		if !strings.Contains(got, "hash") || !strings.Contains(got, "digits") || strings.Contains(got, "number") {
			t.Errorf("the dump has the %s before", got)
		}
		if n := len(events(t, s.Site, erased.ids)); n != 2 {
			t.Errorf("%d events before, want 2", n)
		}

		printed := command(s.Site, erased.pan+"\n", "journal", "erase", "--card", "-", "--yes")
		if !strings.Contains(printed, "erased: 5 authentications, ") || !strings.Contains(printed, "threeds: erased 2 events, 3 kept answers") {
			t.Errorf("printed %q", printed)
		}

		after := dump(s.Site)
		if got := erased.tracesIn(keys, after); len(got) > 0 {
			t.Errorf("the dump has still the %q", got)
		}
		if got := other.tracesIn(keys, after); len(got) < 5 {
			t.Errorf("of the other card the dump has the %q alone", got)
		}
		if page, err := st.Search(t.Context(), journal.Query{Card: erased.pan}); err != nil || len(page.Records) != 0 {
			t.Errorf("a search by card finds %+v, %v", page.Records, err)
		}
		export := command(s.Site, "", "journal", "export")
		if got := erased.tracesIn(keys, []byte(export)); len(got) > 0 || len(other.tracesIn(keys, []byte(export))) == 0 {
			t.Errorf("the export has the %q", got)
		}
		if got := erased.tracesIn(keys, []byte(command(s.Site, "", "audit", "export"))); len(got) > 0 {
			t.Errorf("the audit trail has the %q", got)
		}
		if _, err := journal.Verify(strings.NewReader(export[:strings.LastIndex(export, "threeds: exported")]), keys.PublicKey()); err != nil {
			t.Errorf("the export does not verify: %v", err)
		}
		if events := append(events(t, s.Site, erased.ids), events(t, s.Site, other.ids)...); len(events) != 2 {
			t.Errorf("%d events, want the two of the other card", len(events))
		}
		return nil
	}))
	if got, replayed := other.create(); !replayed || got.Text("id") != other.ids[1] {
		t.Errorf("the other card's kept answer: %v, replayed %v", got, replayed)
	}
	if got, replayed := erased.create(); replayed || got.Text("id") == erased.ids[1] {
		t.Errorf("the erased card's kept answer comes again: %v", got)
	}
	waittest.Until(t, "the journal", rig.Unhurried(func() bool {
		return strings.Contains(command(s.Site, erased.pan, "journal", "search", "--card", "-"), erased.references[2])
	}))
	if printed := command(s.Site, "", "journal", "erase", "--merchant", "Shop", "--yes"); !strings.Contains(printed, "erased: 6 authentications, ") {
		t.Errorf("of the merchant: printed %q", printed)
	}
	if _, replayed := other.create(); replayed {
		t.Error("the merchant's kept answer comes again")
	}
	if text := command(s.Site, "", "audit", "export"); strings.Count(text, `"journal.erase"`) != 2 {
		t.Errorf("the audit trail: %s", text)
	}
}

// events returns the events about authentications that the store has.
func events(t *testing.T, s *rig.Site, ids []string) (all []store.Event) {
	t.Helper()
	rig.Must(t, rig.WithKeys(t.Context(), s.ConfigFile, func(_ *config.Config, db store.Store, _ *keyring.Ring) error {
		for _, id := range ids {
			found, err := db.FindEvents(t.Context(), store.EventQuery{Merchant: "Shop", About: id, Now: time.Now(), Limit: 10})
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
		return nil
	}))
	return all
}

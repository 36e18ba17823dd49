package journal_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// A countingStore notes how much of an export had been written when it was asked for more.
type countingStore struct {
	journal.Store
	out    *bytes.Buffer
	keys   *journal.Keys
	pages  int
	behind []int // records that were read and not written, at each further page
}

func (s *countingStore) Search(_ context.Context, q journal.Query) (journal.Page, error) {
	s.behind = append(s.behind, s.pages*q.Limit-strings.Count(s.out.String(), "order"))
	s.pages++
	page := journal.Page{Next: "more"}
	for range q.Limit {
		page.Records = append(page.Records, journal.Record{ID: "id", Reference: "order"})
	}
	if s.pages == 5 {
		page.Next = ""
	}
	return page, nil
}

func (s *countingStore) ReadSeals(context.Context, int64, func(journal.Seal) error) error { return nil }

func (s *countingStore) Export(_ context.Context, _ journal.Query, line func(journal.ExportedEntry) error) error {
	content, link := []byte(`{"reference":"order"}`), []byte(nil)
	digest := journal.DigestOf(nil, content)
	for n := range int64(5000) {
		if n%1000 == 0 {
			s.behind = append(s.behind, int(n)-strings.Count(s.out.String(), "order"))
		}
		link = journal.NextLink(link, digest)
		mac := s.keys.LinkMAC(journal.AuditChain, n+1, link)
		if err := line(journal.ExportedEntry{Chain: journal.AuditChain, Seq: n + 1, Digest: digest, Link: link, MAC: mac, Content: content}); err != nil {
			return err
		}
	}
	return nil
}

// TestJ7ExportIsStreamed: of 5,000 records, whenever a thousand more are read, all but a buffer of those before have
// been written, in either format.
func TestJ7ExportIsStreamed(t *testing.T) {
	t.Parallel()
	for format, export := range map[string]func(*countingStore) (int, error){
		"csv": func(s *countingStore) (int, error) {
			return journal.WriteCSV(t.Context(), s.out, s, nil, journal.Query{})
		},
		"jsonl": func(s *countingStore) (int, error) {
			return journal.WriteJSONLines(t.Context(), s.out, s, s.keys, journal.Query{})
		},
	} {
		s := &countingStore{out: new(bytes.Buffer), keys: journal.NewKeys()}
		if n, err := export(s); err != nil || n != 5000 || len(s.behind) != 5 {
			t.Fatalf("%s: %d records, %v, read in %d parts", format, n, err, len(s.behind))
		}
		for part, behind := range s.behind {
			if behind > 500 {
				t.Errorf("%s: when part %d is read, %d records wait to be written", format, part, behind)
			}
		}
	}
}

// TestJ7CSVHasEveryMemberOfARecord: each under its name, and no text is a formula.
func TestJ7CSVHasEveryMemberOfARecord(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		e := entry(keys, 1, journal.Answered)
		e.Record.Reference, e.Record.Operation, e.Record.Amount, e.Record.Currency = "=1+1", "auth", "1099", "978"
		e.Record.DeviceChannel, e.Record.MessageCategory, e.Record.Result, e.Record.TransStatusReason = "02", "01", "authenticated", "01"
		e.Record.ECI, e.Record.ACS, e.Record.DSTransID, e.Record.ACSTransID = "05", "ACS 1", "ds", "acs"
		e.Record.Challenged, e.Record.Liability, e.Record.ErrorCode, e.Record.Elements = true, "yes", "203", []string{"mcc", "acctNumber"}
		e.Record.Exponent, e.Record.AcquirerMerchant, e.Record.ErrorComponent = "2", "shop-1", "S"
		e.Record.Unkept = []journal.Rule{{Element: "mcc", Rule: "require"}}
		e.Record.ErrorDescription, e.Record.ErrorDetail = "Not valid.", "mcc"
		e.Record.ResultRefused = &journal.Refusal{At: time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC), Code: "203", Detail: "transStatus"}
		write(t, st, e)
		var out bytes.Buffer
		if n, err := journal.WriteCSV(t.Context(), &out, st, nil, journal.Query{}); err != nil || n != 1 {
			t.Fatalf("%d records, %v", n, err)
		}
		rows, err := csv.NewReader(&out).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		got := map[string]string{}
		for i, name := range rows[0] {
			got[name] = rows[1][i]
		}
		text, err := json.Marshal(e.Record)
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		for name, value := range want["card"].(map[string]any) {
			want[name] = value
		}
		delete(want, "card")
		delete(want, "lacksValue") // liability says what follows
		delete(want, "currentId")
		delete(want, "unkept")
		want["schemeFindings"] = `[{"element":"mcc","level":"required","since":null,"until":null,"inForce":true,"text":"mcc: required","source":null}]`
		want["next"], want["resultRefused"] = "authorise", "2026-11-28T10:00:00Z 203 transStatus"
		want["reference"], want["elements"] = "'=1+1", "mcc acctNumber"
		for name, value := range want {
			if is, ok := got[name]; !ok || is != fmt.Sprint(value) {
				t.Errorf("%s is %q, there: %v; want %v", name, is, ok, value)
			}
		}
		if len(got) != len(want) {
			t.Errorf("the file has %d columns, a record %d members", len(got), len(want))
		}
	})
}

// A line is a line of an export, as somebody reads it who has only the page about it.
type line struct {
	Type, KeyID, Chain, Salt, Digest, Link, Text, Signature, At string
	Version                                                     int
	Seq, Lines                                                  int64
	Erased                                                      bool
	Record                                                      json.RawMessage
}

// TestD121ExportIsAsThePageSays: who reads it with SHA-256 and Ed25519 alone comes to the same links and
// signatures. Each day and writer has a chain of its own, the end of a finished day is signed, and entries of
// others are bare links.
func TestD121ExportIsAsThePageSays(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		for n := range 6 { // two on the first day, four on the second
			write(t, st, entry(keys, 10+n, journal.Claimed))
		}
		if err := st.Sign(t.Context(), day.AddDate(0, 0, 1)); err != nil {
			t.Fatal(err)
		}
		text := export(t, st, keys, journal.Query{Merchant: "shop 0", At: day.AddDate(0, 0, 1)})
		sum := func(parts ...[]byte) []byte {
			h := sha256.Sum256(bytes.Join(parts, nil))
			return h[:]
		}
		heads, types, before, seal := map[string][]byte{}, []string{}, 0, ""
		for n, raw := range strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n") {
			var l line
			if err := json.Unmarshal([]byte(raw), &l); err != nil {
				t.Fatal(err)
			}
			types = append(types, l.Type)
			digest, _ := hex.DecodeString(l.Digest)
			signature, _ := base64.StdEncoding.DecodeString(l.Signature)
			switch l.Type {
			case "header":
				key := sha256.Sum256(keys.PublicKey())
				if l.Version != 2 || l.KeyID != hex.EncodeToString(key[:8]) {
					t.Errorf("header: %s", raw)
				}
			case "record", "link":
				if heads[l.Chain] == nil {
					heads[l.Chain] = sum([]byte("threeds journal " + l.Chain))
				}
				heads[l.Chain] = sum(heads[l.Chain], digest)
				salt, _ := hex.DecodeString(l.Salt)
				if l.Link != hex.EncodeToString(heads[l.Chain]) || l.Type == "record" && !bytes.Equal(digest, sum(salt, l.Record)) {
					t.Errorf("line %d: the link or the digest is another one", n+1)
				}
				if l.Type == "link" && (l.Record != nil || l.Salt != "") || l.Erased {
					t.Errorf("line %d is no bare link", n+1)
				}
			case "seal":
				if seal = l.Text; !ed25519.Verify(keys.PublicKey(), []byte(seal), signature) {
					t.Errorf("line %d: the signature of the seal", n+1)
				}
			case "end":
				whole := sha256.Sum256([]byte(text[:before]))
				if l.Lines != int64(n) || l.Digest != hex.EncodeToString(whole[:]) ||
					!ed25519.Verify(keys.PublicKey(), fmt.Appendf(nil, "threeds journal export %d %x %s", n, whole, l.At), signature) {
					t.Errorf("the end: %s", raw)
				}
			}
			before += len(raw)
		}
		want := []string{"header", "seal", "record", "link", "record", "link", "record", "link", "end"}
		if !reflect.DeepEqual(types, want) || len(heads) != 2 {
			t.Errorf("lines are %v in %d chains, want %v", types, len(heads), want)
		}
		signed := 0
		for chain, link := range heads {
			if strings.Contains(seal, fmt.Sprintf("\ndays 2026-03-30 2026-03-30\nchain %s 2 %x\n", chain, link)) {
				signed++
			}
		}
		if signed != 1 {
			t.Errorf("the seal of the first day is\n%s", seal)
		}
	})
}

// A memoryStore notes when entries were written.
type memoryStore struct {
	journal.Store
	mu      sync.Mutex
	written []time.Time
}

func (s *memoryStore) Write(_ context.Context, entries []journal.Entry) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range entries {
		s.written = append(s.written, time.Now())
	}
	return len(entries), nil
}

func (s *memoryStore) Sign(context.Context, time.Time) error { return nil }
func (s *memoryStore) Faults() []string                      { return nil }

func (s *memoryStore) Head(context.Context, time.Time, *journal.ChainEnd) (journal.Head, error) {
	return journal.Head{}, nil
}

func (s *memoryStore) Expire(context.Context, time.Time) error         { return nil }
func (s *memoryStore) ExpireMessages(context.Context, time.Time) error { return nil }

func (s *memoryStore) EraseDue(context.Context) (journal.ErasedDue, error) {
	return journal.ErasedDue{}, nil
}

func (s *memoryStore) Holds(context.Context) (journal.Holds, error) { return journal.Holds{}, nil }

func (s *memoryStore) ExpirePersonal(context.Context, time.Time) error      { return nil }
func (s *memoryStore) Roll(context.Context, time.Time, time.Duration) error { return nil }

// TestD125AnEntryIsWrittenWithinASecond: also one that comes alone, or among many.
func TestD125AnEntryIsWrittenWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memoryStore{}
		j := journal.New(st, journal.NewKeys(), slog.New(slog.DiscardHandler), time.Now)
		ctx, stop := context.WithCancel(t.Context())
		go j.Run(ctx)
		var added []time.Time
		for n := range 700 {
			j.Add(entry(j.Keys, n, journal.Claimed))
			added = append(added, time.Now())
			if n%100 == 0 {
				time.Sleep(350 * time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		if len(st.written) != len(added) {
			t.Fatalf("%d of %d entries are written", len(st.written), len(added))
		}
		for n, at := range st.written {
			if late := at.Sub(added[n]); late > time.Second {
				t.Errorf("entry %d is written after %v", n, late)
			}
		}
	})
}

// TestD125SweepComesAtTheStartAndEveryMinute: the first one, and the one after entries were dropped, looks at all
// transactions; so does one after a sweep that failed.
func TestD125SweepComesAtTheStartAndEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journal.New(&memoryStore{}, journal.NewKeys(), slog.New(slog.DiscardHandler), time.Now)
		begin := time.Now()
		type sweep struct {
			after time.Duration
			all   bool
		}
		var got []sweep
		j.CatchUp = func(_ context.Context, all bool) error {
			got = append(got, sweep{time.Since(begin), all})
			if len(got) == 1 {
				return fmt.Errorf("the store is away")
			}
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		go j.RunDuties(ctx)
		time.Sleep(150 * time.Second)
		for n := range 8193 { // nobody writes, and one is dropped
			j.Add(entry(j.Keys, n, journal.Claimed))
		}
		time.Sleep(time.Minute + 90*time.Second)
		stop()
		synctest.Wait()
		want := []sweep{{0, true}, {time.Minute, true}, {2 * time.Minute, false}, {3 * time.Minute, true}, {4 * time.Minute, false}, {5 * time.Minute, false}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("sweeps are %v, want %v", got, want)
		}
	})
}

// TestJ6KeysFromAManagerOfContainers: a file of another user, as Kubernetes mounts a secret, may be read by its group.
func TestJ6KeysFromAManagerOfContainers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal-keys.json")
	if err := (journal.KeyFile{Path: path}).Create(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, os.Geteuid()+1, -1); err != nil {
		t.Skipf("not root: %v", err)
	}
	for mode, want := range map[os.FileMode]bool{0o400: true, 0o440: true, 0o460: false, 0o444: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := journal.LoadKeys(path); (err == nil) != want {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

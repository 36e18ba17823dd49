package server

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/edge/console"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// JournalSettings say where the journal is.
type JournalSettings struct {
	URL      config.StoreURL // zero means that of the store
	Keys     string          // the file of its keys; "" is journal-keys.json in the directory of the store
	Keep     time.Duration   // 0 means 400 days
	Messages time.Duration   // how long messages are kept; 0 means 90 days
	Personal time.Duration   // how long personal data are kept; 0 means that none are
}

// How long a journal is kept that says nothing, and how long its messages.
const (
	defaultKeep     = 400 * 24 * time.Hour
	defaultMessages = 90 * 24 * time.Hour
)

// apply tells a journal how long to keep its entries. Nil settings change nothing.
func (s *JournalSettings) apply(j *journal.Journal) {
	if s == nil || j == nil {
		return
	}
	j.KeepFor(cmp.Or(s.Keep, defaultKeep), cmp.Or(s.Messages, defaultMessages))
	j.KeepPersonal(s.Personal)
}

// journalSettings returns those of a configuration; nil means that there is no journal.
func journalSettings(c *config.Config) *JournalSettings {
	if !c.HasJournal() {
		return nil
	}
	return &JournalSettings{
		URL: c.Journal.URL, Keys: c.Journal.Keys, Keep: c.Journal.Keep, Messages: c.Journal.Messages,
		Personal: c.Journal.Personal,
	}
}

// OpenJournal opens the journal of a configuration for a command.
func OpenJournal(ctx context.Context, c *config.Config) (journal.Store, *journal.Keys, error) {
	keys, err := c.JournalKeyFile().LoadOrCreate()
	if err != nil {
		return nil, nil, err
	}
	st, err := openJournalStore(ctx, c.JournalURL(), keys)
	return st, keys, err
}

func openJournalStore(ctx context.Context, at config.StoreURL, keys *journal.Keys) (journal.Store, error) {
	if at.Postgres != "" {
		return journal.OpenPostgres(ctx, at.Postgres, keys)
	}
	return journal.OpenFiles(at.Dir, keys)
}

// readJournalKeys reads the keys of a journal, or makes them. If that fails it returns nil, and notes the consequence,
// with the reason in the log. Keys that the key helper does not open now are an error.
func (s *Server) readJournalKeys(file journal.KeyFile, consequence string) (*journal.Keys, error) {
	keys, err := file.LoadOrCreate()
	if _, isClosed := errors.AsType[*keyfile.ClosedError](err); isClosed {
		return nil, fmt.Errorf("journal.keys: %w", err)
	}
	if err != nil {
		s.cfg.Log.Error(consequence, "err", err)
		s.journalKeysProblem = "journal.keys: its file can be neither read nor made, so that " + consequence +
			"; the log says why"
		return nil, nil
	}
	return keys, nil
}

// newJournal returns the journal of a server; nil if it has none. Keys that are lost keep no server from starting. Keys
// that the key helper does not open now do: without them there would be no journal, and no MAC in the audit trail,
// until the next start.
func (s *Server) newJournal(settings *JournalSettings) (*journal.Journal, error) {
	if settings == nil {
		return nil, nil
	}
	at := cmp.Or(settings.URL, s.cfg.StoreURL)
	keys, err := s.readJournalKeys(journal.KeyFile{
		Path: cmp.Or(settings.Keys, filepath.Join(at.Dir, "journal-keys.json")), Dir: at.Dir, Vault: s.cfg.Vault,
	}, "there is no journal")
	if keys == nil {
		return nil, err
	}
	j := journal.New(journal.Lazy(func(ctx context.Context) (journal.Store, error) {
		return openJournalStore(ctx, at, keys)
	}), keys, s.cfg.Log, s.timestamp)
	settings.apply(j)
	j.Node, _ = os.Hostname() // without a name the steps have none
	j.CatchUp = s.catchUpJournal
	j.Trail = s.trailEnd
	s.registerJournalMetrics(j)
	return j, nil
}

// evidenceCondition says whether the journal is as it was written.
func evidenceCondition(j *journal.Journal) console.Condition {
	return console.Condition{Name: "journal evidence", Check: func() (string, bool) {
		faults := j.Store.Faults()
		if len(faults) == 0 {
			return "", true
		}
		return fmt.Sprintf("changed in the store, and not signed (%d faults in the log): %s", len(faults),
			faults[len(faults)-1]), true
	}}
}

// registerHeadMetrics adds the metrics by which others can note how far the journal and the audit trail have come.
func (s *Server) registerHeadMetrics(m *obs.Metrics) {
	m.Info("threeds_audit_head_info",
		"1, with the number and the link of the last entry of the audit trail.", []string{"number", "link"}, func() []string {
			if end := s.trailHead.Load(); end != nil {
				return []string{strconv.FormatInt(end.Seq, 10), hex.EncodeToString(end.Link)}
			}
			return nil
		})
	if s.journal == nil {
		return
	}
	m.Info("threeds_journal_head_info",
		"1, with the number and the hash of the newest seal of the journal.", []string{"number", "hash"}, func() []string {
			if h, ok := s.journal.Head(); ok && h.N > 0 {
				return []string{strconv.FormatInt(h.N, 10), hex.EncodeToString(h.Hash)}
			}
			return nil
		})
	m.Gauge("threeds_journal_faults",
		"Things in the journal that are not as they were written, and that were not signed.", "", "",
		func() float64 { return float64(len(s.journal.Store.Faults())) })
	m.Counter("threeds_journal_changed_total", "Times that a row of the journal was read that was changed in the store.",
		func() float64 { return float64(s.journal.Store.CountChanged()) })
}

// registerJournalMetrics adds the metrics of the journal.
func (s *Server) registerJournalMetrics(j *journal.Journal) {
	const help = "Entries of the journal: written, dropped because too many waited or the keys of their day were " +
		"forgotten, or failed to be written and tried again."
	for outcome, count := range map[string]func() uint64{
		"written": func() uint64 { n, _, _, _ := j.Counts(); return n },
		"dropped": func() uint64 { _, n, _, _ := j.Counts(); return n },
		"failed":  func() uint64 { _, _, n, _ := j.Counts(); return n },
	} {
		s.metrics.CounterOf("threeds_journal_records_total", help, "outcome",
			outcome, func() float64 { return float64(count()) })
	}
	s.metrics.Gauge("threeds_journal_waiting", "Entries of the journal that wait to be written.", "", "", func() float64 {
		_, _, _, n := j.Counts()
		return float64(n)
	})
}

// journalKeysCondition says whether the file of the journal's keys could be read when the server started, and whether
// it still opens what was erased.
func (s *Server) journalKeysCondition() console.Condition {
	return console.Condition{Name: "journal keys", Check: func() (string, bool) {
		if s.journal == nil {
			return s.journalKeysProblem, true
		}
		return s.journal.Keys.FileProblem(), true
	}}
}

// journalCondition says whether the journal is written.
func journalCondition(j *journal.Journal) console.Condition {
	return console.Condition{Name: "journal", Check: func() (string, bool) {
		if j.IsFailing() {
			return "is not written: look for \"journal not written\" in the log", true
		}
		return "", true
	}}
}

// A journaledStore reports each successful write of a transaction to the journal.
type journaledStore struct {
	txn.Store
	add func(ctx context.Context, was store.State, t store.Txn)
}

func (s journaledStore) Create(ctx context.Context, t store.Txn) error {
	err := s.Store.Create(ctx, t)
	if err == nil {
		s.add(ctx, "", t)
	}
	return err
}

func (s journaledStore) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	var last store.Txn
	var before store.State
	err := s.Store.Update(ctx, was, func(t *store.Txn) error {
		before = t.State
		err := change(t)
		last = *t
		return err
	})
	if err == nil {
		last.ID = was.ID
		s.add(ctx, before, last)
	}
	return err
}

// personalTime returns how long a configuration keeps personal data; 0 means that none are kept.
func (cfg *Config) personalTime() time.Duration {
	if cfg.Journal == nil {
		return 0
	}
	return cfg.Journal.Personal
}

// journalOf returns a store that reports to the journal what an engine stores.
func (s *Server) journalOf(e *auth.Engine, cfg *Config) {
	if s.journal == nil {
		return
	}
	e.JournalsPersonal = cfg.personalTime() > 0
	e.CardHash, e.AddToJournal = s.journal.CardHash, s.journal.Add
	e.Journal = s.journal.Store
	e.Store = journaledStore{e.Store, func(ctx context.Context, was store.State, t store.Txn) {
		at, sent := s.timestamp(), auth.SentMessage(ctx)
		if t.Plain != nil {
			t.Data = nil // many may wait
		}
		build := func() []journal.Entry { return e.JournalEntries(t, at, false, sent) }
		if t.State == txn.Sent && (was == "" || was == txn.Waiting) {
			s.journal.AddClaim(t.ID, answerTime(e.Timeouts), build)
			return
		}
		s.journal.AddLater(build)
	}}
}

// answerTime is how long the answer of a directory takes at most until the journal has it.
func answerTime(t txn.Timeouts) time.Duration {
	return t.Authentication + txn.CommitTime + time.Second
}

const (
	catchUpLen   = 500             // rows that are read in one call
	catchUpAhead = 3 * time.Minute // rows that expire so soon are looked at every minute

	// writerTime is for how long what has happened is left to the writer of the journal, beside the time for an answer.
	// The writer has the whole AReq, where the row has a part of it, and the first entry of a step is the one that stays.
	writerTime = 10 * time.Second
)

// catchUpJournal adds what the journal lacks of the transactions in the store: of those that expire soon, before they
// are deleted, or of all of them, except where something has just happened since the server began.
func (s *Server) catchUpJournal(ctx context.Context, all bool) error {
	lister, ok := s.db.(store.Lister)
	if !ok {
		return nil
	}
	now := s.timestamp()
	until := now.Add(catchUpAhead)
	if all {
		until = now.AddDate(1, 0, 0)
	}
	var after store.Txn
	for {
		rows, err := lister.List(ctx, after, until, catchUpLen)
		if err != nil || len(rows) == 0 {
			return err
		}
		engine := s.activeRuntime().engine
		var entries []journal.Entry
		for _, t := range rows {
			lacking := engine.JournalEntries(t, now, true, nil)
			if !all || !isLeftToWriter(lacking, s.began, now.Add(-answerTime(engine.Timeouts)-writerTime)) {
				entries = append(entries, lacking...)
			}
		}
		if err := s.journal.WriteNow(ctx, entries); err != nil {
			return err
		}
		after = rows[len(rows)-1]
		after.State = "" // all states
	}
}

// isLeftToWriter reports whether a step of the entries of a transaction was made since the server
// began, and after a time.
func isLeftToWriter(entries []journal.Entry, began, after time.Time) bool {
	return slices.ContainsFunc(entries, func(e journal.Entry) bool {
		return slices.ContainsFunc(e.Steps, func(s journal.Step) bool {
			return !s.At.Before(began) && s.At.After(after)
		})
	})
}

// journalRequest adds a request that was refused before anything was stored of it, and each of 3-D Secure 1.0.2.
func (s *Server) journalRequest(r *obs.Request) {
	if s.journal == nil {
		return
	}
	if e, ok := requestEntry(r, s.timestamp()); ok {
		s.journal.Add(e)
	}
}

// requestEntry returns the entry of a request; not ok if it has none.
func requestEntry(r *obs.Request, now time.Time) (journal.Entry, bool) {
	kind, operation := journal.Refused, r.Operation()
	switch operation {
	case "/preauth", "/auth", "/authentications", "/delegate_authentication":
		if r.Status() < 400 || r.AskedDirectory() {
			return journal.Entry{}, false
		}
	case "/enrolled", "/check":
		kind = journal.Version1
	default:
		return journal.Entry{}, false
	}
	if r.Value("merchant") == "" || r.IsStranger() {
		return journal.Entry{}, false
	}
	record := journal.Record{
		ID: r.ID(), Created: r.Began().UTC(), Updated: now.UTC(), API: "emv", Operation: operation[1:],
		Merchant: r.Value("merchant"), Reference: cardnumber.Scrub(r.Value("reference")),
		Card:           journal.Card{Scheme: r.Value("scheme"), BIN: r.Value("bin"), Last4: r.Value("last4")},
		MessageVersion: r.Value("messageVersion"), DeviceChannel: r.Value("deviceChannel"),
		MessageCategory: r.Value("messageCategory"), Amount: r.Value("amount"), Currency: r.Value("currency"),
		Status: journal.RefusedRequest, ErrorCode: r.Value("errorCode"), Elements: r.Elements(),
		ErrorComponent: r.Value("errorComponent"), ErrorDetail: r.Value("errorDetail"),
		NamedID: r.Value("threeDSServerTransID"), DSTransID: r.Value("dsTransID"), ACSTransID: r.Value("acsTransID"),
	}
	switch {
	case operation == "/authentications":
		record.API = "authentications"
	case operation == "/delegate_authentication":
		record.API = "acp"
	case kind == journal.Version1:
		record.API, record.MessageVersion = "v1", "1.0.2"
		record.TransStatus, record.ECI = r.Value("transStatus"), r.Value("eci")
		if r.Status() < 400 {
			record.Status = "completed"
		}
	}
	steps := []journal.Step{{Step: "request", At: record.Created}}
	for _, s := range r.Steps() {
		step := journal.Step{Step: s.Name, At: s.At.UTC(), MS: s.At.Sub(record.Created).Milliseconds(), Message: s.Message}
		if s.Finding != "" {
			step.Findings = []string{s.Finding}
		}
		steps = append(steps, step)
	}
	steps = append(steps,
		journal.Step{Step: "answered", At: record.Updated, MS: record.Updated.Sub(record.Created).Milliseconds()})
	hash, err := hex.DecodeString(r.Value("cardHash"))
	if err != nil || len(hash) == 0 {
		hash = nil // no card is known
	}
	return journal.Entry{Kind: kind, Record: record, Steps: steps, CardHash: hash}, true
}

// journalDelivery adds an attempt to tell a merchant of the end of an authentication.
func (s *Server) journalDelivery(a webhook.Attempt) {
	s.journal.AddLater(func() []journal.Entry {
		var body struct {
			Data struct {
				ID      string    `json:"id"`
				Created time.Time `json:"created"`
			} `json:"data"`
		}
		if json.Unmarshal(a.Body, &body) != nil || body.Data.ID != a.About {
			return nil // it is about something else
		}
		finding := fmt.Sprintf("%s to %s: %d", a.Type, a.Endpoint, a.Status)
		if a.Error != "" {
			finding = fmt.Sprintf("%s to %s: attempt %d failed, %s", a.Type, a.Endpoint, a.Number, a.Error)
		}
		return []journal.Entry{{
			Kind:   journal.Delivered(a.Event, a.Endpoint, a.Number),
			Record: journal.Record{ID: a.About, Created: body.Data.Created.UTC(), Updated: a.Began.UTC(), Merchant: a.Merchant},
			Steps:  []journal.Step{{Step: "webhook", At: a.Began.UTC(), Findings: []string{finding}}},
		}}
	})
}

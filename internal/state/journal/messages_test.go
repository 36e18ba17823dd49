package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// A changingExporter exports what a change makes of each entry.
type changingExporter struct {
	journal.Store
	change func(*journal.ExportedEntry)
}

func (c changingExporter) Export(ctx context.Context, q journal.Query, line func(journal.ExportedEntry) error) error {
	return c.Store.Export(ctx, q, func(e journal.ExportedEntry) error {
		c.change(&e)
		return line(e)
	})
}

// TestD126MessagesAreSweptFirst: when the time of messages is over they are in no record, export and table any more.
// The record has its ids, status, steps and times as before, and verifies as before. Messages of later days stay.
func TestD126MessagesAreSweptFirst(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		const text = `"merchantName":"Shop <17>"`
		old, recent := entry(keys, 1, journal.Claimed), entry(keys, 24*10, journal.Claimed)
		for _, e := range []*journal.Entry{&old, &recent} {
			e.Steps = append([]journal.Step{{Step: "request", At: e.Record.Created, Findings: []string{"a slip"}}}, e.Steps...)
			e.Steps[1].Message = json.RawMessage(`{ "merchantName": "Shop <17>" }`)
		}
		write(t, st, old, entry(keys, 1, journal.Answered), recent)
		if err := st.Sign(t.Context(), day.AddDate(0, 0, 30)); err != nil {
			t.Fatal(err)
		}
		verified := journal.Verified{Records: 3, Days: 2}
		check := func(when string, wantMessages int) {
			t.Helper()
			export := export(t, st, keys, journal.Query{})
			if got, err := journal.Verify(strings.NewReader(export), keys.PublicKey()); err != nil || got != verified {
				t.Errorf("%s: verified %+v, %v", when, got, err)
			}
			if n := strings.Count(export, text); n != wantMessages {
				t.Errorf("%s: the export has %d of the messages, want %d", when, n, wantMessages)
			}
		}
		before, err := st.Show(t.Context(), old.Record.ID)
		if err != nil || len(before.Steps) != 3 || string(before.Steps[1].Message) != `{"merchantName":"Shop <17>"}` {
			t.Fatalf("%+v, %v", before, err)
		}
		check("before", 2)
		if err := st.ExpireMessages(t.Context(), old.Record.Created.Add(time.Hour)); err != nil { // its day is not over
			t.Fatal(err)
		}
		check("on its day", 2)
		if err := st.ExpireMessages(t.Context(), day.AddDate(0, 0, 5)); err != nil {
			t.Fatal(err)
		}
		check("after", 1)
		after, err := st.Show(t.Context(), old.Record.ID)
		if err != nil || len(after.Steps) != 3 {
			t.Fatalf("%+v, %v", after, err)
		}
		for i := range after.Steps {
			s := &after.Steps[i]
			if isWithheld := strings.Contains(strings.Join(s.Findings, ""), "message [withheld, "); s.Message != nil || isWithheld != (i > 0) {
				t.Errorf("step %d: %s %q", i, s.Message, s.Findings)
			}
			if s.At != before.Steps[i].At || s.Step != before.Steps[i].Step || s.Bytes != before.Steps[i].Bytes || s.Bytes > 0 != (i > 0) {
				t.Errorf("step %d is %+v, was %+v", i, s, before.Steps[i])
			}
		}
		if after.Status != before.Status || after.DSTransID != before.DSTransID {
			t.Errorf("the record is %+v, was %+v", after.Record, before.Record)
		}
		if page, err := st.Search(t.Context(), journal.Query{Reference: "order 1"}); err != nil || len(page.Records) != 1 {
			t.Errorf("searched: %+v, %v", page, err)
		}
		// An entry of that day that comes late is kept, and goes with the next sweep.
		write(t, st, entry(keys, 1, journal.Resulted))
		verified.Records = 4
		if err := st.ExpireMessages(t.Context(), day.AddDate(0, 0, 5)); err != nil {
			t.Fatal(err)
		}
		late, err := st.Show(t.Context(), old.Record.ID)
		if err != nil || len(late.Steps) != 4 || late.Steps[3].Message != nil {
			t.Errorf("a late entry: %+v, %v", late, err)
		}
		if _, _, err := st.Erase(t.Context(), journal.Query{Card: testCard}); err != nil {
			t.Fatal(err)
		}
		if err := st.Export(t.Context(), journal.Query{}, func(e journal.ExportedEntry) error {
			if e.Content != nil || e.Messages != nil {
				t.Errorf("an erased entry has %q and the messages %q", e.Content, e.Messages)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestD126AChangedMessageIsFound: a message that does not fit its record is found in an export, be it signed.
func TestD126AChangedMessageIsFound(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		write(t, st, entry(keys, 1, journal.Claimed))
		for name, change := range map[string]func(*journal.ExportedEntry){
			"other text": func(e *journal.ExportedEntry) {
				e.Messages = bytes.Replace(e.Messages, []byte("AReq"), []byte("ARes"), 1)
			},
			"other step": func(e *journal.ExportedEntry) {
				e.Messages = bytes.Replace(e.Messages, []byte(`"step":0`), []byte(`"step":1`), 1)
			},
			"twice": func(e *journal.ExportedEntry) {
				one := bytes.Trim(e.Messages, "[]")
				e.Messages = bytes.Join([][]byte{[]byte("["), one, []byte(","), one, []byte("]")}, nil)
			},
			"no list": func(e *journal.ExportedEntry) { e.Messages = []byte(`{}`) },
		} {
			var b bytes.Buffer
			if _, err := journal.WriteJSONLines(t.Context(), &b, changingExporter{st, change}, keys, journal.Query{}); err != nil {
				t.Fatal(err)
			}
			_, err := journal.Verify(&b, keys.PublicKey())
			if wrong, ok := errors.AsType[*journal.LineError](err); !ok || wrong.Line != 2 {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A dutiesStore notes what the duties of a journal ask for.
type dutiesStore struct {
	journal.Store
	expired, messages, personal time.Time
}

func (*dutiesStore) Sign(context.Context, time.Time) error { return nil }
func (*dutiesStore) Faults() []string                      { return nil }

func (*dutiesStore) Head(context.Context, time.Time, *journal.ChainEnd) (journal.Head, error) {
	return journal.Head{}, nil
}

func (s *dutiesStore) Expire(_ context.Context, before time.Time) error {
	s.expired = before
	return nil
}

func (s *dutiesStore) ExpireMessages(_ context.Context, before time.Time) error {
	s.messages = before
	return nil
}

func (s *dutiesStore) EraseDue(context.Context) (journal.ErasedDue, error) {
	return journal.ErasedDue{}, nil
}

func (s *dutiesStore) Holds(context.Context) (journal.Holds, error) { return journal.Holds{}, nil }

func (s *dutiesStore) ExpirePersonal(_ context.Context, before time.Time) error {
	s.personal = before
	return nil
}

func (*dutiesStore) Roll(context.Context, time.Time, time.Duration) error { return nil }

// TestD126MessagesAreSweptByTheDutiesOfEachMinute: with days, by the times that the journal is given.
func TestD126MessagesAreSweptByTheDutiesOfEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := new(dutiesStore)
		j := journal.New(st, journal.NewKeys(), slog.New(slog.DiscardHandler), time.Now)
		j.KeepFor(400*24*time.Hour, 90*24*time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		go j.RunDuties(ctx)
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		last := time.Now().Add(-time.Second)
		if !st.expired.Equal(last.AddDate(0, 0, -400)) || !st.messages.Equal(last.AddDate(0, 0, -90)) {
			t.Errorf("days before %s, messages before %s go", st.expired, st.messages)
		}
		stop()
	})
}

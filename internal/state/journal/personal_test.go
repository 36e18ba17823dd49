package journal_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/journal"
)

const personalData = `{"email":"ann@shop.example"}`

// personalEntry returns the nth entry of a test, with personal data in its second step.
func personalEntry(keys *journal.Keys, n int, kind journal.Kind) journal.Entry {
	e := entry(keys, n, kind)
	e.Steps = append([]journal.Step{{Step: "request", At: e.Record.Created}}, e.Steps...)
	e.Steps[1].Message = json.RawMessage(`{"messageType":"AReq","email":"[withheld, 16 bytes]"}`)
	e.Steps[1].Personal = json.RawMessage(personalData)
	return e
}

// personalRows counts the rows of journal_personal.
func personalRows(t *testing.T, st journal.Store) (all int) {
	t.Helper()
	for _, db := range journal.Databases(t, st) {
		var n int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM journal_personal`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		all += n
	}
	return all
}

// personalOf returns the personal data of the second step of an entry, as Show has it.
func personalOf(t *testing.T, st journal.Store, e *journal.Entry) string {
	t.Helper()
	d, err := st.Show(t.Context(), e.Record.ID)
	if err != nil || len(d.Steps) < 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	if s := &d.Steps[1]; !strings.Contains(string(s.Message), "[withheld, 16 bytes]") {
		t.Errorf("the message is %s", s.Message)
	}
	return string(d.Steps[1].Personal)
}

// TestD126PersonalDataIsOffUnlessAsked: nothing is written unless a time is set. When none is set any more, the next
// duty removes what is there, that of today too.
func TestD126PersonalDataIsOffUnlessAsked(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		j := journal.New(st, keys, slog.New(slog.DiscardHandler), func() time.Time { return day })
		j.KeepFor(400*24*time.Hour, 90*24*time.Hour)
		add := func(e journal.Entry) {
			before, _, _, _ := j.Counts()
			j.Add(e)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { j.Run(ctx); close(ended) }()
			waittest.Until(t, "the record to be written", func() bool { written, _, _, _ := j.Counts(); return written != before })
			stop()
			<-ended
		}
		off, on := personalEntry(keys, 1, journal.Answered), personalEntry(keys, 2, journal.Answered)
		add(off)
		if n := personalRows(t, st); n != 0 || personalOf(t, st, &off) != "" {
			t.Errorf("%d rows although nobody asked", n)
		}
		j.KeepPersonal(30 * 24 * time.Hour)
		add(on)
		if got := personalOf(t, st, &on); got != personalData {
			t.Errorf("the personal data are %s", got)
		}
		duties := func() {
			ctx, stop := context.WithCancel(t.Context())
			j.CatchUp = func(context.Context, bool) error { return nil }
			j.Store = &lastDuty{st, stop}
			j.RunDuties(ctx)
			j.Store = st
		}
		if duties(); personalRows(t, st) != 1 {
			t.Error("they went before their time")
		}
		j.KeepPersonal(0)
		if duties(); personalRows(t, st) != 0 || personalOf(t, st, &on) != "" {
			t.Error("they are there although they are off")
		}
		again := personalEntry(keys, 3, journal.Answered)
		j.KeepPersonal(24 * time.Hour)
		if add(again); personalOf(t, st, &again) != personalData {
			t.Error("they are not written after they were off")
		}
	})
}

// A lastDuty ends the duties of a journal after the last one.
type lastDuty struct {
	journal.Store
	stop func()
}

func (s *lastDuty) Roll(context.Context, time.Time, time.Duration) error {
	s.stop()
	return nil
}

// TestD126PersonalDataGoesFirst: after its time it is in no record and no table. The message is there, and the chain
// verifies as before. No export has it, at any time.
func TestD126PersonalDataGoesFirst(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		old, recent := personalEntry(keys, 1, journal.Answered), personalEntry(keys, 24*10, journal.Answered)
		write(t, st, old, recent)
		if err := st.Sign(t.Context(), day.AddDate(0, 0, 30)); err != nil {
			t.Fatal(err)
		}
		check := func(when, wantOld string, wantRows int) {
			t.Helper()
			lines := export(t, st, keys, journal.Query{})
			if got, err := journal.Verify(strings.NewReader(lines), keys.PublicKey()); err != nil || got != (journal.Verified{Records: 2, Days: 2}) {
				t.Errorf("%s: verified %+v, %v", when, got, err)
			}
			if strings.Contains(lines, "ann@") || strings.Contains(lines, "personal") {
				t.Errorf("%s: the export has them: %s", when, lines)
			}
			if got := personalOf(t, st, &old); got != wantOld {
				t.Errorf("%s: those of the first day are %q", when, got)
			}
			if got := personalOf(t, st, &recent); got != personalData {
				t.Errorf("%s: those of the last day are %q", when, got)
			}
			if n := personalRows(t, st); n != wantRows {
				t.Errorf("%s: %d rows, want %d", when, n, wantRows)
			}
		}
		check("before", personalData, 2)
		for _, step := range []struct {
			before  time.Time
			wantOld string
			rows    int
		}{{old.Record.Created.Add(time.Hour), personalData, 2}, {day.AddDate(0, 0, 5), "", 1}} {
			if err := st.ExpirePersonal(t.Context(), step.before); err != nil {
				t.Fatal(err)
			}
			check("before "+step.before.String(), step.wantOld, step.rows)
		}
		// Those of a day whose time is over are kept until the next sweep.
		late := personalEntry(keys, 1, journal.Resulted)
		late.Steps[1].Step = "rreq"
		if write(t, st, late); personalRows(t, st) != 2 {
			t.Error("a late entry has none")
		}
		if err := st.ExpirePersonal(t.Context(), day.AddDate(0, 0, 5)); err != nil || personalRows(t, st) != 1 {
			t.Errorf("a late entry still has them: %v", err)
		}
	})
}

// TestD126PersonalDataIsErased: with the card, and with the merchant.
func TestD126PersonalDataIsErased(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]journal.Query{"card": {Card: testCard}, "merchant": {Merchant: "shop 1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
				write(t, st, personalEntry(keys, 1, journal.Answered), personalEntry(keys, 24*10+1, journal.Answered))
				if n := personalRows(t, st); n != 2 {
					t.Fatalf("%d rows", n)
				}
				if _, _, err := st.Erase(t.Context(), q); err != nil {
					t.Fatal(err)
				}
				if n := personalRows(t, st); n != 0 {
					t.Errorf("%d rows are left", n)
				}
			})
		})
	}
}

// TestD126PersonalDataGoByTheDutiesOfEachMinute: by the time that the journal is given, which may change.
func TestD126PersonalDataGoByTheDutiesOfEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := new(dutiesStore)
		j := journal.New(st, journal.NewKeys(), slog.New(slog.DiscardHandler), time.Now)
		j.KeepPersonal(30 * 24 * time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		go j.RunDuties(ctx)
		time.Sleep(time.Second)
		synctest.Wait()
		if want := time.Now().Add(-time.Second).AddDate(0, 0, -30); !st.personal.Equal(want) {
			t.Errorf("those before %s go, want %s", st.personal, want)
		}
		j.KeepPersonal(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !st.personal.After(time.Now()) {
			t.Errorf("those before %s go, though none are kept", st.personal)
		}
		stop()
	})
}

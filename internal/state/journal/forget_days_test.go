package journal_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// forgettable returns what it would be to forget all keys of the days before one.
func forgettable(t *testing.T, st journal.Store, keys *journal.Keys, before, over string) journal.DayForgetting {
	t.Helper()
	f, err := journal.FindForgettable(t.Context(), st, keys, before, over)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wantKept checks that a day keeps its keys, and why.
func wantKept(t *testing.T, f journal.DayForgetting, why string) {
	t.Helper()
	if len(f.Days) != 0 || f.Keys != 0 || len(f.Kept) != 1 || f.Kept[0].Day != "2026-03-30" ||
		!strings.Contains(f.Kept[0].Why, why) {
		t.Errorf("%+v; want that 2026-03-30 stays: %s", f, why)
	}
}

// TestJ6AnOperatorForgetsDays: retention forgets no key, for what was forgotten never comes back. An operator has all
// keys of a day forgotten that is over its time, so that the file of keys gets small again. A day stays that the
// journal has something of, that is not over its time, or that a legal hold may hold. Else what is needed would be lost
// for good.
func TestJ6AnOperatorForgetsDays(t *testing.T) {
	t.Parallel()
	eachStoreOfFile(t, func(t *testing.T, file journal.KeyFile, st journal.Store, keys *journal.Keys) {
		size := func() int64 {
			info, err := os.Stat(file.Path)
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		writeCanaries(t, st, keys)
		later := canaryEntry(keys, 61)
		later.Record.Created = day.AddDate(0, 2, 0)
		last := canaryEntry(keys, 50)
		last.Record.Created = day.AddDate(0, 2, 0)
		write(t, st, later, last)
		if n, _, err := st.Erase(t.Context(), journal.Query{Card: testCard}); err != nil || n != canaries/3+1 {
			t.Fatal(n, err)
		}
		big := size()
		over := "2026-05-30"
		wantKept(t, forgettable(t, st, keys, "2026-03-31", over), "it is not over its time")
		before := readBilling(t, st, allMonths)
		if err := errors.Join(st.Sign(t.Context(), day.AddDate(0, 1, 0)),
			st.Expire(t.Context(), day.AddDate(0, 2, 0))); err != nil {
			t.Fatal(err)
		}
		checkBilling(t, "after the day has gone", readBilling(t, st, allMonths), before)
		if n := journal.CountForgotten(load(t, file)); n != canaries/3+1 || size() != big {
			t.Errorf("after the sweep the file has %d keys that were forgotten, want %d", n, canaries/3+1)
		}
		wantKept(t, forgettable(t, st, keys, "2026-03-31", "2026-03-30"), "not older than journal.keep")
		wantKept(t, forgettable(t, openFiles(t, load(t, file)), keys, "2026-03-31", over), "it is not over its time")
		addHold(t, st, journal.Hold{Name: "case 1", Merchant: "shop 0"})
		wantKept(t, forgettable(t, st, keys, "2026-03-31", over), "a legal hold")
		if err := st.LiftHold(t.Context(), "case 1", "cli:jo"); err != nil {
			t.Fatal(err)
		}
		f := forgettable(t, st, keys, "2026-03-31", over)
		if len(f.Days) != 1 || f.Days[0] != "2026-03-30" || f.Keys != canaries/3 || f.Left != 1 || len(f.Kept) != 0 {
			t.Errorf("%+v would be forgotten", f)
		}
		if n := journal.CountForgotten(load(t, file)); n != canaries/3+1 {
			t.Error("to look changes the file")
		}
		if err := keys.ForgetDays(f); err != nil {
			t.Fatal(err)
		}
		if n := journal.CountForgotten(load(t, file)); n != 1 || size() > big/2 {
			t.Errorf("the file has %d keys that were forgotten and %d bytes, and had %d", n, size(), big)
		}
		if _, err := st.Show(t.Context(), last.Record.ID); err != nil {
			t.Errorf("a day that is kept: %v", err)
		}
	})
}

// TestJ6ADayThatTheJournalHasKeepsItsKeys: journal.keep was shorter for a while, and what was moved away or restored is
// in the journal again. Its keys stay, whatever seals say: else it would not open any more.
func TestJ6ADayThatTheJournalHasKeepsItsKeys(t *testing.T) {
	t.Parallel()
	eachStoreOfFile(t, func(t *testing.T, _ journal.KeyFile, st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		eraseCanaries(t, st)
		if err := errors.Join(st.Sign(t.Context(), day.AddDate(0, 1, 0)), st.Expire(t.Context(), day.AddDate(0, 2, 0)),
			st.Expire(t.Context(), day.AddDate(-1, 0, 0))); err != nil {
			t.Fatal(err)
		}
		write(t, st, canaryEntry(keys, 200))
		wantKept(t, forgettable(t, st, keys, "2026-03-31", "2026-05-30"), "has something of it")
	})
}

// TestJ7WhatCannotBeWrittenForAForgottenDayIsSaid: entries of a day come whose keys an operator has forgotten, by an
// import and by the server. Each says how many it leaves out, and why, and writes all others. Else they would be
// missing, and nobody would know.
func TestJ7WhatCannotBeWrittenForAForgottenDayIsSaid(t *testing.T) {
	t.Parallel()
	eachStoreOfFile(t, func(t *testing.T, _ journal.KeyFile, st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		next := canaryEntry(keys, 60)
		next.Record.Created = day.AddDate(0, 0, 1)
		write(t, st, next)
		exported := export(t, st, keys, journal.Query{At: day})
		eraseCanaries(t, st)
		if err := errors.Join(st.Sign(t.Context(), day.AddDate(0, 3, 0)),
			st.Expire(t.Context(), day.AddDate(0, 2, 0))); err != nil {
			t.Fatal(err)
		}
		if err := keys.ForgetDays(forgettable(t, st, keys, "2026-05-01", "2026-05-30")); err != nil {
			t.Fatal(err)
		}
		got, err := journal.Import(t.Context(), st, keys, strings.NewReader(exported), keys.PublicKey())
		left, isLeftOut := errors.AsType[*journal.ForgottenDaysError](err)
		if !isLeftOut || got.LeftOut != canaries || got.Added != 1 || got.Present != 0 ||
			left.Entries["2026-03-30"] != canaries || !strings.Contains(err.Error(), "threeds journal forget") {
			t.Errorf("imported %+v, %v", got, err)
		}

		var log bytes.Buffer
		j := journal.New(st, keys, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return day })
		another := canaryEntry(keys, 63)
		another.Record.Created = day.AddDate(0, 0, 1)
		for _, e := range []journal.Entry{canaryEntry(keys, 65), another} {
			j.Add(e)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		j.Run(ended) // which writes what waits
		written, dropped, failed, waiting := j.Counts()
		if written != 1 || dropped != 1 || failed != 0 || waiting != 0 || j.IsFailing() ||
			!strings.Contains(log.String(), "journal entries dropped") || !strings.Contains(log.String(), "1 of 2026-03-30") {
			t.Errorf("written %d, dropped %d, failed %d, waiting %d; the log has %s", written, dropped, failed, waiting,
				log.String())
		}
		if err := j.WriteNow(t.Context(), []journal.Entry{canaryEntry(keys, 65)}); err != nil {
			t.Errorf("an entry that is added later: %v", err)
		}
		if _, dropped, _, _ := j.Counts(); dropped != 2 {
			t.Errorf("%d were dropped, want 2", dropped)
		}
	})
}

// TestJ6AnErasureNearTheLimitSaysSo: from four fifths of the limit on, an erasure says how many keys can still be
// forgotten, and what makes room. Else the first erasure that forgets no keys would come as a surprise.
func TestJ6AnErasureNearTheLimitSaysSo(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		defer journal.LimitForgotten(keys, canaries/3+1)()
		if notice := keys.LimitNotice(); notice != "" {
			t.Error(notice)
		}
		eraseCanaries(t, st)
		notice := keys.LimitNotice()
		for _, want := range []string{"can forget those of 1 more", "threeds journal forget --before DAY"} {
			if !strings.Contains(notice, want) {
				t.Errorf("the notice is %q, without %q", notice, want)
			}
		}
	})
}

// TestJ6WhatALiftedHoldLetsGoSaysWhichKeysStay: an erasure that a hold had kept back is done when the hold is lifted.
// It is beyond the limit of keys, and says of how many authentications backups still have the text.
func TestJ6WhatALiftedHoldLetsGoSaysWhichKeysStay(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		addHold(t, st, journal.Hold{Name: "case 1", Card: testCard})
		if n, _, err := st.Erase(t.Context(), journal.Query{Card: testCard}); err != nil || n != 0 {
			t.Fatal(n, err)
		}
		defer journal.LimitForgotten(keys, canaries/3-1)()
		if err := st.LiftHold(t.Context(), "case 1", "cli:jo"); err != nil {
			t.Fatal(err)
		}
		want := journal.ErasedDue{Authentications: canaries / 3, Unforgotten: canaries / 3}
		if done, err := st.EraseDue(t.Context()); err != nil || done != want || journal.CountForgotten(keys) != 0 {
			t.Errorf("%+v, %v; want %+v", done, err, want)
		}
	})
}

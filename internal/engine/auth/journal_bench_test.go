package auth_test

import (
	"context"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// BenchmarkJournalEntries is what the writer of the journal does to learn what one authentication was: the entry of its
// answer, from what the engine has written.
func BenchmarkJournalEntries(b *testing.B) {
	w := authtest.NewWorld()
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "Y"), nil }
	var written store.Txn
	var sent *journal.Step
	keys := journal.NewKeys()
	w.Journal = func(e *session.Engine) {
		e.CardHash, e.AddToJournal = keys.CardHash, func(journal.Entry) {}
		e.Store = journaled{w, func(ctx context.Context, t store.Txn) { written, sent = t, auth.SentMessage(ctx) }}
	}
	e := w.NewEngine(0)
	request := authtest.AReq("2.2.0", authtest.Preauth(b, e, authtest.Shop))
	if _, _, err := e.Authenticate(b.Context(), authtest.Shop, request.JSON()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if n := len(e.JournalEntries(written, w.Clock(), false, sent)); n != 1 {
			b.Fatalf("%d entries", n)
		}
	}
}

// BenchmarkJournaledAReq is what a request waits for because of the journal: its AReq, masked.
func BenchmarkJournaledAReq(b *testing.B) {
	w := authtest.NewWorld()
	keys := journal.NewKeys()
	w.Journal = func(e *session.Engine) { e.CardHash, e.AddToJournal = keys.CardHash, func(journal.Entry) {} }
	e := w.NewEngine(0)
	request := authtest.AReq("2.2.0", authtest.Preauth(b, e, authtest.Shop))
	areq, err := message.Parse(request.JSON(), message.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if e.JournaledAReq(areq) == nil {
			b.Fatal("no step")
		}
	}
}

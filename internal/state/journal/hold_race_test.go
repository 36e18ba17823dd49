package journal

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// partsWithOther are the parts of a store beside which another process does something before a look at the seals.
type partsWithOther struct {
	evidenceParts
	looks int    // looks is how many looks come before that.
	do    func() // do is called once.
}

func (p *partsWithOther) sealsPart(ctx context.Context, create bool) (*database, error) {
	if p.looks--; p.looks < 0 && p.do != nil {
		do := p.do
		p.do = nil
		do()
	}
	return p.evidenceParts.sealsPart(ctx, create)
}

// TestH2AHoldThatIsSetWhileAnErasureBeginsHolds: an erasure has read which holds there are. Before it erases the first day
// somebody sets a hold, and is told that it is set. What it holds stays, and its keys, too.
func TestH2AHoldThatIsSetWhileAnErasureBeginsHolds(t *testing.T) {
	dir, keys := t.TempDir(), NewKeys()
	open := func() Store {
		t.Helper()
		st, err := OpenFiles(dir, keys)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	st, other := open(), open()
	at := time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)
	for n := range 4 {
		if _, err := st.Write(t.Context(), []Entry{{Kind: Answered, CardHash: keys.CardHash("4000000000000002"), Record: Record{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Created: at, Updated: at, API: "emv", Merchant: fmt.Sprint("shop ", n%2),
			Status: "completed", TransStatus: "Y",
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	isSet := false
	e := st.(heldParts).evidenceOf()
	e.parts = &partsWithOther{e.parts, 1, func() { // the first look is that of the erasure for holds
		if _, err := other.AddHold(t.Context(), Hold{Name: "case 1", Merchant: "shop 0"}); err != nil {
			t.Fatal(err)
		}
		isSet = true
	}}
	n, _, err := st.Erase(t.Context(), Query{Card: "4000000000000002"})
	page, _ := other.Search(t.Context(), Query{Merchant: "shop 0"})
	if !isSet || len(page.Records) != 2 || CountForgotten(keys) > 2 {
		t.Errorf("the hold was set: %t; %d were erased, %v; %d of 2 that are held are left, and %d keys were forgotten", isSet, n, err,
			len(page.Records), CountForgotten(keys))
	}
}

// A waitingWrapper waits before it wraps.
type waitingWrapper struct {
	plainWrapper
	asked, answer chan struct{}
}

func (w *waitingWrapper) Wrap(label string, key []byte, context string) ([]byte, error) {
	if w.asked != nil {
		w.asked <- struct{}{}
		<-w.answer
	}
	return w.plainWrapper.Wrap(label, key, context)
}

// TestH2ASlowKeyHelperHoldsNobodyUp: while the key helper takes its time to wrap the file after an erasure, entries are
// written, searched and signed, and the text does not open any more.
func TestH2ASlowKeyHelperHoldsNobodyUp(t *testing.T) {
	wrapper := &waitingWrapper{}
	file := KeyFile{
		Path:  filepath.Join(t.TempDir(), "journal-keys.json"),
		Vault: keyfile.Vault{Wrapper: wrapper, Label: "threeds-2026"},
	}
	keys, err := file.LoadOrCreate()
	if err != nil {
		t.Fatal(err)
	}
	st, err := OpenFiles(t.TempDir(), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	at := time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)
	entry := func(n int) Entry {
		return Entry{Kind: Answered, CardHash: keys.CardHash("4000000000000002"), Record: Record{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Created: at, Updated: at, API: "emv", Merchant: "shop",
			Status: "completed", TransStatus: "Y",
		}}
	}
	if _, err := st.Write(t.Context(), []Entry{entry(0)}); err != nil {
		t.Fatal(err)
	}
	wrapper.asked, wrapper.answer = make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		_, _, err := st.Erase(t.Context(), Query{Merchant: "shop"})
		done <- err
	}()
	<-wrapper.asked
	if n, err := st.Write(t.Context(), []Entry{entry(0), entry(1)}); err != nil || n != 1 {
		t.Error(n, err)
	}
	if page, err := st.Search(t.Context(), Query{}); err != nil || len(page.Records) != 1 {
		t.Error(page, err)
	}
	if err := st.Sign(t.Context(), at.AddDate(0, 0, 1)); err != nil {
		t.Error(err)
	}
	if faults := st.Faults(); len(faults) > 0 || keys.FileProblem() != "" {
		t.Error(faults, keys.FileProblem())
	}
	wrapper.answer <- struct{}{}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if again, err := file.Load(); err != nil || CountForgotten(again) != 1 {
		t.Error(err)
	}
}

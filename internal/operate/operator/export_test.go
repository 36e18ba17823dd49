package operator_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// record appends n entries.
func record(t *testing.T, s *operator.Service, n int) {
	t.Helper()
	for i := range n {
		if err := s.Record(t.Context(), operator.Entry{Who: "token:ci", Action: "key.create", Object: fmt.Sprintf("c0ffee%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// signDay signs what came before this day.
func signDay(t *testing.T, s *operator.Service, node string) {
	t.Helper()
	if err := s.SignDay(t.Context(), node, s.Now().UTC().Truncate(24*time.Hour)); err != nil {
		t.Error(err)
	}
}

// export returns the export of a trail, and the error.
func export(t *testing.T, s *operator.Service, keys *journal.Keys, q operator.Query) (string, error) {
	t.Helper()
	var b bytes.Buffer
	_, err := s.Export(t.Context(), &b, keys, q)
	return b.String(), err
}

// wantVerified checks an export, and how much is in it.
func wantVerified(t *testing.T, text string, key ed25519.PublicKey, want journal.Verified) {
	t.Helper()
	if got, err := journal.Verify(strings.NewReader(text), key); err != nil || got != want {
		t.Errorf("verified %+v, %v; want %+v", got, err, want)
	}
}

// changedAudit is a store in which somebody has changed entries.
type changedAudit struct {
	*storetest.Memory
	change func(*store.AuditEntry)
}

func (c changedAudit) AuditEntries(ctx context.Context, q store.AuditQuery) ([]store.AuditEntry, error) {
	all, err := c.Memory.AuditEntries(ctx, q)
	for i := range all {
		all[i].Data = bytes.Clone(all[i].Data)
		c.change(&all[i])
	}
	return all, err
}

// TestK10AuditIsChained: entries that are appended at the same time form one chain. An export names the entry that was
// changed in the store, and so does the verification of the export.
func TestK10AuditIsChained(t *testing.T) {
	t.Parallel()
	s, db, _ := newService(t)
	keys := s.Keys
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() { record(t, s, 1) })
	}
	wg.Wait()
	text, err := export(t, s, keys, operator.Query{})
	if err != nil {
		t.Fatal(err)
	}
	wantVerified(t, text, keys.PublicKey(), journal.Verified{Records: 6})
	for name, change := range map[string]func([]byte) []byte{
		"another object": func(data []byte) []byte { return bytes.Replace(data, []byte("c0ffee"), []byte("c0ffef"), 1) },
		"no JSON":        func(data []byte) []byte { return data[1:] },
	} {
		changed := &operator.Service{Now: s.Now, Keys: keys, Store: changedAudit{db, func(e *store.AuditEntry) {
			if e.Seq == 4 {
				e.Data = change(e.Data)
			}
		}}}
		text, err := export(t, changed, keys, operator.Query{})
		if broken, ok := errors.AsType[*journal.ChainError](err); !ok || broken.Seq != 4 {
			t.Errorf("%s in entry 4: %v", name, err)
		}
		_, err = journal.Verify(strings.NewReader(text), keys.PublicKey())
		if wrong, ok := errors.AsType[*journal.LineError](err); !ok || wrong.Line != 5 {
			t.Errorf("%s in entry 4: verified, %v", name, err)
		}
	}
}

// TestK10AnyChangedByteOfAnAuditExportIsFound: at 2,000 places, and a line that is left out.
func TestK10AnyChangedByteOfAnAuditExportIsFound(t *testing.T) {
	t.Parallel()
	s, _, now := newService(t)
	keys := s.Keys
	record(t, s, 20)
	*now = now.AddDate(0, 0, 1)
	record(t, s, 3)
	signDay(t, s, "node:a")
	text, err := export(t, s, keys, operator.Query{})
	if err != nil {
		t.Fatal(err)
	}
	wantVerified(t, text, keys.PublicKey(), journal.Verified{Records: 24, Days: 1})
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		at := random.IntN(len(text))
		changed := []byte(text)
		changed[at] ^= 1 << random.IntN(8)
		if _, err := journal.Verify(bytes.NewReader(changed), keys.PublicKey()); err == nil {
			t.Fatalf("byte %d of %d changed, and it verifies", at, len(text))
		}
	}
	lines := strings.SplitAfter(text, "\n")
	if _, err := journal.Verify(strings.NewReader(strings.Join(append(lines[:5:5], lines[6:]...), "")), keys.PublicKey()); err == nil {
		t.Error("a line is missing, and it verifies")
	}
	if _, err := journal.Verify(strings.NewReader(text), journal.NewKeys().PublicKey()); err == nil {
		t.Error("it verifies by another key")
	}
}

// TestK10ATrailThatWasWrittenAnewIsNotSigned: an attacker who changes an entry in the store and rebuilds
// the chain after it has no MAC for the links. The server signs neither the trail nor an export of it, and
// says which entry it is.
func TestK10ATrailThatWasWrittenAnewIsNotSigned(t *testing.T) {
	t.Parallel()
	s, db, now := newService(t)
	keys := s.Keys
	record(t, s, 5)
	*now = now.AddDate(0, 0, 1)
	var before []byte
	forged := &operator.Service{Now: s.Now, Keys: keys, Store: changedAudit{db, func(e *store.AuditEntry) {
		if e.Seq == 1 {
			before = nil
		}
		e.Data = bytes.Replace(e.Data, []byte("c0ffee2"), []byte("c0ffef2"), 1)
		salt, mac := e.Link[:16], e.Link[16+sha256.Size:]
		before = journal.NextLink(before, journal.DigestOf(salt, e.Data))
		e.Link = slices.Concat(salt, before, mac)
	}}}
	text, err := export(t, forged, keys, operator.Query{})
	if wrong, ok := errors.AsType[*journal.ChainError](err); !ok || wrong.Seq != 3 || !strings.Contains(text, "c0ffef2") {
		t.Errorf("exported: %v", err)
	}
	if _, err := journal.Verify(strings.NewReader(text), keys.PublicKey()); err == nil {
		t.Error("the export verifies")
	}
	err = forged.SignDay(t.Context(), "node:a", now.UTC().Truncate(24*time.Hour))
	if wrong, ok := errors.AsType[*journal.ChainError](err); !ok || wrong.Seq != 3 {
		t.Errorf("signed: %v", err)
	}
	if _, err := s.CheckTrail(t.Context()); err != nil {
		t.Errorf("the trail as it was written: %v", err)
	}
	if end, err := s.CheckTrail(t.Context()); err != nil || end.Seq != 5 {
		t.Errorf("something was signed: %d entries, %v", end.Seq, err)
	}
}

// TestK10ADayIsSignedOnce: by one of several nodes, once it is over, and not for the entry of a signature alone.
func TestK10ADayIsSignedOnce(t *testing.T) {
	t.Parallel()
	s, _, now := newService(t)
	keys := s.Keys
	record(t, s, 2)
	signDay(t, s, "node:a") // the day is not over
	*now = now.AddDate(0, 0, 1)
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() { signDay(t, s, fmt.Sprintf("node:%d", n)) })
	}
	wg.Wait()
	*now = now.AddDate(0, 0, 1)
	signDay(t, s, "node:a")
	all, err := s.Search(t.Context(), operator.Query{Action: "audit.sign"})
	if err != nil || len(all) != 1 || all[0].Object != "2026-11-25" || !strings.HasPrefix(all[0].Who, "node:") {
		t.Errorf("signatures: %+v, %v", all, err)
	}
	record(t, s, 1)
	*now = now.AddDate(0, 0, 1)
	signDay(t, s, "node:a")
	text, err := export(t, s, keys, operator.Query{})
	if err != nil {
		t.Fatal(err)
	}
	wantVerified(t, text, keys.PublicKey(), journal.Verified{Records: 5, Days: 2})
}

// TestK10AFilteredExportHasLinksOfTheRest: it verifies, and tells nothing of what was not asked for.
func TestK10AFilteredExportHasLinksOfTheRest(t *testing.T) {
	t.Parallel()
	s, _, now := newService(t)
	keys := s.Keys
	record(t, s, 3)
	*now = now.Add(time.Hour)
	from := *now
	record(t, s, 2)
	text, err := export(t, s, keys, operator.Query{Object: "c0ffee1"})
	if err != nil || strings.Contains(text, "c0ffee0") || strings.Count(text, "c0ffee1") != 2 {
		t.Errorf("of one object: %v\n%s", err, text)
	}
	wantVerified(t, text, keys.PublicKey(), journal.Verified{Records: 2})
	if text, err = export(t, s, keys, operator.Query{From: from}); err != nil {
		t.Fatal(err)
	}
	wantVerified(t, text, keys.PublicKey(), journal.Verified{Records: 2})
}

// countedAudit is an audit trail in which others come between a look at the last entry and the next one if they can.
type countedAudit struct {
	*storetest.Memory
	lost *atomic.Int64 // entries that came after another one
}

func (s countedAudit) AuditEntries(ctx context.Context, q store.AuditQuery) ([]store.AuditEntry, error) {
	all, err := s.Memory.AuditEntries(ctx, q)
	for range 20 {
		runtime.Gosched()
	}
	return all, err
}

func (s countedAudit) AppendAudit(ctx context.Context, e store.AuditEntry) error {
	err := s.Memory.AppendAudit(ctx, e)
	if errors.Is(err, store.ErrExists) {
		s.lost.Add(1)
	}
	return err
}

// TestF1ManyActsAtOnceAreAllInTheTrail: acts of a node do not compete for the same number in the audit trail, so that
// none of many at once is refused.
func TestF1ManyActsAtOnceAreAllInTheTrail(t *testing.T) {
	t.Parallel()
	var lost atomic.Int64
	s := &operator.Service{Store: countedAudit{storetest.NewMemory(time.Now), &lost}, Now: time.Now}
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if err := s.Record(t.Context(), operator.Entry{Who: "key:a", Action: "webhook.create"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if lost.Load() > 0 {
		t.Errorf("%d times an act came too late for its place", lost.Load())
	}
}

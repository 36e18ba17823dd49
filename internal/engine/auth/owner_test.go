package auth_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

// A spy notes what an engine reads in the store, and counts what it opens.
type spy struct {
	txn.Store
	txn.Sealer
	read   []string // ids of rows
	opened int
}

func (s *spy) Get(ctx context.Context, id string) (store.Txn, error) {
	s.read = append(s.read, id)
	return s.Store.Get(ctx, id)
}

func (s *spy) Open(name string, sealed []byte) ([]byte, error) {
	s.opened++
	return s.Sealer.Open(name, sealed)
}

// TestNothingIsOpenedForAForeignID: for an id of another merchant its row is not read and nothing is
// opened, just as for an id that does not exist, so that the time of the answer tells nothing.
func TestNothingIsOpenedForAForeignID(t *testing.T) {
	w := authtest.NewWorld()
	id := challengedAt(t, w, "2.2.0").Text("threeDSServerTransID")
	e := w.NewEngine(0)
	s := &spy{Store: e.Store, Sealer: e.Sealer}
	e.Store, e.Sealer = s, s
	for name, id := range map[string]string{"foreign": id, "unknown": "11111111-1111-4111-8111-111111111111"} {
		s.read = nil
		if _, err := e.Result(t.Context(), authtest.Other,
			authtest.Object{"threeDSServerTransID": id}.JSON()); authtest.Told(err) != "203 Unknown threeDSServerTransID" {
			t.Errorf("%s: %v", name, err)
		}
		if len(s.read) != 1 || s.read[0] == id || s.opened != 0 {
			t.Errorf("%s: %q was read and %d records were opened, want one row that does not exist", name, s.read, s.opened)
		}
	}
	s.read = nil
	if _, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": id}.JSON()); authtest.CodeOf(err) != "305" {
		t.Errorf("the owner: %v, want 305", err)
	}
	if !slices.Equal(s.read, []string{id}) || s.opened != 1 {
		t.Errorf("the owner: %q was read and %d records were opened, want the one row", s.read, s.opened)
	}
}

const (
	timingPairs = 75_000
	timingIDs   = 500 // There are so many of each kind, asked for in turns.
	maxT        = 4.5 // Two samples differ above this t of Welch, as in tests of constant time.
)

// TestTimeTellsNothingOfForeignIDs: the time of an answer does not show that an id belongs to another merchant. The
// test measures, so it needs a quiet machine: go -C testing run ./long timing.
func TestTimeTellsNothingOfForeignIDs(t *testing.T) {
	if os.Getenv("TIMING") == "" {
		t.Skip("it measures time, which needs a quiet machine: go -C testing run ./long timing runs it")
	}
	dir := t.TempDir()
	db, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ring, err := keyring.LoadOrCreate(filepath.Join(dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	w := authtest.NewWorld()
	w.Nanos.Store(time.Now().UnixNano())
	w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return authtest.ARes(o, "C"), nil }
	e := w.NewEngine(0)
	e.Store, e.Sealer, e.IDs = db, ring, ring.ID()
	// Unknown ids are those of another server. They look like foreign ones, so that only their treatment can make a
	// difference.
	elsewhere := w.NewEngine(0)
	var bodies [2][][]byte // The first ask for foreign ids, the second for unknown ones.
	for range timingIDs {
		req := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err != nil {
			t.Fatal(err)
		}
		for kind, id := range []any{req["threeDSServerTransID"], authtest.Preauth(t, elsewhere, authtest.Shop)} {
			bodies[kind] = append(bodies[kind], authtest.Object{"threeDSServerTransID": id}.JSON())
		}
	}
	var took [2][]float64
	for i := range timingPairs {
		first := rand.IntN(2)
		for _, kind := range []int{first, 1 - first} {
			body := bodies[kind][i%timingIDs]
			began := time.Now()
			_, err := e.Result(t.Context(), authtest.Other, body)
			took[kind] = append(took[kind], float64(time.Since(began)))
			if authtest.CodeOf(err) != "203" {
				t.Fatal(err)
			}
		}
	}
	all := slices.Sorted(slices.Values(slices.Concat(took[0], took[1])))
	longest := all[len(all)*9/10] // what is longer was interrupted by something else
	got := welch(below(took[0], longest), below(took[1], longest))
	t.Logf("%d pairs, median %v, t = %.2f", timingPairs, time.Duration(all[len(all)/2]), got)
	if math.Abs(got) >= maxT {
		t.Errorf("foreign and unknown ids differ with t = %.2f, want less than %v", got, maxT)
	}
}

// below returns the values that are not above most.
func below(values []float64, most float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v > most })
}

// welch is Welch's t of two samples: by how many standard errors their means differ.
func welch(a, b []float64) float64 {
	meanA, errorA := meanOf(a)
	meanB, errorB := meanOf(b)
	return (meanA - meanB) / math.Sqrt(errorA+errorB)
}

// meanOf returns the mean of a sample, and the variance of that mean.
func meanOf(sample []float64) (mean, variance float64) {
	for _, v := range sample {
		mean += v
	}
	n := float64(len(sample))
	mean /= n
	for _, v := range sample {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / (n - 1) / n
}

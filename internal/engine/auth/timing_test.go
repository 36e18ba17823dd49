package auth_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

const (
	timingPairs = 75_000
	timingIDs   = 500 // There are so many of each kind, asked for in turns.
	maxT        = 4.5 // Two samples differ above this t of Welch, as in tests of constant time.
)

// TestTimeTellsNothingOfForeignIDs: that an id is another merchant's cannot be told by the time that the answer
// takes. It measures, so it is for a quiet machine: go -C testing run ./long timing.
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
	w := newWorld()
	w.now.Store(time.Now().UnixNano())
	w.reply = func(_ string, o object) ([]byte, error) { return ares(o, "C"), nil }
	e := w.engine(0)
	e.Store, e.Sealer, e.IDs = db, ring, ring.ID()
	// Unknown ids are those of another server. They look like foreign ones, so that only what becomes of
	// them can make a difference.
	elsewhere := w.engine(0)
	var bodies [2][][]byte // The first ask for foreign ids, the second for unknown ones.
	for range timingIDs {
		req := areq("2.2.0", preauth(t, e, shop))
		if _, _, err := e.Authenticate(t.Context(), shop, req.json()); err != nil {
			t.Fatal(err)
		}
		for kind, id := range []any{req["threeDSServerTransID"], preauth(t, elsewhere, shop)} {
			bodies[kind] = append(bodies[kind], object{"threeDSServerTransID": id}.json())
		}
	}
	var took [2][]float64
	for i := range timingPairs {
		first := rand.IntN(2)
		for _, kind := range []int{first, 1 - first} {
			body := bodies[kind][i%timingIDs]
			began := time.Now()
			_, err := e.Result(t.Context(), other, body)
			took[kind] = append(took[kind], float64(time.Since(began)))
			if codeOf(err) != "203" {
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

package ranges

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// labVictim is a victim that asks for its ranges once a second, in 2.2.0.
func labVictim(t *testing.T, ca *rig.Authority, p *rig.Peer) *rig.Victim {
	t.Helper()
	return rig.UseLab(rig.NewVictim(t, ca, p, rig.ShortLeases))
}

// firstLoad waits until the card ranges are in use and in the store. The lease of these tests is so short
// that it may end on a slow machine before a generation is stored. That generation is used all the same, and
// the next one is stored.
func firstLoad(v *rig.Victim) {
	v.T.Helper()
	waittest.Until(v.T, "the first load", func() bool {
		code, _ := v.Call("/preauth", rig.Object{"acctNumber": "4000001234567890"})
		return code == 200
	})
	dir := filepath.Join(filepath.Dir(v.ConfigFile), "data")
	waittest.Until(v.T, "the first load in the store", func() bool {
		st, err := server.OpenStore(v.T.Context(), config.StoreURL{Dir: dir})
		rig.Must(v.T, err)
		defer st.Close()
		all, err := st.Snapshots(v.T.Context(), "visa")
		rig.Must(v.T, err)
		return len(all) > 0
	})
}

// whole asks for cards all over the set and says which letter they have; it
// fails the test when one is missing, or they differ. The next generation may
// come between two questions: then it asks them all again.
func whole(v *rig.Victim, n int) string {
	v.T.Helper()
	letters := readLetters(v, n)
	for range 3 {
		if len(letters) > 1 {
			letters = readLetters(v, n)
		}
	}
	if len(letters) > 1 {
		v.T.Fatalf("cards say %v: no complete generation", letters)
	}
	for letter := range letters {
		return letter
	}
	return ""
}

// readLetters returns what cards all over the set say, and how many say it.
func readLetters(v *rig.Victim, n int) map[string]int {
	v.T.Helper()
	letters := make(map[string]int)
	for i := 0; i < n; i += n / 25 {
		code, crd := v.Call("/preauth", rig.Object{"acctNumber": fmt.Sprintf("4%05d1234567890", i)})
		letter := strings.TrimPrefix(crd.Text("threeDSMethodURL"), "https://acs.example/")
		if code != 200 || letter == "" {
			v.T.Fatalf("card in range %d: %d %v", i, code, crd)
		}
		letters[letter]++
	}
	return letters
}

// TestCrashDuringLoad kills servers while they load and store card ranges: each
// comes back with one complete generation each time (I10).
func TestCrashDuringLoad(t *testing.T) {
	t.Parallel()
	const servers, n = 5, 20_000
	kills := rig.ReadCount(t, "RANGE_KILLS", 2)
	var mu sync.Mutex
	seen := make(map[string]int)
	t.Run("all", func(t *testing.T) { // ends when they all have
		for i := range uint64(servers) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel() // most of the time is the second between two loads
				killsDuringLoad(t, rand.New(rand.NewPCG(3, 4+i)), kills, n, func(letter string) {
					mu.Lock()
					defer mu.Unlock()
					seen[letter]++
				})
			})
		}
	})
	t.Logf("%d kills; came back with %v", servers*kills, seen)
	if len(seen) < 2 && kills > 1 { // all begin with the same
		t.Errorf("always the same generation, %v: nothing was stored in between", seen)
	}
}

func killsDuringLoad(t *testing.T, random *rand.Rand, kills, n int, back func(letter string)) {
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	var sets, asked atomic.Int64
	var loading sync.Mutex // held while cards are looked up: no other generation may come into use meanwhile
	p.Ranges = func(preq rig.Object) []byte {
		loading.Lock()
		defer loading.Unlock()
		asked.Store(time.Now().UnixNano())
		return rig.ManyRanges(preq, "AB"[sets.Add(1)%2], n)
	}
	v := labVictim(t, ca, p)
	v.Start()
	firstLoad(v)
	load := time.Since(time.Unix(0, asked.Load())) // how long one takes here
	for range kills {
		// The next load begins within a second or so; half of the kills or more
		// come before it is stored.
		loads := sets.Load()
		waittest.Until(t, "a load", func() bool { return sets.Load() > loads })
		time.Sleep(time.Duration(random.Int64N(int64(2 * load)))) // any moment of a load, or soon after it
		v.Kill()
		func() {
			loading.Lock()
			defer loading.Unlock()
			v.Start()
			back(whole(v, n))
		}()
	}
	t.Logf("a load takes %v, %d begun", load, sets.Load())
}

// TestRangesOutlive: with every directory server gone and the process started
// anew, cards are enrolled as before (issue of cold starts).
func TestRangesOutlive(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	p.Ranges = func(preq rig.Object) []byte { return rig.ManyRanges(preq, 'A', 1000) }
	v := labVictim(t, ca, p)
	v.Start()
	firstLoad(v)
	v.Kill()
	p.Server.Close()
	v.Start()
	if got := whole(v, 1000); got != "A" {
		t.Errorf("the ranges say %q, want those from before", got)
	}
}

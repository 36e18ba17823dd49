package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/config"
	"github.com/openthreeds/threeds/internal/server"
)

// manyRanges is a full set of 2.2.0 of which every range says the same letter.
func manyRanges(preq object, letter byte, n int) []byte {
	var b bytes.Buffer
	head := marshal(object{
		"messageType": "PRes", "messageVersion": preq["messageVersion"], "threeDSServerTransID": preq["threeDSServerTransID"],
		"dsTransID": newUUID(), "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0",
	})
	b.Write(head[:len(head)-1])
	b.WriteString(`,"cardRangeData":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"startRange":"4%05d0000000000","endRange":"4%05d9999999999","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0","threeDSMethodURL":"https://acs.example/%c"}`, i, i, letter)
	}
	b.WriteString("]}")
	return b.Bytes()
}

// labVictim is a victim that asks for its ranges once a second, in 2.2.0.
func labVictim(t *testing.T, ca *authority, p *peer) *victim {
	t.Helper()
	return inLab(newVictim(t, ca, p))
}

// firstLoad waits until the card ranges are in use and in the store. The lease of these tests is so short that it may end
// on a slow machine before a generation is stored. That generation is used all the same, and the next one is stored.
func (v *victim) firstLoad() {
	v.t.Helper()
	waitFor(v.t, "the first load", func() bool {
		code, _ := v.call("/preauth", object{"acctNumber": "4000001234567890"})
		return code == 200
	})
	dir := filepath.Join(filepath.Dir(v.config), "data")
	waitFor(v.t, "the first load in the store", func() bool {
		st, err := server.OpenStore(v.t.Context(), config.StoreURL{Dir: dir})
		must(v.t, err)
		defer st.Close()
		all, err := st.Snapshots(v.t.Context(), "visa")
		must(v.t, err)
		return len(all) > 0
	})
}

func inLab(v *victim) *victim {
	t := v.t
	t.Helper()
	text, err := os.ReadFile(v.config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "min_refresh: 1s", "refresh: 1s\n    min_refresh: 1s", 1)
	changed = strings.Replace(changed, "versions: [2.1.0, 2.2.0, 2.3.1]", "versions: [2.1.0, 2.2.0]", 1)
	if err := os.WriteFile(v.config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return v
}

// whole asks for cards all over the set and says which letter they have; it
// fails the test when one is missing, or they differ. The next generation may
// come between two questions: then it asks them all again.
func (v *victim) whole(n int) string {
	v.t.Helper()
	letters := v.letters(n)
	for range 3 {
		if len(letters) > 1 {
			letters = v.letters(n)
		}
	}
	if len(letters) > 1 {
		v.t.Fatalf("cards say %v: no complete generation", letters)
	}
	for letter := range letters {
		return letter
	}
	return ""
}

// letters are what cards all over the set say, and how many say it.
func (v *victim) letters(n int) map[string]int {
	v.t.Helper()
	letters := make(map[string]int)
	for i := 0; i < n; i += n / 25 {
		code, crd := v.call("/preauth", object{"acctNumber": fmt.Sprintf("4%05d1234567890", i)})
		letter := strings.TrimPrefix(crd.text("threeDSMethodURL"), "https://acs.example/")
		if code != 200 || letter == "" {
			v.t.Fatalf("card in range %d: %d %v", i, code, crd)
		}
		letters[letter]++
	}
	return letters
}

// TestCrashDuringLoad kills servers while they load and store card ranges: each
// comes back with one complete generation each time (I10).
func TestCrashDuringLoad(t *testing.T) {
	const servers, n = 5, 20_000
	kills := 10
	if testing.Short() {
		kills = 1
	}
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
	ca := newAuthority(t)
	p := newPeer(t, ca)
	var sets, asked atomic.Int64
	p.ranges = func(preq object) []byte {
		asked.Store(time.Now().UnixNano())
		return manyRanges(preq, "AB"[sets.Add(1)%2], n)
	}
	v := labVictim(t, ca, p)
	v.start()
	v.firstLoad()
	load := time.Since(time.Unix(0, asked.Load())) // how long one takes here
	for range kills {
		// The next load begins within a second or so; half of the kills or more
		// come before it is stored.
		loads := sets.Load()
		waitFor(t, "a load", func() bool { return sets.Load() > loads })
		time.Sleep(time.Duration(random.Int64N(int64(2 * load))))
		v.kill()
		v.start()
		back(v.whole(n))
	}
	t.Logf("a load takes %v, %d begun", load, sets.Load())
}

// TestRangesOutlive: with every directory server gone and the process started
// anew, cards are enrolled as before (issue of cold starts).
func TestRangesOutlive(t *testing.T) {
	ca := newAuthority(t)
	p := newPeer(t, ca)
	p.ranges = func(preq object) []byte { return manyRanges(preq, 'A', 1000) }
	v := labVictim(t, ca, p)
	v.start()
	v.firstLoad()
	v.kill()
	p.server.Close()
	v.start()
	if got := v.whole(1000); got != "A" {
		t.Errorf("the ranges say %q, want those from before", got)
	}
}

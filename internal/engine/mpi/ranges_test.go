package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/randtest"
	"github.com/openthreeds/threeds/internal/engine/mpi"
)

// crres is an answer with ranges as "A begin end" or "D begin end", and a serial number or none.
func crres(id, serial string, ranges ...string) string {
	body := "<CRRes><version>1.0.2</version>"
	for _, r := range ranges {
		f := strings.Fields(r)
		body += "<CR><begin>" + f[1] + "</begin><end>" + f[2] + "</end><action>" + f[0] + "</action></CR>"
	}
	if serial != "" {
		body += "<serialNumber>" + serial + "</serialNumber>"
	}
	return message(id, body+"</CRRes>")
}

func serialUnknown(id string) string {
	return message(id, "<CRRes><version>1.0.2</version><IReq><iReqCode>57</iReqCode></IReq></CRRes>")
}

// A table is a world whose visa directory server has card ranges, in a bubble
// where days pass in no time.
type table struct {
	*world
	ranges func(m sent) (string, error) // the next answer to a CRReq
}

func inBubble(t *testing.T, test func(*table)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &table{world: newWorld(t)}
		w.Now = time.Now
		w.Directories[0].CardRanges = &mpi.Asker{AcquirerBIN: "400000", MerchantID: "ranges"}
		w.reply = func(_ context.Context, _, name string, m sent) (string, error) {
			if name == "CRReq" {
				return w.ranges(m)
			}
			return veres(m.Message.ID, "U"), nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		start := func() {
			go func() {
				w.Run(ctx)
				close(done)
			}()
			synctest.Wait()
		}
		w.ranges = func(m sent) (string, error) {
			return crres(m.Message.ID, "1", "A 4000000000000000 4000009999999999", "A 4900000000000 4900009999999"), nil
		}
		start()
		test(w)
		cancel()
		<-done
	})
}

// next lets the time until the next CRReq pass, which gets the answer.
func (w *table) next(wait time.Duration, answer func(m sent) (string, error)) sent {
	w.t.Helper()
	w.mu.Lock()
	w.ranges, w.asked = answer, nil
	w.mu.Unlock()
	time.Sleep(wait)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.asked) == 0 {
		w.t.Fatalf("no CRReq in %v", wait)
	}
	return w.asked[0]
}

// outcome is the answer for a card: N without a call, or U, which the directory server answers for every card.
func (w *table) outcome(pan string) string {
	w.t.Helper()
	before := len(w.asked)
	a := w.Enrolled(w.t.Context(), shop, purchase(pan))
	if (a.Enrolled == "N") != (len(w.asked) == before) {
		w.t.Errorf("%s: %s after %d calls", pan, a.Enrolled, len(w.asked)-before)
	}
	if a.Enrolled == "N" && a.ECI != "6" { // as after a VERes
		w.t.Errorf("%s: N with the ECI %q, want 6", pan, a.ECI)
	}
	return string(a.Enrolled)
}

const day = 24 * time.Hour

// TestCardRangesAreUsed: a card in no range is answered without a call, and only then.
func TestCardRangesAreUsed(t *testing.T) {
	inBubble(t, func(w *table) {
		if m := w.asked[0]; m.Name != "CRReq" || m.Message.CRReq.Merchant.AcqBIN != "400000" || m.Message.CRReq.Serial != "" {
			t.Errorf("first asked %+v", m)
		}
		for pan, want := range map[string]string{
			"4000000000000000": "U", "4000001234567890": "U", "4000009999999999": "U", "4000010000000000": "N", "4100001234567890": "N",
			"4900001234567": "U", "4900001234567890": "U", "4900010000000": "N", "52000012345678": "U", // of a scheme without ranges
		} {
			if got := w.outcome(pan); got != want {
				t.Errorf("%s: %s, want %s", pan, got, want)
			}
		}
		m := w.next(day, func(m sent) (string, error) {
			return crres(m.Message.ID, "2", "A 4100000000000000 4100009999999999", "D 4000000000000000 4000009999999999", "D 4700000000000000 4700009999999999",
				"A 4200000000000000000 4200000000000000009"), nil
		})
		if m.Message.CRReq.Serial != "1" {
			t.Errorf("asked for what changed since %q, want 1", m.Message.CRReq.Serial)
		}
		for pan, want := range map[string]string{
			"4000001234567890": "N", "4100001234567890": "U", "4900001234567": "U",
			"4200000000000000000": "U", "4200000000000000009": "U", "4200000000000000010": "N",
		} {
			if got := w.outcome(pan); got != want {
				t.Errorf("after the update, %s: %s, want %s", pan, got, want)
			}
		}
		if m := w.next(day, func(m sent) (string, error) { return crres(m.Message.ID, "2"), nil }); m.Message.CRReq.Serial != "2" {
			t.Errorf("asked for what changed since %q, want 2", m.Message.CRReq.Serial)
		}
		if got := w.outcome("4000001234567890"); got != "N" {
			t.Errorf("after an update without changes: %s", got)
		}
		w.next(day, func(m sent) (string, error) { return crres(m.Message.ID, ""), nil })
		if m := w.next(day, func(m sent) (string, error) { return crres(m.Message.ID, ""), nil }); m.Message.CRReq.Serial != "2" {
			t.Errorf("asked for what changed since %q, want 2", m.Message.CRReq.Serial)
		}
		if a, b := w.outcome("4000001234567890"), w.outcome("4100001234567890"); a != "N" || b != "U" {
			t.Errorf("after two answers that nothing has changed, without a serial number: %s %s, want N U", a, b)
		}
	})
}

// TestCardRangesThatDoNotLoad: no answer, or a bad one, changes nothing; after two days
// without a good one each card is asked for again.
func TestCardRangesThatDoNotLoad(t *testing.T) {
	for name, answer := range map[string]func(m sent) (string, error){
		"silence": func(sent) (string, error) { return "", errors.New("timeout") },
		"garbage": func(sent) (string, error) { return "<ThreeDSecure>", nil },
		"cut off": func(m sent) (string, error) {
			return crres(m.Message.ID, "2", "A 4100000000000000 4100009999999999")[:200], nil
		},
		"wrong id": func(sent) (string, error) { return crres("x", "2", "D 4000000000000000 4000009999999999"), nil },
		"bad range": func(m sent) (string, error) {
			return crres(m.Message.ID, "2", "A 4100000000000000 4100009999999999", "A 4300000000000000 42"), nil
		},
		"refused": func(m sent) (string, error) {
			return strings.Replace(serialUnknown(m.Message.ID), ">57<", ">51<", 1), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *table) {
				w.next(day, answer)
				if told := len(w.reported) > 0; told != (name != "silence" && name != "refused") {
					t.Errorf("the directory server was told of a fault in its answer: %v", told)
				}
				if a, b := w.outcome("4000001234567890"), w.outcome("4100001234567890"); a != "U" || b != "N" {
					t.Errorf("after a day: %s %s, want U N", a, b)
				}
				w.next(day, answer)
				if a, b := w.outcome("4000001234567890"), w.outcome("4100001234567890"); a != "U" || b != "U" {
					t.Errorf("after two days: %s %s, want U U", a, b)
				}
				w.next(day, func(m sent) (string, error) {
					return crres(m.Message.ID, "9", "A 4100000000000000 4100009999999999"), nil
				})
				if a := w.outcome("4200001234567890"); a != "N" {
					t.Errorf("once they are there again: %s, want N", a)
				}
			})
		})
	}
}

// TestUnknownSerialLoadsAllRanges: after code 57 the engine drops its ranges and loads all of them immediately.
func TestUnknownSerialLoadsAllRanges(t *testing.T) {
	inBubble(t, func(w *table) {
		var serials []string
		w.next(day, func(m sent) (string, error) {
			serials = append(serials, m.Message.CRReq.Serial)
			if m.Message.CRReq.Serial != "" {
				return serialUnknown(m.Message.ID), nil
			}
			return crres(m.Message.ID, "7", "A 4100000000000000 4100009999999999"), nil
		})
		if len(serials) != 2 || serials[0] != "1" || serials[1] != "" {
			t.Errorf("asked with serials %q, want 1 and none", serials)
		}
		if a, b := w.outcome("4000001234567890"), w.outcome("4100001234567890"); a != "N" || b != "U" {
			t.Errorf("%s %s, want N U", a, b)
		}
	})
}

// TestEmptyCardRanges: a first answer that leaves no range is not trusted. The engine asks again, less and less often.
func TestEmptyCardRanges(t *testing.T) {
	for name, ranges := range map[string][]string{"no ranges": nil, "deleted ones only": {"D 4000000000000000 4000009999999999"}} {
		t.Run(name, func(t *testing.T) { testRangesEmpty(t, ranges) })
	}
}

func testRangesEmpty(t *testing.T, ranges []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Now = time.Now
		w.Directories[0].CardRanges = &mpi.Asker{}
		w.reply = func(_ context.Context, _, name string, m sent) (string, error) {
			if name == "CRReq" {
				return crres(m.Message.ID, "1", ranges...), nil
			}
			return veres(m.Message.ID, "Y"), nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() {
			w.Run(ctx)
			close(done)
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := len(w.asked); n != 4 { // at 0, 1, 3 and 7 minutes
			t.Errorf("asked %d times in ten minutes, want 4", n)
		}
		w.enroll(shop, purchase(visaPAN))
		cancel()
		<-done
	})
}

// TestRetriesDuringALongOutage: a directory server that is gone for months is finally asked once a day, and never more
// often again, however long that lasts.
func TestRetriesDuringALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Now = time.Now
		w.Directories[0].CardRanges = &mpi.Asker{}
		ctx, cancel := context.WithTimeout(t.Context(), 90*day)
		defer cancel()
		asked := 0
		w.reply = func(context.Context, string, string, sent) (string, error) {
			if asked++; asked > 200 {
				cancel() // time would stand still
			}
			return "", errors.New("connection refused")
		}
		w.Run(ctx)
		if asked != 100 { // 11 times in the first 1023 minutes, then daily
			t.Errorf("asked %d times in 90 days, want 100", asked)
		}
	})
}

// TestRangesAgainstAModel: whatever the ranges and their changes, a card is answered
// without a call exactly when no range that is left holds it. A first answer that leaves none is not trusted; until
// there is another answer, the directory server is asked for every card.
func TestRangesAgainstAModel(t *testing.T) {
	randtest.Check(t, func(rt *randtest.T) {
		w := newWorld(t)
		left := map[[2]int]bool{}
		changes := func(serial int) func(sent) (string, error) {
			var list []string
			for range rt.IntRange(1, 12) {
				from := rt.IntRange(0, 99)
				to := rt.IntRange(from, min(99, from+30))
				action := "A"
				if left[[2]int{from, to}] && rt.Bool() {
					action = "D"
				}
				left[[2]int{from, to}] = action == "A"
				list = append(list, fmt.Sprintf("%s 40%02d000000000000 40%02d999999999999", action, from, to))
			}
			return func(m sent) (string, error) { return crres(m.Message.ID, fmt.Sprint(serial), list...), nil }
		}
		loaded := false
		for serial := range 3 {
			answer := changes(serial)
			w.reply = func(_ context.Context, _, _ string, m sent) (string, error) { return answer(m) }
			believed := loaded || slices.Contains(slices.Collect(maps.Values(left)), true)
			if err := w.Load(t.Context(), "visa", mpi.Asker{}); (err == nil) != believed {
				rt.Fatalf("answer %d: %v, want it believed: %t", serial, err, believed)
			}
			loaded = believed
		}
		w.says(func(id string) string { return veres(id, "U") })
		for at := range 100 {
			want := "N"
			if !loaded {
				want = "U"
			}
			for r, there := range left {
				if there && r[0] <= at && at <= r[1] {
					want = "U"
				}
			}
			if a := w.Enrolled(t.Context(), shop, purchase(fmt.Sprintf("40%02d123456789012", at))); string(a.Enrolled) != want {
				rt.Errorf("%d: %s, want %s", at, a.Enrolled, want)
			}
		}
	})
}

// TestNextEngineTakesCardRangesOver: a new configuration takes over the card ranges and the time of the next request,
// but not ranges that were requested for another merchant, or that came from another directory server.
func TestNextEngineTakesCardRangesOver(t *testing.T) {
	inBubble(t, func(w *table) {
		time.Sleep(day / 2)
		former := w.Engine
		follow := func(url, bin string) (asked int) {
			next := &mpi.Engine{Client: former.Client, Store: former.Store, Sealer: former.Sealer, Log: former.Log, Now: time.Now}
			next.Directories = append(next.Directories, former.Directories...)
			next.Directories[0].CardRanges = &mpi.Asker{URL: url, AcquirerBIN: bin, MerchantID: "ranges"}
			next.Follow(former)
			w.mu.Lock()
			w.asked = nil
			w.mu.Unlock()
			ctx, cancel := context.WithTimeout(w.t.Context(), day/4)
			defer cancel()
			next.Run(ctx)
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.asked)
		}
		if n := follow("", "400000"); n != 0 {
			t.Errorf("the same merchant asked %d times within a day", n)
		}
		if n := follow("", "400001"); n == 0 {
			t.Error("another merchant did not ask")
		}
		if n := follow("https://elsewhere.example/", "400000"); n == 0 {
			t.Error("another directory server was not asked")
		}
	})
}

package directory

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/message"
)

// So many ranges are worth a collection of garbage, and so few are not.
const manyCards, fewCards = 50_000, 25_000

// manyTable is the table of what many returns.
func manyTable(t *testing.T, n int) *ranges.Table {
	t.Helper()
	b := new(ranges.Builder)
	for i := range n {
		b.Add(fmt.Sprintf("40%06d00000000", i), fmt.Sprintf("40%06d99999999", i), &ranges.Info{})
	}
	table, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// collections is how many times somebody had the garbage collected.
func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumForcedGC
}

// TestNothingNewCollectsOnce: what the directory server answers every few hours, that the
// ranges in use still hold, makes no garbage that is worth more than one collection, and
// of few ranges not even that.
func TestNothingNewCollectsOnce(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody else collects
	for _, test := range []struct{ ranges, want int }{{manyCards, 1}, {fewCards, 0}} {
		_, c, cards := newDS(t, nil, func(w http.ResponseWriter, preq *message.Message) {
			io.WriteString(w, strings.Replace(pres(preq, ""), `,"cardRangeData":[]`, `,"serialNum":"7"`, 1))
		})
		cards.Put("visa", &ranges.Generation{Table: manyTable(t, test.ranges), Serial: "7", Version: message.V220})
		runtime.GC()
		before := collections()
		if v := refreshOnce(t, c); v != fresh || cards.Generation("visa").Loaded.IsZero() {
			t.Errorf("verdict %d, want that the ranges still hold", v)
		}
		if got := int(collections() - before); got != test.want {
			t.Errorf("%d ranges that still hold: %d collections, want %d", test.ranges, got, test.want)
		}
	}
}

// TestFormerRangesGoAtOnce: as soon as new ranges are in use the garbage is collected if
// they are many or were: the memory of the former ones is given back with it. That is so
// on the node that has asked and on those that take over from it.
func TestFormerRangesGoAtOnce(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody else collects
	for _, test := range []struct{ former, now, want int }{{manyCards, fewCards, 1}, {fewCards, manyCards, 1}, {fewCards, fewCards, 0}} {
		entries := many(test.now)
		s := newShared(t, nil)
		s.says = func(w http.ResponseWriter, preq *message.Message) { io.WriteString(w, pres(preq, entries)) }
		for _, name := range []string{"asks", "takes over"} {
			n := s.start()
			var inUse uint32 // collections until then
			n.hooks.Refreshed = func(string, int, time.Time) { inUse = collections() }
			n.cards.Put("visa", &ranges.Generation{Table: manyTable(t, test.former), Version: message.V220, Loaded: time.Now()})
			former := weak.Make(n.cards.Table("visa"))
			if name == "asks" {
				n.turn(t.Context())
			} else {
				n.loaded = 0
				n.look(t.Context())
			}
			got := int(collections() - inUse)
			if ranges := n.cards.Table("visa").Len(); ranges != test.now || got != test.want {
				t.Errorf("the node that %s has %d ranges after %d, and then %d collections; want %d", name, ranges, test.former, got, test.want)
			}
			if test.want > 0 && former.Value() != nil {
				t.Errorf("the node that %s has %d ranges and still holds the memory of %d former ones", name, test.now, test.former)
			}
		}
	}
}

// TestVeryManyWait: while a thousand requests wait for directory servers the collector
// works harder, and when they have what they wanted as before.
func TestVeryManyWait(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	address := serveRaw(t, nil, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	ca := newAuthority(t)
	peer := peerAt("visa", address, ca.client())
	peer.Timeout, peer.DialTimeout, peer.MaxInFlight = time.Hour, time.Hour, 1000
	v2, _ := newClient(t, Hooks{}, peer)
	v1, _ := newV1(t, V1Peer{Scheme: "visa", URL: address, TLS: ca.client(), Timeout: time.Hour, DialTimeout: time.Hour, MaxInFlight: 1000})
	for name, send := range map[string]func(ctx context.Context, merchant string) ([]byte, error){
		"AReqs": func(ctx context.Context, merchant string) ([]byte, error) {
			return v2.Send(ctx, "visa", merchant, nil, transID, message.V220, "")
		},
		"VEReqs": func(ctx context.Context, merchant string) ([]byte, error) {
			return v1.Exchange(ctx, "visa", merchant, "VEReq", transID, nil)
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				if _, err := send(ctx, strconv.Itoa(i%2)); err == nil {
					t.Error("an answer from nobody")
				}
			})
		}
		for end := time.Now().Add(20 * time.Second); gogc() == 100 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if got := gogc(); got >= 100 {
			t.Errorf("a thousand %s wait, and GOGC is %d", name, got)
		}
		cancel()
		if all.Wait(); gogc() != 100 {
			t.Errorf("no %s wait, and GOGC is %d", name, gogc())
		}
	}
}

// gogc is the percent in force.
func gogc() uint64 {
	is := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(is)
	return is[0].Value.Uint64()
}

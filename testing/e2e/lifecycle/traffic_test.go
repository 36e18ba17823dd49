package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A traffic is requestors, and a directory server that posts results, at a steady
// pace, whatever becomes of them, unless the machine cannot keep it: then fewer come,
// for else they would be more and more. None tries anything again.
type traffic struct {
	s      *rig.Site
	client *http.Client

	flows    atomic.Int64
	requests atomic.Int64
	failed   atomic.Int64
	slowest  atomic.Int64 // of what no directory server is asked for, in ns
	mu       sync.Mutex
	why      []string
	under    sync.WaitGroup
	turning  sync.RWMutex // held by each flow
}

// crowd is how many flows may be under way. With twice as many, a call of the database took longer than its limit of five
// seconds on a machine that is four times slower.
const crowd = 8

// startTraffic begins so many flows a second, each of four requests, and returns how
// to stop it: that waits for those under way.
func startTraffic(t *testing.T, s *rig.Site, flows int) (l *traffic, stop func()) {
	t.Helper()
	l = &traffic{s: s, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
	ctx, cancel := context.WithCancel(t.Context())
	l.under.Go(func() {
		ticker := time.NewTicker(time.Second / time.Duration(flows))
		defer ticker.Stop()
		places := make(chan struct{}, crowd)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			places <- struct{}{}
			l.turning.RLock()
			l.under.Go(func() {
				l.flow()
				l.turning.RUnlock()
				<-places
			})
		}
	})
	return l, sync.OnceFunc(func() {
		cancel()
		l.under.Wait()
		l.client.CloseIdleConnections()
	})
}

// turn waits until all that was under way has ended, before more begins.
func (l *traffic) turn() {
	l.turning.Lock()
	defer l.turning.Unlock()
}

// flow is a challenge from /preauth to /postauth. It returns the result, or nil if one failed.
func (l *traffic) flow() (result rig.Object) {
	l.flows.Add(1)
	start := time.Now()
	crd, ok := l.post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN})
	l.note(time.Since(start))
	if !ok {
		return nil
	}
	req := rig.BrowserRequest("2.2.0", rig.EnrolledPAN, crd.Text("threeDSServerTransID"), "U")
	answer, ok := l.post("/auth", req)
	if !ok {
		return nil
	}
	if answer.Text("transStatus") != "C" {
		l.fail("/auth: %v", answer)
		return nil
	}
	result = rig.RReq(req, answer, "Y")
	l.requests.Add(1)
	code, got, err := l.s.Directory.Post(l.s.ResultsURL, rig.Marshal(result))
	if err != nil || code != 200 || got.Text("messageType") != "RRes" {
		l.fail("RReq: %d %v %v", code, got, err)
		return nil
	}
	start = time.Now()
	read, ok := l.post("/postauth", rig.Object{"threeDSServerTransID": result["threeDSServerTransID"]})
	l.note(time.Since(start))
	if ok && string(rig.Marshal(read)) != string(rig.Marshal(result)) {
		l.fail("/postauth: %v, want %v", read, result)
		ok = false
	}
	if !ok {
		return nil
	}
	return result
}

// progress waits until more flows have begun, and with them as many have ended, or nearly so.
func (l *traffic) progress(more int) {
	l.s.T.Helper()
	want := l.flows.Load() + int64(more)
	waittest.Until(l.s.T, "load", func() bool { return l.flows.Load() >= want })
}

func (l *traffic) note(took time.Duration) {
	for was := l.slowest.Load(); int64(took) > was && !l.slowest.CompareAndSwap(was, int64(took)); was = l.slowest.Load() {
	}
}

func (l *traffic) post(path string, body rig.Object) (rig.Object, bool) {
	l.requests.Add(1)
	req, err := http.NewRequest(http.MethodPost, l.s.API+path, strings.NewReader(string(rig.Marshal(body))))
	if err != nil {
		l.fail("%s: %v", path, err)
		return nil, false
	}
	req.GetBody = nil // so that net/http tries nothing again
	req.Header.Set("APIKey", l.s.APIKey)
	res, err := l.client.Do(req)
	if err != nil {
		l.fail("%s: %v", path, err)
		return nil, false
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	var o rig.Object
	if err != nil || json.Unmarshal(data, &o) != nil || res.StatusCode != 200 {
		l.fail("%s: %d %s %v", path, res.StatusCode, data, err)
		return nil, false
	}
	return o, true
}

func (l *traffic) fail(format string, args ...any) {
	l.failed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.why) < 10 {
		l.why = append(l.why, time.Now().Format(time.StampMilli)+" "+fmt.Sprintf(format, args...))
	}
}

// none demands that nothing has failed.
func (l *traffic) none(t *testing.T) {
	t.Helper()
	t.Logf("%d flows, %d requests, %d failed; slowest of those without a directory server %v",
		l.flows.Load(), l.requests.Load(), l.failed.Load(), time.Duration(l.slowest.Load()).Round(time.Millisecond))
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d requests failed, the first of them:\n%s", n, strings.Join(l.why, "\n"))
	}
	if l.flows.Load() == 0 {
		t.Error("there was no load")
	}
}

package cluster

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A shopLoad are requests of one merchant to several nodes, and how they were answered.
type shopLoad struct {
	*testing.T
	nodes   []*rig.Victim
	sent    atomic.Int64 // AReqs that were asked for and answered
	refused atomic.Int64 // requests that were answered with the error of a disabled merchant
}

// pay begins a payment at a node and reports whether it was refused because the merchant is disabled.
func (l *shopLoad) pay(v *rig.Victim) (isRefused bool) {
	code, crd := v.Call("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN})
	if l.isRefused(code, crd) {
		return true
	}
	id := crd.Text("threeDSServerTransID")
	code, ares := v.Call("/auth", rig.BrowserRequest("2.2.0", rig.EnrolledPAN, id, "U"))
	if l.isRefused(code, ares) {
		return true
	}
	if code != 200 {
		l.Errorf("/auth: %d %v", code, ares)
	}
	l.sent.Add(1)
	return false
}

// isRefused reports whether an answer says that the merchant is disabled, and counts it.
func (l *shopLoad) isRefused(code int, answer rig.Object) bool {
	if code != 403 {
		return false
	}
	if answer.Text("errorCode") != "303" || answer.Text("errorDetail") != "The merchant was disabled by the operator of this server" {
		l.Errorf("403 with %v", answer)
	}
	l.refused.Add(1)
	return true
}

// each runs do for each of two workers of each node at the same time.
func (l *shopLoad) each(do func(v *rig.Victim)) {
	var all sync.WaitGroup
	for _, v := range l.nodes {
		for range 2 {
			all.Go(func() { do(v) })
		}
	}
	all.Wait()
}

// wantDisabled waits until all nodes know how many merchants are disabled.
func (l *shopLoad) wantDisabled(n float64) {
	l.Helper()
	for _, v := range l.nodes {
		waittest.Until(l, fmt.Sprintf("a node to know that %v merchants are disabled", n), func() bool {
			return v.Metric("threeds_merchants_disabled") == n
		})
	}
}

// wantJournaled waits until the journal has each refused request.
func (l *shopLoad) wantJournaled(v *rig.Victim) {
	l.Helper()
	rig.Must(l.T, rig.WithJournal(l.Context(), v.ConfigFile, func(st journal.Store, _ *journal.Keys) error {
		want := l.refused.Load()
		waittest.Until(l, "the journal to have each refused request", func() bool { return countRefused(l.T, st) >= want })
		if n := countRefused(l.T, st); n != want {
			l.Errorf("the journal has %d refused requests with their reason, want %d", n, want)
		}
		return nil
	}))
}

// TestG14DisabledMerchantIsRefusedOnAllNodes: under load at two nodes, a merchant is disabled. As soon as both
// know, every request that begins something is refused, also after a restart. What was under way gets its
// result, and other merchants are served. Enabled again, all is as before. The counts of callers, nodes,
// directory server and journal agree.
func TestG14DisabledMerchantIsRefusedOnAllNodes(t *testing.T) {
	t.Parallel()
	place := fmt.Sprintf("store: {url: %q}\nkeys: %s", pgtest.Get(t).Schema(t), filepath.Join(t.TempDir(), "keys.json"))
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	p.SetAnswer(rig.AnswerChallenge)
	one, two := rig.NewVictimAt(t, ca, p, place), rig.NewVictimAt(t, ca, p, place)
	two.APIKey = one.APIKey
	one.Start()
	two.Start()
	l := &shopLoad{T: t, nodes: []*rig.Victim{one, two}}

	_, crd := one.Call("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN})
	req := rig.BrowserRequest("2.2.0", rig.EnrolledPAN, crd.Text("threeDSServerTransID"), "U")
	code, begun := one.Call("/auth", req)
	if code != 200 || begun.Text("transStatus") != "C" {
		t.Fatalf("/auth: %d %v", code, begun)
	}
	l.sent.Add(1)

	var payments atomic.Int64
	underLoad := make(chan struct{})
	go func() {
		defer close(underLoad)
		l.each(func(v *rig.Victim) {
			for !l.pay(v) {
				payments.Add(1)
			}
		})
	}()
	waittest.Until(t, "payments", func() bool { return payments.Load() >= 8 })
	one.Command("", "merchant", "disable", "--reason", "stolen keys", "Shop")
	<-underLoad
	l.wantDisabled(1)

	const each = 25
	l.each(func(v *rig.Victim) {
		for range each {
			if !l.pay(v) {
				t.Error("a payment was begun after both nodes knew that the merchant is disabled")
			}
		}
	})
	result := rig.RReq(req, begun, "Y")
	acknowledged(two, p, result)
	fetched(one, result)
	fetched(two, result)
	other := *two
	other.APIKey = rig.CreateKeys(t, one.ConfigFile, "Other")[0]
	if l.pay(&other) {
		t.Error("another merchant is refused")
	}

	// The counts of a process end with it.
	counted := func(v *rig.Victim) (n float64) {
		for _, operation := range []string{"preauth", "auth"} {
			n += max(0, v.Metric(`threeds_refused_total{operation="`+operation+`",reason="merchant_disabled"}`))
		}
		return n
	}
	refusedBy := counted(one) + counted(two)
	// A node writes refused requests to the journal a moment later. One that is killed loses those that wait.
	l.wantJournaled(one)
	two.Kill()
	two.Start()
	if !l.pay(two) {
		t.Error("a restart has enabled the merchant")
	}
	if refusedBy++; refusedBy != float64(l.refused.Load()) {
		t.Errorf("the nodes have counted %v refused requests, the callers %d", refusedBy, l.refused.Load())
	}

	one.Command("", "merchant", "enable", "Shop")
	l.wantDisabled(0)
	l.each(func(v *rig.Victim) {
		if l.pay(v) {
			t.Error("a payment was refused after the merchant was enabled")
		}
	})
	p.Mu.Lock()
	came := len(p.AReqs)
	p.Mu.Unlock()
	if int64(came) != l.sent.Load() {
		t.Errorf("%d AReqs came, and %d requests were answered", came, l.sent.Load())
	}
	l.wantJournaled(one)
}

// countRefused counts the records of requests that were refused because the merchant was disabled.
func countRefused(t *testing.T, st journal.Store) (n int64) {
	t.Helper()
	q := journal.Query{Status: journal.RefusedRequest, Merchant: "Shop", Limit: 100}
	for {
		page, err := st.Search(t.Context(), q)
		rig.Must(t, err)
		for _, r := range page.Records {
			if r.ErrorCode == "303" && r.ErrorDetail == "The merchant was disabled by the operator of this server" {
				n++
			}
		}
		if page.Next == "" {
			return n
		}
		q.Cursor = page.Next
	}
}

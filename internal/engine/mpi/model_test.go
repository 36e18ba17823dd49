package mpi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/randtest"
	"github.com/openthreeds/threeds/internal/protocol/v1/v1test"
	"github.com/openthreeds/threeds/internal/state/account"
)

// TestPAResIsBoundToItsPAReq compares /check with a plain model of what a PAReq binds (M9), while hours pass, clocks
// are put back, orders and ids repeat, and the browser changes what is not signed.
func TestPAResIsBoundToItsPAReq(t *testing.T) {
	type request struct {
		owner *account.Account
		v1test.PAReq
		pan   string
		until time.Time
		used  string // the signed text of the first PARes
	}
	randtest.Check(t, func(rt *randtest.T) {
		w := newWorld(t)
		var made []*request
		pick := func(list ...string) string { return randtest.Pick(rt, list...) }
		for range rt.IntRange(1, 8) {
			owner := randtest.Pick(rt, shop, other)
			asked := purchase(pick(visaPAN, "4000001234567891", masterPAN))
			asked.OrderID, asked.Amount = pick("1", "2"), pick("100", "200")
			made = append(made, &request{owner, w.enroll(owner, asked), asked.Card.Number, w.clock().Add(time.Hour), ""})
			w.pass(time.Duration(randtest.Pick(rt, 0, 0, 1, 20, 40, -15)) * time.Minute)
		}
		for i := range rt.IntRange(1, 3) {
			r := randtest.Pick(rt, made...)
			p := r.Answer(r.pan, pick("Y", "N"))
			p.MessageID = pick(p.MessageID, p.MessageID, "anything", made[0].Message.ID)
			p.Amount = pick(p.Amount, p.Amount, "100", "1")
			if rt.IntRange(0, 3) == 0 {
				p.XID = made[0].Message.PAReq.Purchase.XID
			}
			if p.CAVV != "" && r.pan == masterPAN {
				p.ECI = "02"
			}
			scheme := map[bool]string{true: "mastercard", false: "visa"}[r.pan == masterPAN]
			owner := randtest.Pick(rt, r.owner, r.owner, r.owner, shop)

			byID, byXID := []*request(nil), []*request(nil)
			for _, m := range made {
				if m.owner != owner || !m.until.After(w.clock()) {
					continue
				}
				if m.Message.ID == p.MessageID {
					byID = append(byID, m)
				}
				if m.Message.PAReq.Purchase.XID == p.XID {
					byXID = append(byXID, m)
				}
			}
			candidates := byID
			if len(byID) == 0 {
				candidates = byXID
			}
			signed := p
			signed.MessageID = ""
			text := fmt.Sprint(signed)
			want := len(candidates) == 0
			for _, m := range candidates {
				q := m.Message.PAReq.Purchase
				agrees := q.XID == p.XID && q.Date == p.Date && q.PurchAmount == p.Amount && (m.pan == masterPAN) == (scheme == "mastercard") &&
					(p.Status != "Y" || m.pan == r.pan)
				if agrees && (m.used == "" || m.used == text) {
					want, m.used = true, text
					break
				}
			}
			_, err := w.Check(t.Context(), owner, sign(scheme, p))
			if (err == nil) != want {
				rt.Fatalf("PARes %d: %v, want good: %v\n%+v", i, err, want, p)
			}
			w.pass(time.Duration(randtest.Pick(rt, 0, 0, 10, 50, -10)) * time.Minute)
		}
	})
}

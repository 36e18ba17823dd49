package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/internal/engine/mpi"
	"github.com/openthreeds/threeds/internal/protocol/v1/v1test"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// TestCheckReturnsWhatIsSigned has the answers to good PARes (M7). With N and U an issuer signs zeros
// for the card number: the last four digits are then those of the PAReq.
func TestCheckReturnsWhatIsSigned(t *testing.T) {
	for _, tt := range []struct{ scheme, pan, status, signed, eci string }{
		{"visa", visaPAN, "Y", "05", "5"}, {"visa", visaPAN, "A", "06", "6"}, {"visa", visaPAN, "N", "", "7"}, {"visa", visaPAN, "U", "", "7"},
		{"mastercard", masterPAN, "Y", "02", "2"}, {"mastercard", masterPAN, "A", "01", "1"}, {"mastercard", masterPAN, "Y", "01", "1"},
		{"mastercard", masterPAN, "N", "", "0"}, {"mastercard", masterPAN, "U", "", "1"},
	} {
		t.Run(tt.scheme+" "+tt.status+tt.signed, func(t *testing.T) {
			w := newWorld(t)
			req := w.enroll(shop, purchase(tt.pan))
			p := req.Answer(tt.pan, tt.status)
			p.Amount = "000000021601"
			want := api.Checked{
				Amount: "21601", Currency: "DKK", ECI: tt.eci, MerchantID: "M-1001", Last4: "7890", Status: tt.status, XID: p.XID,
			}
			if tt.signed != "" {
				p.ECI, p.CAVV = tt.signed, "jHyn+7YFi1EUAREAAAAvNUe6Hv8="
				want.CAVV, want.CAVVAlgorithm = p.CAVV, "2"
			}
			for range 2 { // as often as one likes
				if diff := difftest.Diff(want, w.accepts(shop, sign(tt.scheme, p))); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
			}
			if got := last(w.observed); got != "check "+tt.scheme+" "+tt.status {
				t.Errorf("observed %q", got)
			}
			if strings.Contains(w.log.String(), tt.pan) || p.CAVV != "" && strings.Contains(w.log.String(), p.CAVV) {
				t.Errorf("the log holds a secret: %s", w.log)
			}
		})
	}
}

// TestOrderNumberIsNoted: enrolled records it, and so does check, whose PARes does not have it. A card number in it is
// hidden.
func TestOrderNumberIsNoted(t *testing.T) {
	w := newWorld(t)
	for order, want := range map[string]string{"ord-4711": "ord-4711", "4111 1111-1111.1111": "***", visaPAN: "***" + visaPAN[len(visaPAN)-4:]} {
		asked := purchase(visaPAN)
		asked.OrderID = order
		req := w.enroll(shop, asked)
		w.accepts(shop, sign("visa", req.Answer(visaPAN, "Y")))
		if n := len(w.references); n < 2 || w.references[n-2] != want || w.references[n-1] != want {
			t.Errorf("of order %q %q were noted, want %q twice", order, w.references, want)
		}
	}
}

// differing are the ways in which a PARes may not be the answer to its PAReq.
var differing = map[string]func(*v1test.PARes){
	"acqBIN":      func(p *v1test.PARes) { p.AcqBIN = "400552" },
	"merID":       func(p *v1test.PARes) { p.MerID = "M-1002" },
	"date":        func(p *v1test.PARes) { p.Date = "20200101 00:00:00" },
	"purchAmount": func(p *v1test.PARes) { p.Amount = "1" },
	"currency":    func(p *v1test.PARes) { p.Currency = "978" },
	"exponent":    func(p *v1test.PARes) { p.Currency, p.Exponent = "392", "0" },
	"pan":         func(p *v1test.PARes) { p.PAN = p.PAN[:12] + "7891" },
}

// TestM10EncodedPAResIsDecodedOnce: a PARes that its sender percent-encoded before the form did is
// decoded once. One that was encoded twice, or that has other characters encoded, is refused.
func TestM10EncodedPAResIsDecodedOnce(t *testing.T) {
	w := newWorld(t)
	req := w.enroll(shop, purchase(visaPAN))
	pares := sign("visa", req.Answer(visaPAN, "Y"))
	if !strings.Contains(pares, "+") || !strings.Contains(pares, "/") {
		t.Fatal("in 1,500 characters of base64 there should be each of its 64 digits")
	}
	encoded := url.QueryEscape(pares[:76] + "\r\n" + pares[76:])
	for name, text := range map[string]string{
		"encoded once":           url.QueryEscape(pares),
		"encoded in lower case":  strings.NewReplacer("%2B", "%2b", "%2F", "%2f", "%3D", "%3d").Replace(url.QueryEscape(pares)),
		"encoded with its lines": encoded,
	} {
		if got := w.accepts(shop, text); got.Status != "Y" {
			t.Errorf("%s: status %q, want Y", name, got.Status)
		}
	}
	w.refuses(shop, url.QueryEscape(url.QueryEscape(pares)), "not base64")
	w.refuses(shop, "%65"+pares[1:], "not base64")
}

// TestCheckRefusesWhatDiffersFromThePAReq: a PARes that differs from its PAReq is refused (M9), and it does not help to
// change the Message id on the way.
func TestCheckRefusesWhatDiffersFromThePAReq(t *testing.T) {
	for name, change := range differing {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			req := w.enroll(shop, purchase(visaPAN))
			good := req.Answer(visaPAN, "Y")
			bad := good
			change(&bad)
			w.refuses(shop, sign("visa", bad), name)
			bad.MessageID = "anything"
			w.refuses(shop, sign("visa", bad), name)
			w.accepts(shop, sign("visa", good)) // the refusals have not used it up
		})
	}
	t.Run("xid", func(t *testing.T) {
		w := newWorld(t)
		req := w.enroll(shop, purchase(visaPAN))
		p := req.Answer(visaPAN, "Y")
		p.XID = "MDAwMDAwMDAwMDAwMDAwMDAwMDA="
		w.refuses(shop, sign("visa", p), "xid")
	})
	t.Run("xid, in another text for the same bytes", func(t *testing.T) {
		w := newWorld(t)
		req := w.enroll(shop, purchase(visaPAN))
		good := req.Answer(visaPAN, "Y")
		good.XID = strings.Replace(good.XID, "A=", "D=", 1)
		if good.XID == req.Message.PAReq.Purchase.XID {
			t.Fatalf("the xid is %s", good.XID)
		}
		bad := good
		bad.MessageID, bad.Amount = "anything", "1"
		w.refuses(shop, sign("visa", bad), "purchAmount")
		if got := w.accepts(shop, sign("visa", good)); got.XID != good.XID {
			t.Errorf("xid %s, want %s as signed", got.XID, good.XID)
		}
	})
	t.Run("length of the card number", func(t *testing.T) {
		w := newWorld(t)
		req := w.enroll(shop, purchase(visaPAN))
		p := req.Answer(visaPAN, "Y")
		p.PAN = "0" + p.PAN
		w.refuses(shop, sign("visa", p), "pan")
	})
	t.Run("scheme", func(t *testing.T) {
		w := newWorld(t)
		req := w.enroll(shop, purchase(visaPAN))
		p := req.Answer(visaPAN, "N")
		w.refuses(shop, sign("mastercard", p), "scheme")
	})
	t.Run("another Message id, all else equal", func(t *testing.T) {
		w := newWorld(t)
		req := w.enroll(shop, purchase(visaPAN))
		p := req.Answer(visaPAN, "Y")
		p.MessageID = "anything"
		w.accepts(shop, sign("visa", p))
		p.Status, p.PAN, p.CAVV = "N", strings.Repeat("0", 16), ""
		w.refuses(shop, sign("visa", p), "another PARes came before")
	})
	t.Run("over the hour", func(t *testing.T) {
		w := newWorld(t)
		w.pass(29 * time.Minute) // a list ends with the hour
		req := w.enroll(shop, purchase(visaPAN))
		w.pass(59 * time.Minute)
		p := req.Answer(visaPAN, "Y")
		p.MessageID, p.Amount = "anything", "1"
		w.refuses(shop, sign("visa", p), "purchAmount")
	})
	t.Run("a clock put back over the hour", func(t *testing.T) {
		w := newWorld(t)
		w.pass(31 * time.Minute)
		req := w.enroll(shop, purchase(visaPAN))
		w.pass(-2 * time.Minute)
		p := req.Answer(visaPAN, "Y")
		p.MessageID, p.Amount = "anything", "1"
		w.refuses(shop, sign("visa", p), "purchAmount")
	})
}

// TestSecondPAResIsRefused: the first PARes for a PAReq stays (M9).
func TestSecondPAResIsRefused(t *testing.T) {
	w := newWorld(t)
	req := w.enroll(shop, purchase(visaPAN))
	first := req.Answer(visaPAN, "N")
	w.accepts(shop, sign("visa", first))
	second := req.Answer(visaPAN, "Y")
	w.refuses(shop, sign("visa", second), "another PARes came before")
	second.MessageID = "anything"
	w.refuses(shop, sign("visa", second), "another PARes came before")
	w.accepts(shop, sign("visa", first))
}

// TestPAReqsOfOneOrder: PAReqs with the same order_id do not affect each other, and each may get its PARes (M9).
func TestPAReqsOfOneOrder(t *testing.T) {
	w := newWorld(t)
	var all []v1test.PARes
	for i := range 20 {
		asked := purchase(visaPAN)
		asked.Amount = fmt.Sprint(1000 + i)
		req := w.enroll(shop, asked)
		all = append(all, req.Answer(visaPAN, "Y"))
		w.pass(time.Second)
	}
	for i, p := range all {
		if got := w.accepts(shop, sign("visa", p)); got.Amount != fmt.Sprint(1000+i) {
			t.Errorf("%d: %+v", i, got)
		}
	}
	changed := all[0]
	changed.Amount, changed.MessageID = "1", "anything"
	w.refuses(shop, sign("visa", changed), "purchAmount")
}

// TestPAResWithoutPAReqPasses: a PARes that this merchant did not ask for, or asked for too long ago, is verified and
// answered.
func TestPAResWithoutPAReqPasses(t *testing.T) {
	w := newWorld(t)
	asked := purchase(visaPAN)
	req := w.enroll(shop, asked)
	p := req.Answer(visaPAN, "Y")
	p.Amount = "1"
	text := sign("visa", p)
	w.refuses(shop, text, "purchAmount")
	if got := w.accepts(other, text); got.Amount != "1" {
		t.Errorf("another merchant gets %+v", got)
	}
	w.pass(time.Hour)
	if got := w.accepts(shop, text); got.Amount != "1" {
		t.Errorf("after an hour: %+v", got)
	}
	p.XID, p.MessageID = "MDAwMDAwMDAwMDAwMDAwMDAwMDA=", "never-seen"
	w.accepts(shop, sign("visa", p))
}

// TestUntrustedPAResIsRefused: without a good signature there is no answer of any kind (M8).
func TestUntrustedPAResIsRefused(t *testing.T) {
	w := newWorld(t)
	req := w.enroll(shop, purchase(visaPAN))
	visa := issuers()["visa"]
	for _, status := range []string{"Y", "A", "N", "U"} {
		p := req.Answer(visaPAN, status)
		doc := visa.Document(p)
		cut, _, _ := strings.Cut(doc, "<Signature")
		for name, text := range map[string]string{
			"another root": sign("stranger", p),
			"no signature": v1test.Pack(cut + "</Message></ThreeDSecure>"),
			"changed":      v1test.Pack(strings.Replace(doc, "<status>"+status, "<status>"+map[bool]string{true: "N", false: "U"}[status == "U"], 1)),
			"two of them": v1test.Pack(strings.Replace(doc, "<Signature",
				strings.Replace(doc[strings.Index(doc, "<PARes"):strings.Index(doc, "<Signature")], "21601", "1", 1)+"<Signature", 1)),
			"an Error": v1test.Pack(message("x",
				"<Error><version>1.0.2</version><errorCode>5</errorCode><errorMessage>m</errorMessage><errorDetail>d</errorDetail></Error>")),
			"no PARes":      v1test.Pack("<x/>"),
			"not packed":    doc,
			"not base64":    "%%%",
			"nothing in it": v1test.Pack(""),
		} {
			t.Run(name+" "+status, func(t *testing.T) {
				w.t = t
				w.refuses(shop, text, "PARes refused")
			})
		}
	}
	w.t = t
	w.accepts(shop, sign("visa", req.Answer(visaPAN, "Y")))
	w.Directories = nil
	w.refuses(shop, sign("visa", req.Answer(visaPAN, "Y")), "PARes refused")
}

// TestTrust has what a policy decides: SHA-1, keys, and the time of certificates.
func TestTrust(t *testing.T) {
	const before, ahead = -72 * time.Hour, 72 * time.Hour
	for _, tt := range []struct {
		name    string
		options v1test.Options
		claimed time.Duration // from now on, when it was signed
		change  func(*mpi.Directory, *xmldsig.Policy)
		good    bool
	}{
		{"SHA-1, not allowed", v1test.Options{SHA1: true}, before, func(*mpi.Directory, *xmldsig.Policy) {}, false},
		{"SHA-1, allowed", v1test.Options{SHA1: true}, before, func(_ *mpi.Directory, p *xmldsig.Policy) { p.AllowSHA1 = true }, true},
		{"1024 bits, not allowed", v1test.Options{Bits: 1024}, before, func(*mpi.Directory, *xmldsig.Policy) {}, false},
		{"1024 bits, allowed", v1test.Options{Bits: 1024}, before, func(_ *mpi.Directory, p *xmldsig.Policy) { p.MinKeyBits = 1024 }, true},
		{"expired", v1test.Options{NotAfter: time.Now().Add(-24 * time.Hour)}, before, func(*mpi.Directory, *xmldsig.Policy) {}, false},
		{"expired since it was signed", v1test.Options{NotAfter: time.Now().Add(-24 * time.Hour)}, before,
			func(d *mpi.Directory, _ *xmldsig.Policy) { d.SigningTime = true }, true},
		// Of the times that an issuer may claim, none lies ahead: its certificate may be good only then.
		{"good now, claims to be signed when it is expired", v1test.Options{}, ahead, func(d *mpi.Directory, _ *xmldsig.Policy) { d.SigningTime = true }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			issuer := v1test.NewIssuer(t, tt.options)
			d := &w.Directories[0]
			root, err := xmldsig.NewRoot(issuer.Root())
			if err != nil {
				t.Fatal(err)
			}
			policy := xmldsig.Policy{Name: "visa", Roots: []*xmldsig.Root{root}}
			d.Policy = func() xmldsig.Policy { return policy }
			tt.change(d, &policy)
			req := w.enroll(shop, purchase(visaPAN))
			p := req.Answer(visaPAN, "Y")
			p.Time = time.Now().Add(tt.claimed).UTC().Format("20060102 15:04:05")
			if !tt.good {
				w.refuses(shop, issuer.Sign(p), "PARes refused")
				return
			}
			w.accepts(shop, issuer.Sign(p))
		})
	}
}

// TestStoreFailureDecidesNothing: if the store cannot say whether the PARes is the right one, there is no answer.
func TestStoreFailureDecidesNothing(t *testing.T) {
	w := newWorld(t)
	req := w.enroll(shop, purchase(visaPAN))
	text := sign("visa", req.Answer(visaPAN, "Y"))
	w.store.fails(errDown)
	if c, err := w.Check(t.Context(), shop, text); !errors.Is(err, mpi.ErrUnavailable) || c != (api.Checked{}) {
		t.Errorf("%+v %v", c, err)
	}
	if got := last(w.observed); got != "check visa store" {
		t.Errorf("observed %q", got)
	}
	w.store.fails(nil)
	w.accepts(shop, text)
}

// TestFailureOfEachStoreOperation: whichever step of the store fails, no PAReq leaves before it is completely stored,
// and no PARes is refused or accepted as if no PAReq had asked for it.
func TestFailureOfEachStoreOperation(t *testing.T) {
	w := newWorld(t)
	w.enroll(shop, purchase(visaPAN)) // with one before, the list has to be changed
	for at := 1; at <= 3; at++ {
		w.store.failsAt(at, errDown)
		if a := w.Enrolled(t.Context(), shop, purchase(visaPAN)); a.PAReq != "" || a.Error == nil || a.Error.Message != "Transient system failure" {
			t.Errorf("PAReq, step %d: %+v", at, a)
		}
	}
	w.store.fails(nil)
	req := w.enroll(shop, purchase(visaPAN))
	if n := w.store.steps(); n != 3 {
		t.Errorf("a PAReq takes %d steps, want 3", n)
	}
	p := req.Answer(visaPAN, "Y")
	p.MessageID = "anything" // it is looked for by its xid then
	text := sign("visa", p)
	for at := 1; ; at++ {
		w.store.failsAt(at, errDown)
		c, err := w.Check(t.Context(), shop, text)
		if w.store.steps() < at { // it went through
			if at < 7 || err != nil { // by id, three lists, one PAReq at least, the change
				t.Errorf("a PARes takes %d steps: %v", w.store.steps(), err)
			}
			return
		}
		if !errors.Is(err, mpi.ErrUnavailable) || c != (api.Checked{}) {
			t.Errorf("PARes, step %d: %+v %v", at, c, err)
		}
	}
}

// TestPAReqThatExpiresDuringCheck: if a PAReq expires just when its PARes is compared with it, the PARes is still
// compared with the others that have the same xid.
func TestPAReqThatExpiresDuringCheck(t *testing.T) {
	w := newWorld(t)
	w.enroll(shop, purchase(visaPAN))
	req := w.enroll(shop, purchase(visaPAN))
	p := req.Answer(visaPAN, "Y")
	p.MessageID, p.Amount = "anything", "1"
	// By id, the list, the two in it, the lists of two other hours; then the first.
	w.store.failsAt(7, store.ErrNotFound)
	w.refuses(shop, sign("visa", p), "purchAmount")
	if n := w.store.steps(); n != 8 {
		t.Errorf("%d steps, want 8", n)
	}
}

// blind is a sealer whose keys are not the previous ones.
type blind struct{ record.Sealer }

func (blind) Open(string, []byte) ([]byte, error) { return nil, errDown }

// TestUnreadableRecord: a record that cannot be read does not count as missing.
func TestUnreadableRecord(t *testing.T) {
	w := newWorld(t)
	p := w.enroll(shop, purchase(visaPAN))
	w.Sealer = blind{w.Sealer}
	for _, id := range []string{p.Message.ID, "anything"} {
		answer := p.Answer(visaPAN, "Y")
		answer.MessageID, answer.Amount = id, "1"
		if c, err := w.Check(t.Context(), shop, sign("visa", answer)); !errors.Is(err, mpi.ErrUnavailable) || c != (api.Checked{}) {
			t.Errorf("%s: %+v %v", id, c, err)
		}
	}
	if a := w.Enrolled(t.Context(), shop, purchase(visaPAN)); a.PAReq != "" || a.Error == nil || a.Error.Message != "Transient system failure" {
		t.Errorf("another PAReq with the same xid: %+v", a)
	}
}

// slowStore takes its time for each transaction.
type slowStore struct{ mpi.Store }

func (s slowStore) Get(ctx context.Context, id string) (store.Txn, error) {
	select {
	case <-ctx.Done():
		return store.Txn{}, ctx.Err()
	case <-time.After(9 * time.Second):
		return s.Store.Get(ctx, id)
	}
}

// TestSlowStore: a store that is slow for each of many PAReqs with one xid does
// not keep an answer back until nobody waits for it any more.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Now = time.Now
		w.store.Memory = storetest.NewMemory(time.Now)
		var p v1test.PARes
		for range 8 {
			req := w.enroll(shop, purchase(visaPAN))
			p = req.Answer(visaPAN, "Y")
		}
		p.MessageID = "anything"
		w.Store = slowStore{w.store}
		start := time.Now()
		c, err := w.Check(t.Context(), shop, sign("visa", p))
		if took := time.Since(start); took >= 30*time.Second || !errors.Is(err, mpi.ErrUnavailable) || c != (api.Checked{}) {
			t.Errorf("%+v %v after %v", c, err, took)
		}
	})
}

// TestConcurrentPARes: of different PARes for one PAReq that come at once, one is taken.
func TestConcurrentPARes(t *testing.T) {
	w := newWorld(t)
	req := w.enroll(shop, purchase(visaPAN))
	var all sync.WaitGroup
	var taken atomic.Int32
	for i := range 16 {
		p := req.Answer(visaPAN, "Y")
		p.CAVV = fmt.Sprintf("AAABBCJZUwAAAAAAUF%02dAAAAAAA=", i)
		text := sign("visa", p)
		all.Go(func() {
			if _, err := w.Check(t.Context(), shop, text); err == nil {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	if taken.Load() != 1 {
		t.Errorf("%d PARes were taken, want 1", taken.Load())
	}
}

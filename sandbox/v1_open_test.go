package sandbox_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	v1 "github.com/openthreeds/threeds/internal/protocol/v1"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
	"github.com/openthreeds/threeds/sandbox"
)

// The sandbox writes and signs with code of its own. Here the server's code
// reads it, which is a test of both.

// opener is what a server that trusts the roots of all schemes does with the
// field PaRes.
func opener(t testing.TB, box *sandbox.Sandbox) func(text string) (*v1.Opened, error) {
	t.Helper()
	return func(text string) (*v1.Opened, error) {
		return v1.OpenPARes(text, func(time.Time) []xmldsig.Policy {
			var all []xmldsig.Policy
			for _, d := range box.V1Directories() {
				p := xmldsig.Policy{Name: d.Scheme, At: time.Now(), AllowSHA1: true}
				for _, root := range d.RootsSoFar() {
					r, err := xmldsig.NewRoot(root.Raw)
					if err != nil {
						t.Fatal(err)
					}
					p.Roots = append(p.Roots, r)
				}
				all = append(all, p)
			}
			return all
		})
	}
}

// viaServer goes from card number to the field PaRes with the server's messages.
func (p *plugIn) viaServer(pan string) string {
	p.t.Helper()
	merchant := v1.Merchant{AcqBIN: "423456", ID: p.merID, Name: "Bicycles & Søns", Country: "208", URL: "https://shop.example/?a=b&c=d"}
	ask := &v1.VEReq{ID: "id-" + pan, PAN: pan, Merchant: merchant, DeviceCategory: "0", Accept: "*/*", UserAgent: "Test"}
	_, raw := p.post(string(ask.Marshal()))
	ve, err := v1.ReadVERes(raw, ask, v1.Options{Lab: true})
	if err != nil || ve.Enrolled != "Y" {
		p.t.Fatalf("%s: %v %+v in %s", p.merID, err, ve, raw)
	}
	pa := &v1.PAReq{
		ID: ask.ID, Version: ve.Version, Merchant: merchant, XID: testXID, Date: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		DisplayAmount: "216.01 DKK", Amount: "21601", Currency: "208", Exponent: 2, AcctID: ve.AcctID, Expiry: "3012",
	}
	shown := send(p.t, ve.URL, url.Values{"PaReq": {pa.Encode()}, "TermUrl": {"https://shop.example/back"}, "MD": {""}})
	if shown.status != 200 || shown.field("PaRes") == "" {
		p.t.Fatalf("%d %s", shown.status, shown.text)
	}
	return shown.field("PaRes")
}

func TestV1OpenedByServer(t *testing.T) {
	t.Parallel()
	for _, nice := range []bool{false, true} {
		box := start(t, func(s *sandbox.Sandbox) { s.Nice = nice })
		open := opener(t, box)
		for scheme, prefix := range v1Cards {
			p := newPlugIn(t, box, scheme)
			for end, want := range map[string]string{"0000": "Y", "0001": "A", "0002": "N", "0003": "U", "0129": "U"} {
				o, err := open(p.viaServer(prefix + end))
				if err != nil {
					t.Errorf("%s %s nice=%t: %v", scheme, end, nice, err)
					continue
				}
				last4 := "0000"
				if want == "Y" || want == "A" {
					last4 = end
				}
				if o.Status != want || o.Signature.Policy != scheme || o.Amount != "21601" || o.Last4 != last4 || o.PANLength != len(prefix+end) ||
					o.XID != testXID || o.MessageID != "id-"+prefix+end || o.MerID != p.merID || (o.CAVV != "") != (want == "Y" || want == "A") {
					t.Errorf("%s %s: %+v", scheme, end, o)
				}
			}
			if o, err := open(p.viaServer(prefix + "0004")); err == nil {
				t.Errorf("%s: a broken signature is good: %+v", scheme, o)
			}
		}
	}
}

// TestV1FaultsAtServer: no broken PARes is believed, and those that were signed
// are read as they were signed.
func TestV1FaultsAtServer(t *testing.T) {
	t.Parallel()
	box := start(t, nil)
	open := opener(t, box)
	for scheme, prefix := range v1Cards {
		p := newPlugIn(t, box, scheme)
		for _, merID := range []string{"ROOT", "SIGNATURE", "EDITED", "UNSIGNED", "REFERENCE", "WRAPPED", "PARESERROR"} {
			p.merID = "FAULT-" + merID
			o, err := open(p.viaServer(prefix + "0000"))
			if err == nil {
				t.Errorf("%s %s: %+v", scheme, p.merID, o)
			}
			if _, sent := errors.AsType[*v1.Error](err); sent != (merID == "PARESERROR") {
				t.Errorf("%s %s: %v", scheme, p.merID, err)
			}
		}
		for merID, want := range map[string]func(o *v1.Opened) bool{
			"PARESIREQ": func(o *v1.Opened) bool { return o.Status == "U" && o.IReq.Code == "55" },
			"PARESID":   func(o *v1.Opened) bool { return strings.HasPrefix(o.MessageID, "other.") },
			"AMOUNT":    func(o *v1.Opened) bool { return o.Amount == "21602" },
			"XID":       func(o *v1.Opened) bool { return o.XID != testXID && len(o.XID) == 28 },
			"PAN":       func(o *v1.Opened) bool { return o.Last4 == "0001" },
		} {
			p.merID = "FAULT-" + merID
			if o, err := open(p.viaServer(prefix + "0000")); err != nil || !want(o) {
				t.Errorf("%s %s: %v %+v", scheme, p.merID, err, o)
			}
		}
		p.merID = "FAULT-CHAIN"
		o, err := open(p.viaServer(prefix + "0000"))
		if other := map[bool]string{true: "mastercard", false: "visa"}[scheme == "visa"]; err == nil && o.Signature.Policy != other {
			t.Errorf("%s: another scheme's chain passes for %s", scheme, o.Signature.Policy)
		}
	}
}

// TestV1RangesAtServer: the server can read the whole CRRes and the changes.
func TestV1RangesAtServer(t *testing.T) {
	box := start(t, nil)
	for scheme := range v1Cards {
		p := newPlugIn(t, box, scheme)
		for serial, some := range map[string]bool{"": true, "2611200001": true, "2611200002": false} {
			ask := &v1.CRReq{ID: "cr", Merchant: v1.Merchant{AcqBIN: "423456", ID: "shop-1"}, Serial: serial}
			_, raw := p.post(string(ask.Marshal()))
			cr, err := v1.ReadCRRes(raw, ask)
			if err != nil || (len(cr.Ranges) > 0) != some || cr.Serial != "2611200002" {
				t.Errorf("%s %q: %v %+v", scheme, serial, err, cr)
			}
		}
	}
}

// TestV1VEResAtServer: no broken VERes is believed.
func TestV1VEResAtServer(t *testing.T) {
	t.Parallel()
	box := start(t, nil)
	for scheme, prefix := range v1Cards {
		p := newPlugIn(t, box, scheme)
		for _, fault := range []string{"ERROR5", "ERROR98", "GARBAGE", "CUT", "TWICE", "CRITICAL", "VERESID", "ACCTID", "ACSURL", "IREQ51"} {
			ask := &v1.VEReq{ID: "id", PAN: prefix + "0000", Merchant: v1.Merchant{AcqBIN: "423456", ID: "FAULT-" + fault}}
			_, raw := p.post(string(ask.Marshal()))
			ve, err := v1.ReadVERes(raw, ask, v1.Options{Lab: true})
			if refused := fault == "IREQ51"; (err == nil) != refused || refused && ve.IReq.Code != "51" {
				t.Errorf("%s %s: %v %+v", scheme, fault, err, ve)
			}
		}
	}
}

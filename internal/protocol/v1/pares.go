package v1

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/iso"
	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// An Opened is a PARes, and what else is known of the message.
type Opened struct {
	PARes
	MessageID string // not signed: anybody on the way can change it
	Raw       bool   // packed without zlib; see [packing.Inflate]
	Signature *xmldsig.Verified
}

// MaxTokens is how many elements, attributes and texts a PARes may have, the
// signature included. Real ones have about 60.
const MaxTokens = 2048

// OpenPARes unpacks, verifies and reads a PARes that came through a browser.
//
// policies returns the policies for the signature, each with the name of its scheme. It is
// called with the time of signing that the message claims, or zero. Nothing has verified
// that time yet: a policy should check certificates at it only where a laboratory asks for
// that.
//
// The error is an *[Error] if the message is one in place of a PARes; it is not signed, so
// anybody can have made it. All other errors say for a log why the message is refused, and
// name no values.
func OpenPARes(text string, policies func(claimed time.Time) []xmldsig.Policy) (*Opened, error) {
	doc, raw, err := packing.Inflate(text)
	if err != nil {
		return nil, err
	}
	m, err := open(doc, xmldsig.Limits{Tokens: MaxTokens})
	if err != nil {
		return nil, err
	}
	switch {
	case m.sole("Error"):
		return nil, readError(m.id, m.bodies[0])
	case len(m.bodies) != 2, !m.first("PARes"), m.bodies[1].Local != "Signature":
		return nil, &Fault{NotDefined, "Message: not a PARes and its Signature"}
	}
	v, err := xmldsig.Verify(m.bodies[0], m.bodies[1], policies(claimedTime(m.bodies[0])))
	if err != nil {
		return nil, err
	}
	o := &Opened{MessageID: m.id, Raw: raw, Signature: v}
	// From here on, only the bytes that were digested are read.
	signed, err := xmldsig.Parse(v.Canonical)
	if err != nil {
		return nil, fmt.Errorf("v1: signed bytes: %w", err)
	}
	if o.PARes, err = readPARes(signed, v.Policy); err != nil {
		return nil, err
	}
	return o, nil
}

// claimedTime is TX.time of a PARes that was not verified yet, zero if it has none.
func claimedTime(pares *xmldsig.Element) time.Time {
	tx := (&faults{}).part(pares, "").part("TX", false)
	t, _ := time.Parse(timeLayout, tx.may("time", isTime))
	return t
}

// readPARes reads a signed PARes whose signer is of this scheme. Elements of the PAReq that
// some issuers send back are allowed and ignored.
func readPARes(e *xmldsig.Element, scheme string) (PARes, error) {
	f := &faults{}
	p := f.part(e, "", "version", "Merchant", "Purchase", "pan", "TX", "IReq", "Extension*")
	id, _ := e.Attr("id")
	r := PARes{ID: id}
	p.version()
	merchant := p.part("Merchant", true, "acqBIN", "merID", "name", "country", "url")
	r.AcqBIN = merchant.need("acqBIN", digits(1, 11))
	r.MerID = merchant.need("merID", text(1, 24))
	r.readPurchase(p)
	pan := p.need("pan", digits(12, 19))
	r.PANLength = len(pan)
	r.Last4 = pan[max(0, len(pan)-4):]
	r.readTX(p, scheme)
	var refused bool
	if r.IReq, refused = p.iReq(); refused && r.authenticated() {
		note(&f.bad, "IReq")
	}
	return r, f.err()
}

func (r *PARes) readPurchase(p part) {
	purchase := p.part("Purchase", true, "xid", "date", "purchAmount", "currency", "exponent",
		"amount", "desc", "Recur", "install")
	r.XID = purchase.need("xid", base64of20)
	r.Date = purchase.need("date", isTime)
	if s := purchase.need("purchAmount", digits(1, 12)); s != "" {
		r.Amount = strings.TrimLeft(s[:len(s)-1], "0") + s[len(s)-1:]
	}
	decimals := -1
	r.Currency = purchase.need("currency", func(s string) (ok bool) {
		decimals, ok = iso.Currency(s)
		return ok
	})
	exponent := purchase.need("exponent", digits(1, 1))
	r.Exponent, _ = strconv.Atoi(exponent)
	if exponent != "" && r.Currency != "" && r.Exponent != decimals {
		note(&p.f.bad, "Purchase.exponent")
	}
}

// readTX reads the element TX. CAVV, ECI and algorithm are read only with a status that has
// them.
func (r *PARes) readTX(p part, scheme string) {
	tx := p.part("TX", true, "time", "status", "cavv", "eci", "cavvAlgorithm")
	r.Time, _ = time.Parse(timeLayout, tx.need("time", isTime))
	r.Status = tx.need("status", oneOf("YNUA"))
	if r.authenticated() {
		r.CAVV = tx.need("cavv", base64of20)
		r.ECI = tx.need("eci", func(s string) bool { return eciAgrees(s, r.Status, scheme) })
		r.CAVVAlgo = tx.need("cavvAlgorithm", oneOf(alphanumeric))
	}
}

// authenticated reports whether the status has a CAVV: the cardholder was authenticated, or an attempt was made.
func (r *PARes) authenticated() bool { return r.Status == "Y" || r.Status == "A" }

// eciAgrees reports whether a signed indicator is one that the scheme has for this status.
// Mastercard may sign an attempt with status Y.
func eciAgrees(eci, status, scheme string) bool {
	good := []string{"0" + ECI(scheme, Attempt)}
	if status == "Y" {
		good = []string{"0" + ECI(scheme, Success)}
		if scheme == "mastercard" {
			good = append(good, "01")
		}
	}
	return slices.Contains(good, eci)
}

// ShortECI returns the indicator in the form of the API: the signed one without its leading zero, or the one that
// belongs to status N or U (docs/api.md, M7).
func (o *Opened) ShortECI() string {
	switch o.Status {
	case "N":
		return ECI(o.Signature.Policy, Failure)
	case "U":
		return ECI(o.Signature.Policy, Unavailable)
	}
	return strings.TrimPrefix(o.ECI, "0")
}

// isTime reports whether s is a date as messages write it.
func isTime(s string) bool {
	_, err := time.Parse(timeLayout, s)
	return err == nil && len(s) == len(timeLayout)
}

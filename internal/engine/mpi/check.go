package mpi

import (
	"context"
	"errors"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/iso"
	"github.com/openthreeds/threeds/internal/protocol/v1"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
)

// Check verifies a PARes and returns what it says. Check refuses the PARes, with a *ParamError that does not say why,
// unless its signature is valid, an issuer of a configured scheme made it, and it agrees with the PAReq that this
// merchant got, if it got one here. Another error means that nothing could be decided.
func (e *Engine) Check(ctx context.Context, acc *account.Account, text string) (api.Checked, error) {
	ctx, cancel := context.WithTimeout(ctx, Longest) // a slow store is asked for many PAReqs at worst
	defer cancel()
	scheme, last4, log := "", "", e.Log.With("merchant", acc.Merchant.Name)
	p, err := v1.OpenPARes(text, e.policies)
	if err == nil {
		scheme = p.Signature.Policy
		log = log.With("messageId", p.MessageID, "scheme", scheme)
		e.note(ctx, "messageId", p.MessageID)
		log.DebugContext(ctx, "PARes verified", "digest", p.Signature.Digest, "signature", p.Signature.Signature,
			"sha1", p.Signature.SHA1, "keyBits", p.Signature.KeyBits, "raw", p.Raw)
		last4, err = e.compareWithRequest(ctx, acc.Merchant.Name, p)
	}
	if errors.Is(err, ErrUnavailable) {
		record.LogFailure(ctx, log, e.StoreFailures, e.Now(), "PARes not checked", err)
		e.noteEnd(ctx, "check", scheme, "store")
		return api.Checked{}, err
	}
	if err != nil {
		log.WarnContext(ctx, "PARes refused", "err", err)
		e.noteStep(ctx, "v1.pares", e.showPARes(p), "refused: "+err.Error())
		e.noteEnd(ctx, "check", scheme, "refused")
		return api.Checked{}, &ParamError{"pares", InvalidParam}
	}
	e.noteStep(ctx, "v1.pares", e.showPARes(p), "")
	checked := newChecked(p)
	if !hasCAVV(p.Status) && last4 != "" {
		checked.Last4 = last4 // the issuer signs zeros in place of the card number
	}
	e.noteEnd(ctx, "check", scheme, p.Status)
	e.note(ctx, "transStatus", p.Status)
	e.note(ctx, "eci", checked.ECI)
	e.note(ctx, "last4", checked.Last4)
	e.note(ctx, "amount", p.Amount)
	e.note(ctx, "currency", p.Currency)
	return checked, nil
}

// policies returns the policies of all schemes. Certificates are checked at the present time or, if a scheme is
// configured so, at the time at which the issuer claims to have signed.
func (e *Engine) policies(claimed time.Time) []xmldsig.Policy {
	now := e.Now()
	policies := make([]xmldsig.Policy, len(e.Directories))
	for i := range e.Directories {
		d := &e.Directories[i]
		policies[i] = d.Policy()
		policies[i].At = now
		if d.SigningTime && !claimed.IsZero() && claimed.Before(now) {
			policies[i].At = claimed
		}
	}
	return policies
}

// compareWithRequest compares a PARes with the PAReq that it answers (docs/api.md, M9). It
// accepts a PARes that this merchant did not ask for here, or too long ago: the merchant
// has to compare that one. It returns the last four digits of the card of the PAReq, "" if
// there was none.
func (e *Engine) compareWithRequest(ctx context.Context, owner string, p *v1.Opened) (last4 string, err error) {
	found, err := e.findRequests(ctx, owner, p)
	if err != nil {
		return "", errors.Join(ErrUnavailable, err)
	}
	var refusal error
	for _, t := range found {
		last4, err := e.acceptOnce(ctx, t, p)
		if err == nil {
			return last4, nil
		}
		if errors.Is(err, store.ErrNotFound) {
			continue // it has expired just now
		}
		if _, ok := errors.AsType[*mismatch](err); !ok && !errors.Is(err, errOtherPARes) {
			return "", errors.Join(ErrUnavailable, err)
		}
		refusal = err
	}
	return "", refusal
}

// newChecked returns what the merchant learns from a good PARes.
func newChecked(p *v1.Opened) api.Checked {
	alpha, _ := iso.CurrencyLetters(p.Currency)
	c := api.Checked{
		Amount: p.Amount, Currency: alpha, MerchantID: p.MerID, Last4: p.Last4, Status: p.Status, XID: p.XID,
		ECI: p.ShortECI(),
	}
	if hasCAVV(p.Status) {
		c.CAVV, c.CAVVAlgorithm = p.CAVV, p.CAVVAlgo
	}
	return c
}

// hasCAVV reports whether a status comes with an authentication value.
func hasCAVV(status string) bool { return status == "Y" || status == "A" }

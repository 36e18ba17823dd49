package auth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// keepFirstDuration is how long the first authentication is remembered.
const keepFirstDuration = 20 * time.Minute

// PurchaseOf returns the purchase of an AReq that may need a follow-up, nil for one that
// never does.
func (e *Engine) PurchaseOf(id, pan string, v message.Version, areq *message.Message) *txn.Purchase {
	if v < message.V231 ||
		areq.Text(check.SPCSupport) != "Y" && !slices.Contains([]string{"F", "B"}, areq.Text("threeDSRequestorDecReqInd")) {
		return nil
	}
	return &txn.Purchase{Values: check.CommonValues(areq), Card: e.Sealer.Digest(cardText(id, pan))}
}

// cardText is what the digest of a card is made of.
func cardText(id, pan string) string { return id + "\x00" + pan }

// storeFirst stores the first authentication, which ended with acsTransID, so that its
// follow-up is recognised on every node. It is called before the requestor can hear that it
// may go on; if that message fails, no request ever looks for the row. P is nil if the AReq asked for no follow-up; a
// follow-up that comes anyway is refused.
func (e *Engine) storeFirst(ctx context.Context, kind, acsTransID string, t *store.Txn, p *txn.Purchase) error {
	if p == nil {
		return nil
	}
	first := txn.FirstAuthentication{Kind: kind, At: e.Now().UnixMilli(), ID: t.ID, Purchase: *p}
	row := store.Txn{
		ID: firstKey(t.Scheme, acsTransID), Owner: t.Owner, Scheme: t.Scheme, State: txn.Leg,
		Expires: e.ExpiryIn(keepFirstDuration),
	}
	if err := e.Seal(&row, first); err != nil {
		return err
	}
	err := e.Store.Create(ctx, row)
	if errors.Is(err, store.ErrExists) {
		err = e.restartFirst(ctx, &row, &first)
	}
	return err
}

// restartFirst restarts the time for the follow-up of a first authentication that is already stored. Its result came
// before and could not be committed then, so the requestor hears of it only now. The row of another authentication
// stays as it is.
func (e *Engine) restartFirst(ctx context.Context, row *store.Txn, first *txn.FirstAuthentication) error {
	errOther := errors.New("row of another authentication")
	err := e.Store.Update(ctx, store.Txn{ID: row.ID}, func(t *store.Txn) error {
		var stored txn.FirstAuthentication
		if err := e.Open(t, &stored); err != nil {
			return err
		}
		if stored.ID != first.ID || stored.Kind != first.Kind {
			return errOther
		}
		t.Data, t.Expires = row.Data, row.Expires
		return nil
	})
	if errors.Is(err, errOther) || errors.Is(err, store.ErrNotFound) {
		return nil // the follow-up will be refused
	}
	return err
}

// firstKey is the id of the row of a first authentication. The scheme is part of it: ACSs of
// two schemes may choose the same acsTransID.
func firstKey(scheme, acsTransID string) string {
	return "leg." + scheme + "." + strings.ToLower(acsTransID)
}

// storeFirstOfSPC stores the first authentication of SPC before the requestor hears of it.
func (e *Engine) storeFirstOfSPC(ctx context.Context, c *Claim, status string, ares *message.Message) error {
	if status != "S" {
		return nil
	}
	ctx, cancel := e.commitContext(ctx, c)
	defer cancel()
	if c.Rec.Page != nil {
		return c.OnSPC(ctx, c)
	}
	t := &store.Txn{ID: c.ID, Owner: c.Merchant, Scheme: c.Peer.Scheme}
	return e.storeFirst(ctx, check.SPC, ares.Text("acsTransID"), t, c.Rec.Purchase)
}

// CheckFollowUp checks an AReq that is a follow-up against the first authentication. It
// accepts every other AReq.
func (e *Engine) CheckFollowUp(ctx context.Context, req *check.Request, to check.Target, areq *message.Message) error {
	kind, ref, err := e.FirstOf(req, areq)
	if kind == "" || err != nil {
		return err
	}
	row, err := e.Store.Get(ctx, firstKey(to.Peer.Scheme, ref))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		e.LogStoreFailure(ctx, "first leg not read", err, "threeDSServerTransID", req.TransID())
		return unreachable(req.Version, req.KnownID())
	}
	var first txn.FirstAuthentication
	known := err == nil && row.Owner == req.Account.Merchant.Name && row.Scheme == to.Peer.Scheme
	if known {
		if err := e.Open(&row, &first); err != nil {
			return err
		}
	}
	if !known || first.Kind != kind {
		if !check.NeedsFirst(kind, areq) {
			return nil
		}
		return check.RefuseFollowUp(req, "", "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef")
	}
	earlier := check.Earlier{
		Kind: kind, Ended: time.UnixMilli(first.At), Values: first.Values,
		IsSameCard: e.Sealer.IsDigest(first.Card, cardText(first.ID, req.PAN)),
	}
	return earlier.Check(req, areq)
}

package mpi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/v1"
	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
)

// The states of a PAReq that was made here.
const (
	open    store.State = "open"    // no PARes has come for it
	checked store.State = "checked" // one has, and no other will do
	index   store.State = "index"   // no PAReq, but a list of those with one xid
)

// keepFor is how long a PAReq is remembered (docs/api.md, M9).
const keepFor = time.Hour

// A storedRequest is what the store keeps of a PAReq: the values that the PARes has to repeat. It has no card number
// and no name.
type storedRequest struct {
	AcqBIN, MerID, XID, Date, Amount, Currency string
	Exponent                                   int
	Last4                                      string
	PANLength                                  int
	CardHash                                   []byte `json:",omitempty"` // by which the journal finds the card
	Reference                                  string `json:",omitempty"` // by which it finds the order
	Used                                       []byte `json:",omitempty"` // digest of the first PARes
}

// An xidList names the PAReqs with one xid, by the ids of their transactions.
type xidList struct{ IDs []string }

// maxListed is the most that an xidList names: the newest.
const maxListed = 8

// storeRequest remembers a PAReq for its owner, to be found by Message id and by xid.
func (e *Engine) storeRequest(ctx context.Context, owner, scheme, messageID string, k *storedRequest) error {
	now := e.Now()
	t := store.Txn{
		ID: requestID(owner, messageID), Owner: owner, Scheme: scheme, State: open,
		Expires: record.Moment(now.Add(keepFor)),
	}
	if err := record.Seal(e.Sealer, &t, k); err != nil {
		return err
	}
	if err := e.Store.Create(ctx, t); err != nil {
		return fmt.Errorf("mpi: keep PAReq: %w", err)
	}
	return e.addToXIDList(ctx, t, k.XID, now)
}

// addToXIDList adds a PAReq to those with its xid. Each hour has a list of its own, which is kept through the next
// hour. So when its id is used again, the old row has been deleted. Five more minutes allow for nodes whose clocks
// differ.
func (e *Engine) addToXIDList(ctx context.Context, req store.Txn, xid string, now time.Time) error {
	hour := now.Truncate(keepFor)
	t := store.Txn{
		ID: listID(req.Owner, xid, hour), Owner: req.Owner, Scheme: req.Scheme, State: index,
		Expires: record.Moment(hour.Add(2*keepFor + 5*time.Minute)),
	}
	if err := record.Seal(e.Sealer, &t, xidList{[]string{req.ID}}); err != nil {
		return err
	}
	err := e.Store.Create(ctx, t)
	if errors.Is(err, store.ErrExists) {
		err = e.Store.Update(ctx, store.Txn{ID: t.ID}, func(t *store.Txn) error {
			var l xidList
			if err := record.Open(e.Sealer, t, &l); err != nil {
				return err
			}
			l.IDs = append(l.IDs, req.ID)
			l.IDs = l.IDs[max(len(l.IDs)-maxListed, 0):]
			return record.Seal(e.Sealer, t, l)
		})
	}
	if err != nil {
		return fmt.Errorf("mpi: list PAReq: %w", err)
	}
	return nil
}

// findRequests returns the PAReqs of a merchant that a PARes may be the answer to: the one with its Message id, or,
// when there is none, those with its xid. The Message id is not signed. An attacker who changes it gains nothing: the
// PARes must still agree with a PAReq that was made with the signed xid. It also finds the PAReq when an issuer answers
// with a Message id of its own.
func (e *Engine) findRequests(ctx context.Context, owner string, p *v1.Opened) ([]store.Txn, error) {
	t, err := e.Store.Get(ctx, requestID(owner, p.MessageID))
	if err == nil {
		return []store.Txn{t}, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	var found []store.Txn
	xid, hour := plainXID(p.XID), e.Now().Truncate(keepFor)
	// The next hour counts too: the clock of the node that made the list may be ahead, or the
	// clock of this node may have been set back.
	for _, ahead := range []time.Duration{0, -keepFor, keepFor} {
		more, err := e.requestsOfList(ctx, listID(owner, xid, hour.Add(ahead)))
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// requestsOfList returns those PAReqs of a list that are still remembered.
func (e *Engine) requestsOfList(ctx context.Context, id string) ([]store.Txn, error) {
	t, err := e.Store.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var l xidList
	if err := record.Open(e.Sealer, &t, &l); err != nil {
		return nil, err
	}
	var found []store.Txn
	for _, id := range l.IDs {
		switch t, err := e.Store.Get(ctx, id); {
		case err == nil:
			found = append(found, t)
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
	}
	return found, nil
}

// A mismatch is a PARes that is not the answer to the PAReq that it should be.
type mismatch struct{ elements []string }

func (m *mismatch) Error() string {
	return "differs from the PAReq in " + strings.Join(m.elements, ", ")
}

// errOtherPARes says that another PARes has been accepted for the PAReq.
var errOtherPARes = errors.New("another PARes came before for the PAReq")

// errSamePARes says that the very same PARes has been accepted before, so that nothing has
// to be written.
var errSamePARes = errors.New("mpi: the same PARes again")

// acceptOnce accepts a PARes as the answer to a PAReq, atomically: the first that agrees
// with it, and later only the same one again. It returns the last four digits of the card.
func (e *Engine) acceptOnce(ctx context.Context, was store.Txn, p *v1.Opened) (last4 string, err error) {
	digest, err := digestOf(&p.PARes)
	if err != nil {
		return "", err
	}
	var kept storedRequest
	err = e.Store.Update(ctx, was, func(t *store.Txn) error {
		var k storedRequest
		if err := record.Open(e.Sealer, t, &k); err != nil {
			return err
		}
		kept = k
		if differs := k.differences(&p.PARes, t.Scheme, p.Signature.Policy); len(differs) > 0 {
			return &mismatch{differs}
		}
		if t.State == checked {
			if !bytes.Equal(k.Used, digest) {
				return errOtherPARes
			}
			return errSamePARes
		}
		t.State, k.Used = checked, digest
		return record.Seal(e.Sealer, t, &k)
	})
	if errors.Is(err, errSamePARes) {
		err = nil
	}
	if err == nil {
		e.note(ctx, "cardHash", hex.EncodeToString(kept.CardHash))
		e.note(ctx, "reference", kept.Reference)
	}
	return kept.Last4, err
}

// differences names the elements in which a PARes differs from its PAReq (docs/api.md, M9).
func (k *storedRequest) differences(p *v1.PARes, scheme, signedUnder string) []string {
	var names []string
	for _, c := range []struct {
		name string
		same bool
	}{
		{"acqBIN", k.AcqBIN == p.AcqBIN}, {"merID", k.MerID == p.MerID}, {"xid", k.XID == plainXID(p.XID)},
		{"date", k.Date == p.Date}, {"purchAmount", k.Amount == p.Amount}, {"currency", k.Currency == p.Currency},
		{"exponent", k.Exponent == p.Exponent},
		{"pan", !hasCAVV(p.Status) || k.Last4 == p.Last4 && k.PANLength == p.PANLength},
		{"scheme", scheme == signedUnder},
	} {
		if !c.same {
			names = append(names, c.name)
		}
	}
	return names
}

// plainXID returns an xid in the form that PAReqs have. The last character of an xid has two unused bits. A PAReq is
// not signed, so the cardholder can change these bits, and the issuer then signs another text for the same 20 bytes.
func plainXID(xid string) string {
	raw, err := base64.StdEncoding.DecodeString(xid)
	if err != nil {
		return xid
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// digestOf returns a digest of all that is signed in a PARes.
func digestOf(p *v1.PARes) ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("mpi: digest: %w", err)
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}

// requestID is the id of a PAReq's transaction. The owner is part of it, so a PAReq of another merchant is not found.
func requestID(owner, messageID string) string { return "v1." + fingerprint(owner, messageID) }

// listID is the id of the list of PAReqs with one xid that were made in one hour.
func listID(owner, xid string, hour time.Time) string {
	return "v1x." + fingerprint(owner, xid, strconv.FormatInt(hour.Unix(), 10))
}

// fingerprint is a short name for parts of any length.
func fingerprint(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}

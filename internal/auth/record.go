package auth

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/transid"
	"github.com/openthreeds/threeds/message"
)

// A record is what a transaction keeps beside its state. It is sealed before
// the store sees it. It never holds a card number: of the AReq only the facts
// that later messages are checked against are kept, and where a further leg may
// follow the purchase, with a digest of the card.
type record struct {
	Version  string    // of the transaction
	Sent     int64     // when the AReq was about to leave, Unix milliseconds
	Until    int64     `json:",omitzero"` // from when on no more than the id is known, Unix milliseconds; 0: then nothing is
	AReq     []byte    // facts of the request, JSON
	Purchase *purchase `json:",omitzero"` // when a further leg may follow
	ARes     []byte    `json:",omitzero"` // facts of the answer
	RReq     []byte    `json:",omitzero"` // the result, byte for byte as it came
	Erro     []byte    `json:",omitzero"` // of the DS, which gave the transaction up

	Decoupled   bool     `json:",omitzero"` // the ARes said D
	Gone        bool     `json:",omitzero"` // the requestor seemed to have gone when the ARes came
	Undelivered bool     `json:",omitzero"` // the requestor was refused the ARes
	Refused     bool     `json:",omitzero"` // the DS was told that the result was not stored
	Changes     []string `json:",omitzero"` // what was normalised in the request
	Findings    []string `json:",omitzero"` // what the scheme asks for and the request lacked
}

// seal puts r into t, when all else of t is as it will be.
func (e *Engine) seal(t *store.Txn, r *record) error {
	plain, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("auth: record: %w", err)
	}
	t.Data = e.Sealer.Seal(t.Name(), plain)
	return nil
}

// unseal reads what seal wrote.
func (e *Engine) unseal(t *store.Txn) (*record, error) {
	plain, err := e.Sealer.Open(t.Name(), t.Data)
	if err != nil {
		return nil, fmt.Errorf("auth: record of %s: %w", t.ID, err)
	}
	r := new(record)
	if err := json.Unmarshal(plain, r); err != nil {
		return nil, fmt.Errorf("auth: record of %s: %w", t.ID, err)
	}
	return r, nil
}

// context makes of the kept facts what a later message is checked against.
func (r *record) context() (message.Context, error) {
	var c message.Context
	var err error
	if c.AReq, err = message.Parse(r.AReq, message.Limits{}); err != nil {
		return c, fmt.Errorf("auth: kept AReq: %w", err)
	}
	if len(r.ARes) > 0 {
		if c.ARes, err = message.Parse(r.ARes, message.Limits{}); err != nil {
			return c, fmt.Errorf("auth: kept ARes: %w", err)
		}
	}
	return c, nil
}

func (r *record) version() message.Version {
	v, ok := message.ParseVersion(r.Version)
	if !ok {
		return message.V220
	}
	return v
}

// lasts lets t, with r in it, count for d from now. Its id stays known for as
// long as it could be used again, which it says itself, for our timeouts may be
// raised: else a second AReq might leave under it (I5).
func (e *Engine) lasts(t *store.Txn, r *record, d time.Duration) {
	t.Expires, r.Until = e.in(d), 0
	usable := time.UnixMilli(r.Sent).Add(transid.Life(t.ID) + 2*transid.MaxSkew).UTC()
	if usable.After(t.Expires) {
		t.Expires, r.Until = usable, t.Expires.UnixMilli()
	}
}

// past reports whether of r's transaction only the id is still known.
func (e *Engine) past(r *record) bool { return r.Until != 0 && e.Now().UnixMilli() >= r.Until }

// in returns the store's form of a moment d from now: UTC, whole milliseconds.
func (e *Engine) in(d time.Duration) time.Time {
	return e.Now().Add(d).UTC().Truncate(time.Millisecond)
}

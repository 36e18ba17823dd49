package server

import (
	"context"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/state/idempotency"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// EraseFromJournal removes what belongs to the card or to the merchant of a query: from the journal, from the events
// for webhooks, and from the answers that are kept for an Idempotency-Key. The journal comes last, for it says which
// authentications are the card's: after an error the same call finds what is left.
func EraseFromJournal(ctx context.Context, j journal.Store, keys *journal.Keys, db store.Store, ring *keyring.Ring,
	q journal.Query) (done ops.Erased, err error) {
	q = journal.Query{Card: q.Card, Merchant: q.Merchant, By: q.By}
	if q.Card == "" && q.Merchant == "" {
		return done, errors.New("journal: name a card or a merchant to erase")
	}
	rows, ok := db.(store.Lister)
	if !ok {
		return done, errors.New("journal: the store does not list what it has")
	}
	var ids []string
	var cards [][]byte
	if q.Card != "" {
		// A record that somebody deleted from searches has events and answers, too.
		if err := journal.Mend(ctx, j); err != nil {
			return done, err
		}
		cards = keys.CardHashes(q.Card)
		if ids, err = recordIDs(ctx, j, q); err != nil {
			return done, err
		}
	}
	if done.Held, err = j.CountHeld(ctx, q); err != nil {
		return done, err
	}
	merchant := q.Merchant
	if q.Card != "" {
		merchant = "" // An erasure of a card at a merchant takes only what is about the card.
	}
	if done.Events, err = db.EraseEvents(ctx, merchant, ids); err != nil {
		return done, err
	}
	answers := &idempotency.Keeper{Store: db, Sealer: ring, Now: time.Now}
	if done.Answers, err = answers.Erase(ctx, rows, merchant, ids, cards); err != nil {
		return done, err
	}
	if done.Unforgotten, err = j.CountUnforgotten(ctx, q); err != nil {
		return done, err
	}
	if done.Authentications, done.Records, err = j.Erase(ctx, q); err != nil {
		return done, err
	}
	done.KeyFile, done.KeyLimit = keys.FileProblem(), keys.LimitNotice()
	files, err := journal.ArchivedFiles(ctx, j, keys)
	for _, f := range files {
		done.Unreached = append(done.Unreached, f.Name)
	}
	if journal.IsChanged(err) { // The evidence says what was changed in the seals.
		err = nil
	}
	return done, err
}

// recordIDs returns the ids of all records that a query finds.
func recordIDs(ctx context.Context, j journal.Store, q journal.Query) ([]string, error) {
	var ids []string
	for q.Limit = 1000; ; {
		page, err := j.Search(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Records {
			ids = append(ids, page.Records[i].ID)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return ids, nil
		}
	}
}

package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// An Authentication is one run of 3-D Secure as its owner sees it (docs/authentications.md).
type Authentication struct {
	ID             string
	Status         api.Status
	Reference      string // by which the requestor knows it; "" if there is none
	Created        time.Time
	Last4          string
	Scheme         string    // "" if no directory has the card
	Schemes        []string  // that hold the card, the preferred one first
	Defaulted      []string  // members that the server filled in
	BrowserExpires time.Time // while it waits for its browser: until when
	MessageVersion string
	Merchant       string // the name of its owner

	// What is bought, and at which merchant by the acquirer, as the AReq says it; "" where it does not.
	Amount, Currency, Exponent, AcquirerMerchant string

	ResultRefused *journal.Refusal // nil if no result was refused
	Outcome       *api.Outcome     // nil before the end
	Normalised    []api.Correction // what was changed in the request; of one that /auth began, without values
	// what the scheme asks for and the request lacked
	Findings   []*scheme.Finding
	Channel    string // deviceChannel
	ARes       []byte // as it came; nil when none has come
	RReq       []byte // as it came; nil when none has come
	IsForAgent bool   // an agent takes the steps of its browser
	MethodURL  string // the address of the 3DS Method that an agent is to run; "" if there is none, or it has run

	collected func() // records in the journal that the merchant has heard of the end; nil if that is not to be recorded
}

// Errors of [Engine.Authentication].
var (
	// ErrNoAuthentication says that there is no such authentication of this merchant, or none any more.
	ErrNoAuthentication = errors.New("auth: no such authentication")
	// ErrNoJournal says that there is no journal to search.
	ErrNoJournal = errors.New("auth: there is no journal")
	// ErrCursor says that a cursor is none that this search gave to this merchant.
	ErrCursor = errors.New("auth: not a cursor of this search")
)

// A Journal is what an engine reads of the journal: what was, for those who ask later. It decides nothing.
type Journal interface {
	Search(ctx context.Context, q journal.Query) (journal.Page, error)
	// Show returns journal.ErrNotFound for an id that it does not have.
	Show(ctx context.Context, id string) (journal.Detail, error)
}

// Authentication returns the authentication of an id to the merchant that began it, and to no other merchant. A foreign
// id takes as long as one that does not exist.
func (e *Engine) Authentication(ctx context.Context, acc *account.Account, id string) (*Authentication, error) {
	a, err := e.ReadAuthentication(ctx, acc, strings.ToLower(id))
	if err == nil && a.collected != nil {
		a.collected()
	}
	status, scheme := "", ""
	if a != nil {
		status, scheme = string(a.Status), a.Scheme
	}
	e.NoteEnd(ctx, "authentication", scheme, status)
	return a, err
}

// WaitForAuthentication is like Authentication, but returns only when the status is final. If ctx ends before, it
// returns the status as it is.
func (e *Engine) WaitForAuthentication(ctx context.Context, acc *account.Account, id string) (*Authentication, error) {
	id = strings.ToLower(id)
	var a *Authentication
	var err error
	e.RepeatUntil(ctx, id, func() bool {
		a, err = e.Authentication(context.WithoutCancel(ctx), acc, id)
		return err != nil || a.Status.IsFinal()
	})
	return a, err
}

// ReadAuthentication is [Engine.Authentication] for callers that record the end themselves.
func (e *Engine) ReadAuthentication(ctx context.Context, acc *account.Account, id string) (*Authentication, error) {
	t, rec, err := e.ReadOwned(ctx, acc, id)
	if errors.Is(err, ErrNoAuthentication) {
		return e.showAuthentication(ctx, acc, id)
	}
	if err != nil {
		return nil, err
	}
	if err := e.CheckPutBack(ctx, t, rec); err != nil {
		return nil, err
	}
	e.noteRecord(ctx, t, rec)
	status := e.StatusOf(t, rec)
	if status.IsFinal() && e.AreValuesGone(rec) {
		return e.showAuthentication(ctx, acc, id)
	}
	a, err := e.describe(t, rec, status)
	if err == nil && status.IsFinal() && rec.Page != nil {
		a.collected = func() { e.AddMoment(t, rec, journal.Collected, journal.Step{Step: "answered"}) }
	}
	return a, err
}

// journalTime is how long a request waits for the journal.
const journalTime = 10 * time.Second

// showAuthentication returns what the journal has about an authentication, to the merchant that began it. For any other
// merchant it asks the journal for a record that never exists.
func (e *Engine) showAuthentication(ctx context.Context, acc *account.Account, id string) (*Authentication, error) {
	if e.Journal == nil {
		return nil, ErrNoAuthentication
	}
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	d, err := e.Journal.Show(ctx, e.ownedRow(acc, id))
	switch {
	case errors.Is(err, journal.ErrNotFound),
		err == nil && (d.ID != id || d.Merchant != acc.Merchant.Name || !d.IsBegun()):
		return nil, ErrNoAuthentication
	case err != nil:
		return nil, e.StoreUnreachable(ctx, "journal not read", err, id)
	}
	return e.ofJournal(&d.Record), nil
}

// SearchAuthentications returns a page of a merchant's authentications from the journal, newest first, and the cursor
// of the next page. The cursor is good for the same merchant and the same query, on every node; only Limit may change.
// The errors are ErrNoJournal, ErrCursor and ErrStoreUnreachable.
func (e *Engine) SearchAuthentications(ctx context.Context, acc *account.Account,
	q journal.Query) ([]*Authentication, string, error) {
	if e.Journal == nil {
		return nil, "", ErrNoJournal
	}
	q.Merchant, q.Begun = acc.Merchant.Name, true
	name := cursorName(q)
	if q.Cursor != "" {
		cursor, err := e.openCursor(name, q.Cursor)
		if err != nil {
			return nil, "", err
		}
		q.Cursor = cursor
	}
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	page, err := e.Journal.Search(ctx, q)
	if err != nil {
		e.LogStoreFailure(ctx, "journal not searched", err)
		return nil, "", txn.ErrStoreUnreachable
	}
	all := make([]*Authentication, 0, len(page.Records))
	for i := range page.Records {
		if r := &page.Records[i]; r.Merchant == acc.Merchant.Name {
			all = append(all, e.ofJournal(r))
		}
	}
	if page.Next == "" {
		return all, "", nil
	}
	return all, base64.RawURLEncoding.EncodeToString(e.Sealer.Seal(name, []byte(page.Next))), nil
}

// cursorName is what the cursor of a search is sealed under: the merchant, and everything that the search asks for. So
// a cursor opens only for the same search of the same merchant.
func cursorName(q journal.Query) string {
	q.Limit, q.Cursor = 0, ""
	return fmt.Sprintf("cursor of %q", []string{
		q.Merchant, q.ID, q.Reference, q.Card, q.Last4, q.Scheme, q.ACS, q.Status, q.Result, q.Reason,
		strconv.FormatBool(q.Begun), timeText(q.From), timeText(q.To),
	})
}

// timeText writes a time as the journal compares it, and no time as "".
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// openCursor returns the journal's cursor in that of a search, or ErrCursor.
func (e *Engine) openCursor(name, cursor string) (string, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", ErrCursor
	}
	plain, err := e.Sealer.Open(name, sealed)
	if err != nil || !journal.ValidCursor(string(plain)) {
		return "", ErrCursor
	}
	return string(plain), nil
}

// ofJournal returns what a record says of an authentication: neither messages nor the authentication value.
func (e *Engine) ofJournal(r *journal.Record) *Authentication {
	rules := e.RulesOf(r.Card.Scheme)
	a := &Authentication{
		ID: r.ID, Status: api.Status(r.Status), Reference: r.Reference, Created: r.Created, Last4: r.Card.Last4,
		Scheme: r.Card.Scheme, MessageVersion: r.MessageVersion, Channel: r.DeviceChannel,
		Merchant: r.Merchant, AcquirerMerchant: r.AcquirerMerchant, Amount: r.Amount, Currency: r.Currency,
		Exponent: r.Exponent, ResultRefused: r.ResultRefused, Outcome: r.Outcome(rules), Findings: r.Findings(rules),
	}
	if a.Scheme != "" {
		a.Schemes = []string{a.Scheme}
	}
	return a
}

// ReadOwned reads the row of a transaction for the merchant that began it. For any other merchant it returns
// ErrNoAuthentication, after asking the store for a row that never exists. So a request for a transaction of another
// merchant takes as long as one for an unknown transaction. If the store cannot be reached, the error is
// ErrStoreUnreachable.
func (e *Engine) ReadOwned(ctx context.Context, acc *account.Account, id string) (*store.Txn, *txn.Record, error) {
	t, err := e.Store.Get(ctx, e.ownedRow(acc, id))
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && t.Owner != acc.Merchant.Name:
		return nil, nil, ErrNoAuthentication
	case err != nil:
		return nil, nil, e.StoreUnreachable(ctx, "transaction not read", err, id)
	}
	if t.State == txn.Second {
		return nil, nil, ErrNoAuthentication // the authentication is known by its first id
	}
	rec, err := e.Unseal(&t)
	return &t, rec, err
}

// ownedRow is the id of a row, or for any merchant but its owner that of a row that never exists.
func (e *Engine) ownedRow(acc *account.Account, id string) string {
	if !e.IDs.IsOwner(id, acc.Merchant.Name) {
		return "none." + id
	}
	return id
}

// describe makes of a row what its owner sees.
func (e *Engine) describe(t *store.Txn, rec *txn.Record, status api.Status) (*Authentication, error) {
	r, messages, err := e.journalRecord(t, rec, status)
	if err != nil {
		return nil, err
	}
	r.Unkept = rec.Unkept // also before the AReq leaves
	a := e.ofJournal(r)
	a.Defaulted, a.ARes, a.RReq, a.Normalised = rec.Defaulted, rec.ARes, rec.RReq, rec.Corrections
	if a.Outcome != nil {
		outcome.AddValues(a.Outcome, messages)
	}
	if rec.Schemes != nil {
		a.Schemes = rec.Schemes
	}
	if a.Normalised == nil {
		for _, text := range rec.Changes {
			element, what, _ := strings.Cut(text, ": ")
			a.Normalised = append(a.Normalised, api.Correction{Pointer: "/" + strings.ReplaceAll(element, ".", "/"), Rule: what})
		}
	}
	a.IsForAgent = rec.API == txn.AgentsAPI
	if rec.Agent != nil {
		if status == api.StatusRequiresBrowser {
			a.MethodURL = rec.Agent.MethodURL
		}
	} else if status == api.StatusRequiresBrowser && rec.Until != 0 {
		a.BrowserExpires = time.UnixMilli(rec.Until).UTC()
	}
	return a, nil
}

// AddEvent adds the event of a transaction to the change that brings it to its end: both are stored, or neither is. A
// challenge brings the event that its time is over. That event lies in the future, and is removed when a result comes.
func (e *Engine) AddEvent(t *store.Txn, rec *txn.Record) error {
	if e.Announcer == nil || !e.Announcer.Wants(t.Owner) {
		return nil
	}
	status, at := api.StatusFailed, e.Now()
	switch t.State {
	case txn.Final, txn.Result:
		status = api.StatusCompleted
	case txn.Challenge, txn.Waiting:
		if status, at = api.StatusExpired, t.Expires; rec.Until != 0 {
			at = time.UnixMilli(rec.Until)
		}
	case txn.Cancelled:
		status = api.StatusCancelled
	case txn.Sent: // if the process dies, no other event says that the claim is over
		at = time.UnixMilli(rec.Sent).Add(e.Timeouts.Authentication + txn.CommitTime + transid.MaxSkew)
	}
	a, err := e.describe(t, rec, status)
	if err != nil {
		return err
	}
	t.Event, err = e.Announcer.NewEvent(t.Owner, a, at)
	return err
}

// Notify wakes those who wait for a transaction to change, and starts the delivery of its event.
func (e *Engine) Notify(id string) {
	e.Wake(id)
	if e.Announcer != nil {
		e.Announcer.Announced()
	}
}

package operator

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// An Entry is one line of the audit trail: who did what, when and from where. No secret is in it, and no card number:
// Record writes "***" in the place of each.
type Entry struct {
	Seq    int64     `json:"seq"`
	At     time.Time `json:"at"`
	Who    string    `json:"who"` // token:NAME, passkey:NAME, key:HASH, cli:USER@HOST
	Role   Role      `json:"role,omitzero"`
	Group  string    `json:"group,omitzero"` // of merchants, if the person or the token sees only that
	From   string    `json:"from,omitzero"`
	Action string    `json:"action"` // such as key.create
	Object string    `json:"object,omitzero"`
	Before any       `json:"before,omitempty"`
	After  any       `json:"after,omitempty"`
	// Confirmed says how the person has confirmed a dangerous act: passkey or login.
	Confirmed string `json:"confirmed,omitzero"`
	// AllowedBy is the second person who has allowed the act, where the configuration asks for one.
	AllowedBy string `json:"allowedBy,omitzero"`
}

// appendTries is how often an entry is tried to be appended when other nodes append at the same time. One of those
// tries succeeds each time, so that only a node that is much slower than the others needs many.
const appendTries = 1000

// ErrBusy says that other nodes have appended to the audit trail all the time.
var ErrBusy = errors.New("operator: the audit trail is busy")

// Record appends an entry to the audit trail. Its Seq and At are set here. It is durable when Record has returned nil.
// It appends nothing while the keys cannot be read, see KeysFault of [Service].
//
// A service appends one entry at a time, in the order of the calls: those of many requests would otherwise take the
// place at the end from each other again and again.
func (s *Service) Record(ctx context.Context, e Entry) error {
	if s.KeysFault != nil {
		return s.KeysFault
	}
	s.appending.Lock()
	defer s.appending.Unlock()
	for range appendTries {
		if err := s.append(ctx, e); !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return ErrBusy
}

// append appends an entry. It returns store.ErrExists, and changes nothing, if another one was appended meanwhile.
func (s *Service) append(ctx context.Context, e Entry) error {
	last, err := s.Store.AuditEntries(ctx, store.AuditQuery{Limit: 1})
	if err != nil {
		return err
	}
	if len(last) == 0 {
		return s.appendAfter(ctx, &store.AuditEntry{}, e)
	}
	return s.appendAfter(ctx, &last[0], e)
}

// appendAfter is append for a caller who has seen the last entry. Before the first one that is the zero entry.
func (s *Service) appendAfter(ctx context.Context, last *store.AuditEntry, e Entry) error {
	e.Seq, e.At = last.Seq+1, s.Now().UTC().Truncate(time.Millisecond)
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("audit entry: %w", err)
	}
	data = cardnumber.ScrubJSON(data)
	return s.Store.AppendAudit(ctx,
		store.AuditEntry{Seq: e.Seq, At: e.At, Link: s.linkOf(e.Seq, LinkOf(last.Link), data), Data: data})
}

// saltLen is the length of the salt of an entry. A digest with a salt does not give away what somebody could guess.
const saltLen = 16

// linkOf returns what a store keeps as the link of an entry: a new salt, the link that follows from it, and its MAC.
func (s *Service) linkOf(seq int64, before, data []byte) []byte {
	salt := make([]byte, saltLen)
	rand.Read(salt) // it never fails, it ends the process
	link := journal.NextLink(before, journal.DigestOf(salt, data))
	return slices.Concat(salt, link, s.Keys.LinkMAC(journal.AuditChain, seq, link))
}

// LinkOf returns the link in what a store keeps as the link of an entry.
func LinkOf(kept []byte) []byte {
	_, link, _ := splitLink(kept)
	return link
}

// splitLink returns the salt, the link and its MAC of what a store keeps. Nothing is left of what
// somebody has cut short.
func splitLink(kept []byte) (salt, link, mac []byte) {
	n := min(saltLen, len(kept))
	m := min(n+sha256.Size, len(kept))
	return kept[:n], kept[n:m], kept[m:]
}

// A Query says which entries are wanted. The zero value of a field but Limit means any.
type Query struct {
	Who, Action, Object string
	From, To            time.Time // At is at or after From, and before To
	Before              int64     // Seq is less
	Limit               int
}

func (q *Query) wants(e *Entry) bool {
	return (q.From.IsZero() || !e.At.Before(q.From)) && (q.To.IsZero() || e.At.Before(q.To)) &&
		(q.Who == "" || q.Who == e.Who) && (q.Action == "" || q.Action == e.Action) &&
		(q.Object == "" || q.Object == e.Object)
}

// auditPage is how many entries are read at once.
const auditPage = 500

// Search returns the entries that a query asks for, the newest first.
func (s *Service) Search(ctx context.Context, q Query) ([]Entry, error) {
	all := []Entry{}
	page := store.AuditQuery{From: q.From, To: q.To, Before: q.Before, Limit: auditPage}
	for {
		rows, err := s.Store.AuditEntries(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			var e Entry
			if err := json.Unmarshal(row.Data, &e); err != nil {
				return nil, fmt.Errorf("audit entry %d: %w", row.Seq, err)
			}
			if !q.wants(&e) {
				continue
			}
			if all = append(all, e); len(all) == q.Limit {
				return all, nil
			}
		}
		if len(rows) < auditPage {
			return all, nil
		}
		page.Before = rows[len(rows)-1].Seq
	}
}

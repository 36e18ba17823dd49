package operator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

// An Entry is one line of the audit trail: who did what, when and from where. No secret and no card number is in it.
type Entry struct {
	Seq    int64     `json:"seq"`
	At     time.Time `json:"at"`
	Who    string    `json:"who"` // token:NAME, cli:USER@HOST
	Role   Role      `json:"role,omitzero"`
	From   string    `json:"from,omitzero"`
	Action string    `json:"action"` // such as key.create
	Object string    `json:"object,omitzero"`
	Before any       `json:"before,omitempty"`
	After  any       `json:"after,omitempty"`
}

// appendTries is how often an entry is tried to be appended when others append at the same time.
const appendTries = 50

// ErrBusy says that others have appended to the audit trail all the time.
var ErrBusy = errors.New("operator: the audit trail is busy")

// Record appends an entry to the audit trail. Its Seq and At are set here. It is durable when Record has returned nil.
func (s *Service) Record(ctx context.Context, e Entry) error {
	for range appendTries {
		last, err := s.Store.AuditEntries(ctx, store.AuditQuery{Limit: 1})
		if err != nil {
			return err
		}
		row := store.AuditEntry{Seq: 1, At: s.Now().UTC().Truncate(time.Millisecond)}
		var before []byte
		if len(last) > 0 {
			row.Seq, before = last[0].Seq+1, last[0].Link
		}
		e.Seq, e.At = row.Seq, row.At
		if row.Data, err = json.Marshal(e); err != nil {
			return fmt.Errorf("audit entry: %w", err)
		}
		row.Link = linkOf(before, row.Data)
		if err := s.Store.AppendAudit(ctx, row); !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return ErrBusy
}

// linkOf returns the link of an entry: SHA-256 over the link before it and the SHA-256 of its data.
func linkOf(before, data []byte) []byte {
	digest := sha256.Sum256(data)
	link := sha256.Sum256(append(bytes.Clone(before), digest[:]...))
	return link[:]
}

// A Query says which entries are wanted. The zero value of a field but Limit means any.
type Query struct {
	Who, Action, Object string
	From, To            time.Time // At is at or after From, and before To
	Before              int64     // Seq is less
	Limit               int
}

func (q *Query) wants(e *Entry) bool {
	return (q.Who == "" || q.Who == e.Who) && (q.Action == "" || q.Action == e.Action) &&
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

// A Line is one entry of an export, with what chains it to the one before: link is SHA-256 over the link before and digest,
// digest is SHA-256 over the bytes of entry.
type Line struct {
	Link   []byte          `json:"link"`
	Digest []byte          `json:"digest"`
	Entry  json.RawMessage `json:"entry"`
}

// A ChainError says at which entry the audit trail is not as it was written.
type ChainError struct{ Seq int64 }

func (e *ChainError) Error() string {
	return fmt.Sprintf("the audit trail was changed: entry %d does not fit the one before it", e.Seq)
}

// Export calls do with all entries, the oldest first, and checks that each fits the one before it. An entry that does not is
// a *ChainError, after all lines.
func (s *Service) Export(ctx context.Context, do func(Line) error) error {
	var before []byte
	var broken error
	page := store.AuditQuery{Oldest: true, Limit: auditPage}
	for {
		rows, err := s.Store.AuditEntries(ctx, page)
		if err != nil {
			return err
		}
		for _, row := range rows {
			isNext := row.Seq == page.After+1 && bytes.Equal(row.Link, linkOf(before, row.Data))
			if !isNext && broken == nil {
				broken = &ChainError{row.Seq}
			}
			digest := sha256.Sum256(row.Data)
			if err := do(Line{row.Link, digest[:], row.Data}); err != nil {
				return err
			}
			page.After, before = row.Seq, row.Link
		}
		if len(rows) < auditPage {
			return broken
		}
	}
}

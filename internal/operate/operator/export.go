package operator

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// signed is the action of an entry that has the signature of a day that is over.
const signed = "audit.sign"

// A daySignature is what an entry of the action signed says: up to the entry with this number, which has this link, the
// trail was signed by this key.
type daySignature struct {
	Seq       int64  `json:"seq"`
	Link      string `json:"link"` // hexadecimal
	KeyID     string `json:"keyId"`
	Signature []byte `json:"signature"`
}

// A ChainError says at which entry the audit trail is not as it was written.
type ChainError struct{ Seq int64 }

func (e *ChainError) Error() string {
	return fmt.Sprintf("the audit trail was changed: entry %d does not fit the one before it", e.Seq)
}

// Export writes the audit trail in the form of an export of the journal, the oldest entry first, and returns how many
// entries it has with their content. Those that the query does not want are links alone; its Before and Limit do not
// count. An entry that does not fit the one before it is a [*ChainError], after everything was written.
func (s *Service) Export(ctx context.Context, to io.Writer, keys *journal.Keys, q Query) (int, error) {
	t := trail{service: s, query: &q, signatures: map[int64][]byte{}}
	if err := t.readSignatures(ctx); err != nil {
		return 0, err
	}
	n, err := journal.WriteJSONLines(ctx, to, &t, keys, journal.Query{})
	if err == nil && t.broken != nil {
		err = t.broken
	}
	return n, err
}

// A trail is the audit trail during one export.
type trail struct {
	service    *Service
	query      *Query
	signatures map[int64][]byte // of days, by the number of their last entry
	broken     *ChainError      // the first entry that does not fit
}

// each calls do with all entries, the oldest first.
func (t *trail) each(ctx context.Context, do func(store.AuditEntry) error) error {
	page := store.AuditQuery{Oldest: true, Limit: auditPage}
	for {
		rows, err := t.service.Store.AuditEntries(ctx, page)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := do(row); err != nil {
				return err
			}
			page.After = row.Seq
		}
		if len(rows) < auditPage {
			return nil
		}
	}
}

// readSignatures reads the signatures of days, which are entries of the trail.
func (t *trail) readSignatures(ctx context.Context) error {
	return t.each(ctx, func(row store.AuditEntry) error {
		if day, ok := readSignature(row.Data); ok {
			t.signatures[day.Seq] = day.Signature
		}
		return nil
	})
}

// readSignature returns the signature in the data of an entry.
func readSignature(data []byte) (daySignature, bool) {
	var e struct {
		Action string       `json:"action"`
		After  daySignature `json:"after"`
	}
	if !bytes.Contains(data, []byte(signed)) || json.Unmarshal(data, &e) != nil || e.Action != signed {
		return daySignature{}, false
	}
	return e.After, true
}

// Export implements [journal.Exporter].
func (t *trail) Export(ctx context.Context, _ journal.Query, line func(journal.ExportedEntry) error) error {
	last, before := int64(0), []byte(nil)
	return t.each(ctx, func(row store.AuditEntry) error {
		salt, link := splitLink(row.Link)
		e := journal.ExportedEntry{
			Chain: journal.AuditChain, Seq: row.Seq, Link: link, Digest: journal.DigestOf(salt, row.Data), Salt: salt,
			Content: row.Data, Signature: t.signatures[row.Seq],
		}
		if t.broken == nil && (row.Seq != last+1 || !bytes.Equal(link, journal.NextLink(before, e.Digest))) {
			t.broken = &ChainError{row.Seq}
		}
		var entry Entry
		isReadable := json.Unmarshal(row.Data, &entry) == nil
		e.IsLeftOut = !isReadable || !t.query.wants(&entry)
		last, before = row.Seq, link
		return line(e)
	})
}

// SignDay signs the audit trail up to its last entry before a day, unless that was done. The signature is an entry of the
// trail itself, of the node who.
func (s *Service) SignDay(ctx context.Context, keys *journal.Keys, who string, day time.Time) error {
	s.appending.Lock()
	defer s.appending.Unlock()
	for range appendTries {
		last, newest, err := s.findUnsigned(ctx, day)
		if err != nil || last == nil {
			return err
		}
		_, link := splitLink(last.Link)
		after := daySignature{Seq: last.Seq, Link: hex.EncodeToString(link)}
		after.KeyID, after.Signature = keys.SignDay(journal.AuditChain, last.Seq, link)
		err = s.appendAfter(ctx, newest, Entry{Who: who, Action: signed, Object: last.At.Format(time.DateOnly), After: after})
		if !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return ErrBusy
}

// findUnsigned returns the last entry before a day, or nil if there is none or it was signed, and the newest entry of all.
// The entry of a signature needs none unless others stand between it and the entry that it is about.
func (s *Service) findUnsigned(ctx context.Context, day time.Time) (last, newest *store.AuditEntry, err error) {
	rows, err := s.Store.AuditEntries(ctx, store.AuditQuery{To: day, Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, nil, err
	}
	last, newest = &rows[0], &rows[0]
	if of, ok := readSignature(last.Data); ok && of.Seq == last.Seq-1 {
		return nil, nil, nil
	}
	page := store.AuditQuery{After: last.Seq, Oldest: true, Limit: auditPage}
	for {
		if rows, err = s.Store.AuditEntries(ctx, page); err != nil {
			return nil, nil, err
		}
		for i, row := range rows {
			if of, ok := readSignature(row.Data); ok && of.Seq == last.Seq {
				return nil, nil, nil
			}
			page.After, newest = row.Seq, &rows[i]
		}
		if len(rows) < auditPage {
			return last, newest, nil
		}
	}
}

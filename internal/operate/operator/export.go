package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// signed is the action of an entry that has the seal of days that are over.
const signed = journal.TrailSignature

// Export writes the audit trail in the form of an export of the journal, the oldest entry first, and returns how
// many entries it has with their content. Those that the query does not want are links alone; its Before and Limit
// do not count. An entry that is not as it was written is a [*journal.ChainError], after everything but the
// signature was written.
func (s *Service) Export(ctx context.Context, to io.Writer, keys *journal.Keys, q Query) (int, error) {
	t := trail{service: s, query: &q, seals: map[int64]*journal.Seal{}}
	if err := t.readSeals(ctx, keys); err != nil {
		return 0, err
	}
	return journal.WriteJSONLines(ctx, to, &t, keys, journal.Query{At: s.Now()})
}

// A trail is the audit trail during one export.
type trail struct {
	service *Service
	query   *Query
	seals   map[int64]*journal.Seal // of days, by the number of their last entry
}

// eachEntry calls do with all entries behind a number, the oldest first.
func (s *Service) eachEntry(ctx context.Context, after int64, do func(store.AuditEntry) error) error {
	page := store.AuditQuery{After: after, Oldest: true, Limit: auditPage}
	for {
		rows, err := s.Store.AuditEntries(ctx, page)
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

// EachLink calls do with the number and the link of each entry, the oldest first.
func (s *Service) EachLink(ctx context.Context, do func(seq int64, link []byte) error) error {
	return s.eachEntry(ctx, 0, func(row store.AuditEntry) error { return do(row.Seq, LinkOf(row.Link)) })
}

// readSeals reads the seals of days, which are entries of the trail.
func (t *trail) readSeals(ctx context.Context, keys *journal.Keys) error {
	return t.service.eachEntry(ctx, 0, func(row store.AuditEntry) error {
		if seal := readSeal(row.Data); seal != nil {
			if _, end, ok := keys.ReadDay(seal); ok {
				t.seals[end.Seq] = seal
			}
		}
		return nil
	})
}

// readSeal returns the seal in the data of an entry, or nil.
func readSeal(data []byte) *journal.Seal {
	var e struct {
		Action string       `json:"action"`
		After  journal.Seal `json:"after"`
	}
	if !bytes.Contains(data, []byte(signed)) || json.Unmarshal(data, &e) != nil || e.Action != signed {
		return nil
	}
	return &e.After
}

// chained returns an entry as the rules of all chains want it.
func chained(row *store.AuditEntry) journal.ExportedEntry {
	salt, link, mac := splitLink(row.Link)
	return journal.ExportedEntry{
		Chain: journal.AuditChain, Seq: row.Seq, Link: link, MAC: mac, Digest: journal.DigestOf(salt, row.Data), Salt: salt,
		Content: row.Data,
	}
}

// Export implements [journal.Exporter].
func (t *trail) Export(ctx context.Context, _ journal.Query, line func(journal.ExportedEntry) error) error {
	return t.service.eachEntry(ctx, 0, func(row store.AuditEntry) error {
		e := chained(&row)
		e.Day = t.seals[row.Seq]
		var entry Entry
		isReadable := json.Unmarshal(row.Data, &entry) == nil
		e.IsLeftOut = !isReadable || !t.query.wants(&entry)
		return line(e)
	})
}

// A checkedTrail is how far the audit trail was checked by this process.
type checkedTrail struct {
	mu      sync.Mutex
	end     journal.ChainEnd
	first   string           // the day of the first entry
	lastDay string           // the last day that was signed
	signed  journal.ChainEnd // the end of the trail that was signed last

	expected journal.ChainEnd // how far the trail has come, as others know it
}

// ExpectTrail says how far the audit trail has come, as the seals of the journal have it. A trail that is shorter, or
// another one, is not as it was written.
func (s *Service) ExpectTrail(end journal.ChainEnd) {
	c := &s.checked
	c.mu.Lock()
	defer c.mu.Unlock()
	if end.Seq <= c.expected.Seq {
		return
	}
	c.expected = end
	if end.Seq <= c.end.Seq {
		c.end = journal.ChainEnd{} // the next check begins with the first entry
	}
}

// CheckTrail checks what came to the audit trail since the last call, and that what was checked before is still there.
// It returns the end of the trail. What is not as it was written is a [*journal.ChainError], also the next time.
func (s *Service) CheckTrail(ctx context.Context) (journal.ChainEnd, error) {
	s.checked.mu.Lock()
	defer s.checked.mu.Unlock()
	return s.checkTrail(ctx)
}

// checkWholeTrail is CheckTrail from the first entry on.
func (s *Service) checkWholeTrail(ctx context.Context) (journal.ChainEnd, error) {
	c := &s.checked
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end.Seq > c.expected.Seq {
		c.expected = c.end
	}
	c.end = journal.ChainEnd{}
	return s.checkTrail(ctx)
}

// checkTrail is CheckTrail for a caller who has the lock.
func (s *Service) checkTrail(ctx context.Context) (journal.ChainEnd, error) {
	c := &s.checked
	was := c.end
	var check *journal.ChainCheck
	if was.Seq == 0 {
		check = s.Keys.NewChainCheck(journal.ChainEnd{Chain: journal.AuditChain})
	}
	err := s.eachEntry(ctx, max(was.Seq-1, 0), func(row store.AuditEntry) error {
		e := chained(&row)
		if check == nil { // the last one that was checked
			if e.Seq != was.Seq || !bytes.Equal(e.Link, was.Link) {
				return &journal.ChainError{Chain: journal.AuditChain, Seq: was.Seq, What: "is not there any more"}
			}
			check = s.Keys.NewChainCheck(was)
			return nil
		}
		if err := check.Next(&e); err != nil {
			return err
		}
		if e.Seq == c.expected.Seq && !bytes.Equal(e.Link, c.expected.Link) {
			return &journal.ChainError{Chain: journal.AuditChain, Seq: e.Seq, What: "is another one than before"}
		}
		c.note(s.Keys, &row)
		c.end = check.ChainEnd
		return nil
	})
	if gone := max(was.Seq, c.expected.Seq); err == nil && (check == nil || c.end.Seq < gone) {
		err = &journal.ChainError{Chain: journal.AuditChain, Seq: gone, What: "is not there any more"}
	}
	return c.end, err
}

// note notes what an entry says of days that were signed.
func (c *checkedTrail) note(keys *journal.Keys, row *store.AuditEntry) {
	if c.first == "" {
		c.first = row.At.UTC().Format(time.DateOnly)
	}
	if seal := readSeal(row.Data); seal != nil {
		if last, end, ok := keys.ReadDay(seal); ok {
			c.lastDay, c.signed = last, end
		}
	}
}

// SignDay checks the audit trail, and signs it up to its last entry before a day, unless that was done or nothing came
// but the last signature. The seal is an entry of the trail itself, of the node who. A trail that is not as it was
// written is not signed.
func (s *Service) SignDay(ctx context.Context, who string, day time.Time) error {
	s.appending.Lock()
	defer s.appending.Unlock()
	for range appendTries {
		if _, err := s.CheckTrail(ctx); err != nil {
			return err
		}
		last, newest, err := s.findUnsigned(ctx, day)
		if err != nil || last == nil {
			return err
		}
		if _, err := s.checkWholeTrail(ctx); err != nil {
			return err
		}
		first, until := s.checked.first, day.AddDate(0, 0, -1).UTC().Format(time.DateOnly)
		if s.checked.lastDay != "" {
			first = dayBehind(s.checked.lastDay)
		}
		_, link, _ := splitLink(last.Link)
		seal := s.Keys.SignDay(first, until,
			journal.ChainEnd{Chain: journal.AuditChain, Seq: last.Seq, Link: link}, s.Now(), who)
		err = s.appendAfter(ctx, newest, Entry{Who: who, Action: signed, Object: last.At.Format(time.DateOnly), After: seal})
		if !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return ErrBusy
}

// dayBehind returns the day behind one.
func dayBehind(day string) string {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return at.AddDate(0, 0, 1).Format(time.DateOnly)
}

// findUnsigned returns the last entry before a day, or nil if there is none or it was signed, and the newest entry of
// all. The entry of a signature needs none unless others stand between it and the entry that it is about.
func (s *Service) findUnsigned(ctx context.Context, day time.Time) (last, newest *store.AuditEntry, err error) {
	rows, err := s.Store.AuditEntries(ctx, store.AuditQuery{To: day, Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, nil, err
	}
	last = &rows[0]
	if last.Seq <= s.checked.signed.Seq || readSeal(last.Data) != nil && last.Seq == s.checked.signed.Seq+1 {
		return nil, nil, nil
	}
	all, err := s.Store.AuditEntries(ctx, store.AuditQuery{Limit: 1})
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	return last, &all[0], nil
}

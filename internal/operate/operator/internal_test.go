package operator

import (
	"context"
	"encoding/json"

	"github.com/openthreeds/threeds/internal/state/store"
)

// RecordUnmasked is Record as earlier releases had it.
func (s *Service) RecordUnmasked(ctx context.Context, e Entry) error {
	last, err := s.Store.AuditEntries(ctx, store.AuditQuery{Limit: 1})
	if err != nil {
		return err
	}
	before := &store.AuditEntry{}
	if len(last) > 0 {
		before = &last[0]
	}
	e.Seq, e.At = before.Seq+1, s.Now().UTC()
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return s.Store.AppendAudit(ctx, store.AuditEntry{Seq: e.Seq, At: e.At, Link: linkOf(LinkOf(before.Link), data), Data: data})
}

// DigestOf returns the digest of an entry.
func DigestOf(row *store.AuditEntry) []byte { return append([]byte(nil), digestOf(row)...) }

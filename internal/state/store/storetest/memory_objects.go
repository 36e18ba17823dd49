package storetest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// copyObject returns a copy of o as the contract wants it to be read.
func copyObject(o store.Object) store.Object {
	o.Data = bytes.Clone(o.Data)
	if !o.Expires.IsZero() {
		o.Expires = o.Expires.UTC().Truncate(time.Millisecond)
	}
	return o
}

// liveObject returns an object that has not expired. s.mu is held.
func (s *Memory) liveObject(kind, id string) (store.Object, bool) {
	o, ok := s.objects[[2]string{kind, id}]
	return o, ok && (o.Expires.IsZero() || o.Expires.After(s.now()))
}

// countDisabled changes the mark of the keys if an object of the kind counts for it. s.mu is held.
func (s *Memory) countDisabled(kind string) {
	if kind == store.DisabledObjects {
		s.changes++
	}
}

// AddObject implements [store.Objects].
func (s *Memory) AddObject(ctx context.Context, o store.Object) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, taken := s.liveObject(o.Kind, o.ID); taken {
		return store.ErrExists
	}
	s.objects[[2]string{o.Kind, o.ID}] = copyObject(o)
	s.countDisabled(o.Kind)
	return nil
}

// Object implements [store.Objects].
func (s *Memory) Object(ctx context.Context, kind, id string) (store.Object, error) {
	if err := s.lock(ctx); err != nil {
		return store.Object{}, err
	}
	defer s.mu.Unlock()
	o, ok := s.liveObject(kind, id)
	if !ok {
		return store.Object{}, store.ErrNotFound
	}
	return copyObject(o), nil
}

// Objects implements [store.Objects].
func (s *Memory) Objects(ctx context.Context, kind string) (all []store.Object, err error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for key := range s.objects {
		if o, ok := s.liveObject(key[0], key[1]); ok && o.Kind == kind {
			all = append(all, copyObject(o))
		}
	}
	slices.SortFunc(all, func(a, b store.Object) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// ChangeObject implements [store.Objects].
func (s *Memory) ChangeObject(ctx context.Context, o store.Object, was []byte) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if now, ok := s.liveObject(o.Kind, o.ID); !ok || !bytes.Equal(now.Data, was) {
		return store.ErrNotFound
	}
	s.objects[[2]string{o.Kind, o.ID}] = copyObject(o)
	s.countDisabled(o.Kind)
	return nil
}

// RemoveObject implements [store.Objects].
func (s *Memory) RemoveObject(ctx context.Context, kind, id string) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, ok := s.liveObject(kind, id); !ok {
		return store.ErrNotFound
	}
	delete(s.objects, [2]string{kind, id})
	s.countDisabled(kind)
	return nil
}

// SweepObjects implements [store.Objects].
func (s *Memory) SweepObjects(ctx context.Context, now time.Time) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for key, o := range s.objects {
		if !o.Expires.IsZero() && !o.Expires.After(now) && !o.Expires.After(s.now()) {
			delete(s.objects, key)
		}
	}
	return nil
}

// AppendAudit implements [store.Audit].
func (s *Memory) AppendAudit(ctx context.Context, e store.AuditEntry) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if e.Seq != int64(len(s.audit))+1 {
		return store.ErrExists
	}
	e.Link, e.Data, e.At = bytes.Clone(e.Link), bytes.Clone(e.Data), e.At.UTC().Truncate(time.Millisecond)
	s.audit = append(s.audit, e)
	return nil
}

// AuditEntries implements [store.Audit].
func (s *Memory) AuditEntries(ctx context.Context, q store.AuditQuery) (all []store.AuditEntry, err error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	from, to := q.Span()
	after, before := q.Bounds()
	inOrder := slices.Backward(s.audit)
	if q.Oldest {
		inOrder = slices.All(s.audit)
	}
	for _, e := range inOrder {
		if len(all) >= q.Limit {
			break
		}
		if at := e.At.UnixMilli(); e.Seq > after && e.Seq < before && at >= from && at < to {
			e.Link, e.Data = bytes.Clone(e.Link), bytes.Clone(e.Data)
			all = append(all, e)
		}
	}
	return all, nil
}

package storetest

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A holding is the newest lease of a name.
type holding struct {
	store.Lease
	released bool
}

type snapshot struct {
	store.Snapshot
	content []byte // never changes
}

func (s snapshot) ownCopy() store.Snapshot {
	s.Created = s.Created.UTC().Truncate(time.Millisecond)
	s.Note = bytes.Clone(s.Note)
	return s.Snapshot
}

// Acquire implements [store.Store].
func (s *Memory) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	if err := s.lock(ctx); err != nil {
		return store.Lease{}, err
	}
	defer s.mu.Unlock()
	now := s.now()
	l := s.leases[name]
	over := l.released || !now.Before(l.Expires)
	if !over && l.Holder != holder {
		return store.Lease{}, store.ErrHeld
	}
	token := l.Token
	if over {
		token++
	}
	l = holding{Lease: store.Lease{Name: name, Holder: holder, Token: token, Expires: expiryOf(now, ttl)}}
	s.leases[name] = l
	return l.Lease, nil
}

// Release implements [store.Store].
func (s *Memory) Release(ctx context.Context, l store.Lease) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.fenced(l) == nil {
		newest := s.leases[l.Name]
		newest.released = true
		s.leases[l.Name] = newest
	}
	return nil
}

// fenced returns ErrFenced unless l is good for writing. s.mu is held.
func (s *Memory) fenced(l store.Lease) error {
	newest, ok := s.leases[l.Name]
	if !ok || newest.released || newest.Token != l.Token || newest.Holder != l.Holder {
		return store.ErrFenced
	}
	return nil
}

// PutSnapshot implements [store.Store].
func (s *Memory) PutSnapshot(ctx context.Context, put store.Snapshot, lease store.Lease, content io.Reader, keep int) error {
	if len(put.Note) > store.MaxNote {
		return store.ErrTooLarge
	}
	upload, err := s.beginUpload(ctx, put, lease)
	if err != nil {
		return err
	}
	defer s.puts.Done()
	var data bytes.Buffer
	if err := readAll(ctx, &data, content); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayPut(put, lease); err != nil {
		return err
	}
	if s.uploads[put.Scheme] != upload {
		return store.ErrFenced
	}
	put.Size = int64(data.Len())
	added := snapshot{put, data.Bytes()}
	added.Snapshot = added.ownCopy()
	all := slices.Insert(s.snapshots[put.Scheme], 0, added)
	s.snapshots[put.Scheme] = all[:min(len(all), max(1, keep))]
	return nil
}

// beginUpload numbers a new upload; an earlier one that is still under way will be refused. If there is no error, the
// caller has to call s.puts.Done at the end.
func (s *Memory) beginUpload(ctx context.Context, put store.Snapshot, lease store.Lease) (int64, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	if err := s.mayPut(put, lease); err != nil {
		return 0, err
	}
	s.puts.Add(1)
	s.uploads[put.Scheme]++
	return s.uploads[put.Scheme], nil
}

// mayPut returns an error unless the lease and the generation are good. s.mu is
// held.
func (s *Memory) mayPut(put store.Snapshot, lease store.Lease) error {
	if err := s.fenced(lease); err != nil {
		return err
	}
	if all := s.snapshots[put.Scheme]; len(all) > 0 && all[0].Generation >= put.Generation {
		return store.ErrExists
	}
	return nil
}

// readAll reads the content into data. It stops when the context ends, too.
func readAll(ctx context.Context, data *bytes.Buffer, content io.Reader) error {
	buf := make([]byte, 16<<10)
	for {
		n, err := content.Read(buf)
		data.Write(buf[:n])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == io.EOF { // a wrapped one is an error
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Snapshots implements [store.Store].
func (s *Memory) Snapshots(ctx context.Context, scheme string) ([]store.Snapshot, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var all []store.Snapshot
	for _, kept := range s.snapshots[scheme] {
		all = append(all, kept.ownCopy())
	}
	return all, nil
}

// OpenSnapshot implements [store.Store].
func (s *Memory) OpenSnapshot(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for _, kept := range s.snapshots[scheme] {
		if kept.Generation == generation {
			return &memoryReader{ctx: ctx, s: s, content: bytes.NewReader(kept.content)}, nil
		}
	}
	return nil, store.ErrNotFound
}

// A memoryReader reads a snapshot to its end, even if it is removed meanwhile.
type memoryReader struct {
	ctx     context.Context
	s       *Memory
	content *bytes.Reader
	closed  bool
}

func (r *memoryReader) Read(p []byte) (int, error) {
	if r.closed {
		return 0, fs.ErrClosed
	}
	if err := r.s.lock(r.ctx); err != nil {
		return 0, err
	}
	defer r.s.mu.Unlock()
	return r.content.Read(p)
}

func (r *memoryReader) Close() error {
	r.closed = true
	return nil
}

// PutState implements [store.Store].
func (s *Memory) PutState(ctx context.Context, key string, value []byte, lease store.Lease) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if len(value) > store.MaxValue {
		return store.ErrTooLarge
	}
	if err := s.fenced(lease); err != nil {
		return err
	}
	s.states[key] = bytes.Clone(value)
	return nil
}

// State implements [store.Store].
func (s *Memory) State(ctx context.Context, key string) ([]byte, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	value, ok := s.states[key]
	if !ok {
		return nil, store.ErrNotFound
	}
	return bytes.Clone(value), nil
}

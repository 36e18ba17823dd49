package server

import (
	"cmp"
	"context"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/rotation"
)

// useRing gives other secrets to all runtimes, also to those that drain.
func (s *Server) useRing(ring *keyring.Ring) {
	was := s.ring.Swap(ring)
	s.apiKeys.SetRing(ring)
	if was == nil || was.KeyIDs().Current != ring.KeyIDs().Current {
		s.resealSoon()
	}
}

// resealSoon makes keepObjects seal the objects of operators and merchants again.
func (s *Server) resealSoon() {
	select {
	case s.resealNow <- struct{}{}:
	default: // it is to begin anyway
	}
}

// followRotations makes the server take part in rotations of a key file. Call it before Run. The server calls wrote
// after it has replaced the file.
func (s *Server) followRotations(ctx context.Context, file string, wrote func()) {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	name := cmp.Or(host, "unknown host") + " " + s.cfg.API.Addr().String()
	s.follower = rotation.NewFollower(watchedStore{s.db, &s.writes}, file, name, s.ring.Load(), s.cfg.Log,
		s.useRing, wrote)
	s.follower.Status = s.status
	s.noteProblems()
	s.follower.Start(ctx)
}

// countNodes returns how many nodes serve with the store, as far as this one knows.
func (s *Server) countNodes() int {
	if s.follower == nil {
		return 1
	}
	return s.follower.CountNodes()
}

// setFileRing puts the secrets of a key file into use that was read again.
func (s *Server) setFileRing(ring *keyring.Ring) {
	if s.follower == nil {
		s.useRing(ring)
		return
	}
	s.follower.SetFile(ring)
}

// A sealer is the key ring in use. It counts the records that do not open.
type sealer struct {
	ring    *atomic.Pointer[keyring.Ring]
	refused *atomic.Uint64
}

func (s sealer) Seal(name string, plain []byte) []byte { return s.ring.Load().Seal(name, plain) }

func (s sealer) Open(name string, sealed []byte) ([]byte, error) {
	plain, err := s.ring.Load().Open(name, sealed)
	if err != nil {
		s.refused.Add(1)
	}
	return plain, err
}

func (s sealer) Digest(data string) []byte { return s.ring.Load().Digest(data) }

func (s sealer) IsDigest(digest []byte, data string) bool {
	return s.ring.Load().IsDigest(digest, data)
}

// transIDs are the keys of transaction ids of the key ring in use.
type transIDs struct{ ring *atomic.Pointer[keyring.Ring] }

func (t transIDs) New(now time.Time, life time.Duration, rand io.Reader, scheme transid.Scheme,
	owner, pan string) string {
	return t.ring.Load().ID().New(now, life, rand, scheme, owner, pan)
}

func (t transIDs) Check(id string, now time.Time, maxAge time.Duration, owner, pan string) (transid.Info, error) {
	return t.ring.Load().ID().Check(id, now, maxAge, owner, pan)
}

func (t transIDs) IsOwner(id, owner string) bool { return t.ring.Load().ID().IsOwner(id, owner) }

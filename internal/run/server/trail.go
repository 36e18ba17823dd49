package server

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/edge/console"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// loadTrailKeys returns the keys that sign the audit trail: those of the journal, or without one those of its file.
// What keeps a server from starting is the same as in newJournal.
func (s *Server) loadTrailKeys() (*journal.Keys, error) {
	switch {
	case s.journal != nil:
		return s.journal.Keys, nil
	case s.cfg.Journal != nil || s.cfg.TrailKeys == "":
		return nil, nil // Where the keys of the journal cannot be read, newJournal has said so.
	}
	return s.readJournalKeys(journal.KeyFile{Path: s.cfg.TrailKeys, Dir: s.cfg.StoreURL.Dir, Vault: s.cfg.Vault},
		"the audit trail is not signed")
}

// signTrail checks the audit trail each minute, and signs its days that are over, until ctx ends.
// Its end goes to the log.
func (s *Server) signTrail(ctx context.Context) {
	if s.trailKeys == nil {
		return
	}
	wait := time.Second // until the journal was read
	for isRunning := true; isRunning; isRunning = tasks.Sleep(ctx, wait) {
		err := s.noteTrailEnd(ctx)
		if err == nil && s.isTrailExpected() {
			wait = time.Minute
			err = s.operators.SignDay(ctx, nodeActor(), s.timestamp().UTC().Truncate(24*time.Hour))
		}
		changed, isChanged := errors.AsType[*journal.ChainError](err)
		switch {
		case isChanged:
			if s.trailFault.Swap(changed) == nil {
				s.cfg.Log.Error("audit trail changed in the store", "err", changed)
			}
		case err != nil && ctx.Err() == nil:
			s.cfg.Log.Warn("audit trail not signed", "err", err)
		}
	}
}

// isTrailExpected reports whether it is known how far the audit trail has come by the seals of the journal. Without a
// journal there are none.
func (s *Server) isTrailExpected() bool {
	if s.journal == nil {
		return true
	}
	h, ok := s.journal.Head()
	if ok && h.Trail != nil {
		s.operators.ExpectTrail(*h.Trail)
	}
	return ok
}

// noteTrailEnd checks the audit trail, and writes its end to the log when it has grown.
func (s *Server) noteTrailEnd(ctx context.Context) error {
	end, err := s.operators.CheckTrail(ctx)
	if was := s.trailHead.Load(); err == nil && end.Seq > 0 && (was == nil || was.Seq != end.Seq) {
		s.trailHead.Store(&end)
		s.cfg.Log.Info("audit trail head", "number", end.Seq, "link", hex.EncodeToString(end.Link))
	}
	return err
}

// trailEnd returns the end of the audit trail for the heads of the journal; nil when the trail is
// not as it was written.
func (s *Server) trailEnd(ctx context.Context) *journal.ChainEnd {
	end, err := s.operators.CheckTrail(ctx)
	if err != nil || end.Seq == 0 {
		return nil
	}
	return &end
}

// trailCondition says whether the audit trail is as it was written.
func (s *Server) trailCondition() console.Condition {
	return console.Condition{Name: "audit trail", Check: func() (string, bool) {
		if fault := s.trailFault.Load(); fault != nil {
			return fault.Error(), true
		}
		return "", true
	}}
}

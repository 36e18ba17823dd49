package operator

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A Follower writes the entries of the audit trail as lines while others add them. The lines are those of an export,
// the oldest entry first. A reader that has the line of an entry can continue after its number. Such a reader misses no
// entry, and may get one twice: two lines with the same number are the same entry.
type Follower struct {
	Service *Service // Service has the keys under which entries are checked before they are written.
	From    int64    // From is the number of the last entry that the reader has; 0 means that the reader has none.
	To      io.Writer
	// Wait returns when Run should look for new entries. With nil Run ends after the newest entry.
	Wait func(ctx context.Context) error
}

// Run writes until its context ends, or until an entry is not as it was written, which it returns as a
// [*journal.ChainError].
func (f *Follower) Run(ctx context.Context) error {
	end := journal.ChainEnd{Chain: journal.AuditChain}
	for {
		var err error
		if end, err = f.Service.EachChecked(ctx, end, func(e *journal.ExportedEntry, fault error) error {
			if fault != nil || e.Seq <= f.From {
				return fault
			}
			return f.write(e)
		}); err != nil {
			return err
		}
		if f.From > end.Seq {
			return fmt.Errorf("audit trail: there is no entry %d, the newest is %d: is this another store?", f.From, end.Seq)
		}
		if f.Wait == nil {
			return nil
		}
		if err := f.Wait(ctx); err != nil {
			return err
		}
	}
}

// write writes the line of an entry.
func (f *Follower) write(e *journal.ExportedEntry) error {
	line, err := e.Line()
	if err == nil {
		_, err = f.To.Write(line)
	}
	return err
}

// EachChecked checks the entries behind an end, calls do with each, the oldest first, and returns the end that it has
// come to. The fault of an entry that is not as it was written is a [*journal.ChainError]. The error is one, too, when
// the entry at the given end is not there any more. An error of do is returned as it is.
func (s *Service) EachChecked(
	ctx context.Context, after journal.ChainEnd, do func(e *journal.ExportedEntry, fault error) error,
) (journal.ChainEnd, error) {
	check, isThere := s.Keys.NewChainCheck(after), after.Seq == 0
	err := s.eachEntry(ctx, max(after.Seq-1, 0), func(row store.AuditEntry) error {
		e := chained(&row)
		if !isThere {
			if e.Seq != after.Seq || !bytes.Equal(e.Link, after.Link) {
				return goneError(after.Seq)
			}
			isThere = true
			return nil
		}
		fault := check.Next(&e)
		return do(&e, fault)
	})
	if err == nil && !isThere {
		err = goneError(after.Seq)
	}
	return check.ChainEnd, err
}

// goneError says that an entry that was seen before is gone, or is another one.
func goneError(seq int64) error {
	return &journal.ChainError{Chain: journal.AuditChain, Seq: seq, What: "is not there any more"}
}

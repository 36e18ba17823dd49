package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// A Follower writes the entries of a journal as lines while servers add them. The lines are those of an export. It
// writes the entries that a seal names, and then the seal. A reader that has the line of a seal has all entries up to
// it, and can continue after its number. Such a reader misses no entry, and may get one twice: two lines with the same
// chain and number are the same entry. A head names new entries within about a minute.
type Follower struct {
	Store Store
	Keys  *Keys
	From  int64 // From is the number of the last seal that the reader has; 0 means that the reader has none.
	To    io.Writer
	// Wait returns when Run should look for new seals. With nil Run ends after the newest seal.
	Wait func(ctx context.Context) error

	out    *bufio.Writer
	parts  evidenceParts
	newest known // newest is what all seals say.
	known  known // known is what the seals say that were written.
}

// Run writes until its context ends, or until something is not as it was written, which it returns.
func (f *Follower) Run(ctx context.Context) error {
	parts, ok := f.Store.(evidenceParts)
	if !ok {
		return errors.New("journal: this kind of store cannot be followed")
	}
	f.out, f.parts, f.newest, f.known = bufio.NewWriter(f.To), parts, newKnown(), newKnown()
	for {
		if err := errors.Join(f.writeFresh(ctx), f.out.Flush()); err != nil {
			return err
		}
		if f.From > f.newest.n {
			return fmt.Errorf("journal: there is no seal %d, the newest is %d: is this another journal?", f.From, f.newest.n)
		}
		if f.Wait == nil {
			return nil
		}
		if err := f.Wait(ctx); err != nil {
			return err
		}
	}
}

// writeFresh writes the seals that are new since its last call, and their entries.
func (f *Follower) writeFresh(ctx context.Context) error {
	var fresh []Seal
	if err := f.Store.ReadSeals(ctx, f.newest.n+1, func(s Seal) error {
		if what := f.newest.add(&s); what != "" {
			return &faultError{what}
		}
		if !s.isSignedBy(f.Keys.publicKeys()) {
			return &faultError{fmt.Sprintf("seal %d is not signed by a key of this journal", s.N)}
		}
		fresh = append(fresh, s)
		return nil
	}); err != nil {
		return err
	}
	if f.newest.first > max(f.newest.kept, 1) {
		return &faultError{fmt.Sprintf("the seals before %d are gone", f.newest.first)}
	}
	for i := range fresh {
		if err := f.writeSeal(ctx, &fresh[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeSeal writes the entries that a seal names, and the seal.
func (f *Follower) writeSeal(ctx context.Context, s *Seal) error {
	said, err := parseSeal(s.Text)
	if err != nil {
		return err
	}
	if s.N > f.From {
		for _, end := range said.chains {
			if err := f.writeUntil(ctx, end); err != nil {
				return err
			}
		}
		if err := f.put(s.line("seal")); err != nil {
			return err
		}
	}
	if what := f.known.add(s); what != "" {
		return &faultError{what}
	}
	return nil
}

// writeUntil writes the entries of a chain up to an end, after those that earlier seals name. It leaves out the entries
// of days that are archived, or older than the journal keeps.
func (f *Follower) writeUntil(ctx context.Context, end ChainEnd) error {
	if end.Chain == AuditChain || !f.newest.isHere(end.Chain) {
		return nil
	}
	after := ChainEnd{Chain: end.Chain}
	if k := f.known.chains[end.Chain]; k != nil {
		after = k.end()
	}
	day := dayOfChain(end.Chain)
	db, err := f.parts.partOf(ctx, day)
	if err != nil {
		return err
	}
	check := f.Keys.NewChainCheck(after)
	check.isErased = func(seq int64) bool { return f.newest.isErased(end.Chain, seq) }
	if db != nil {
		if err := db.exportChain(ctx, after, day, end.Seq, false, func(e ExportedEntry) error {
			// An erasure may have removed the content since the seals were read.
			if e.isUnexplained(check) {
				if err := f.refreshGone(ctx); err != nil {
					return err
				}
			}
			if err := check.Next(&e); err != nil {
				return err
			}
			return f.put(e.line(false))
		}); err != nil {
			return err
		}
	}
	if check.Seq != end.Seq || !bytes.Equal(check.Link, end.Link) {
		if err := f.refreshGone(ctx); err != nil || !f.newest.isHere(end.Chain) { // it may have been archived just now
			return err
		}
		return &faultError{fmt.Sprintf("the chain %s has %d entries, and a seal says %d", end.Chain, check.Seq, end.Seq)}
	}
	return nil
}

// ErrSealGone says that a seal that was read before is not there any more.
var ErrSealGone = errors.New("journal: a seal that was read before is not there any more")

// A SealNote is what [EachSeal] says of a seal.
type SealNote struct {
	Kind  string    // Kind is "unreadable" when the text cannot be read.
	At    time.Time // At is when the seal was made; zero when the text cannot be read.
	Fault string    // Fault says how the seal is not as it was written; "" means that it is.
}

// EachSeal checks the seals behind a head, of which only the number and the hash count, and calls do with each. Number
// 0 is the head before the first seal that is kept. The error is ErrSealGone when the seal of the head is not there. An
// error of do is returned as it is.
func EachSeal(ctx context.Context, st Store, keys *Keys, after Head, do func(*Seal, SealNote) error) error {
	last, isThere := after, after.N == 0
	err := st.ReadSeals(ctx, after.N, func(s Seal) error {
		if !isThere {
			if s.N != after.N || !bytes.Equal(s.Hash(), after.Hash) {
				return ErrSealGone
			}
			isThere = true
			return nil
		}
		note := SealNote{Kind: "unreadable", Fault: "the text cannot be read"}
		if said, err := parseSeal(s.Text); err == nil {
			note = SealNote{Kind: said.kind, At: said.at}
			switch {
			case !s.isSignedBy(keys.publicKeys()):
				note.Fault = "is not signed by a key of this journal"
			case said.n != s.N:
				note.Fault = fmt.Sprintf("says that it is seal %d", said.n)
			case last.N > 0 && (s.N != last.N+1 || !bytes.Equal(said.before, last.Hash)):
				note.Fault = "does not fit the one before it"
			}
		}
		last.N, last.Hash = s.N, s.Hash()
		return do(&s, note)
	})
	if err == nil && !isThere {
		err = ErrSealGone
	}
	return err
}

// Line returns the line of a seal in an export.
func (s *Seal) Line() ([]byte, error) { return encodeLine(s.line("seal")) }

// refreshGone notes what was erased and archived since the last call of writeFresh.
func (f *Follower) refreshGone(ctx context.Context) error {
	return f.Store.ReadSeals(ctx, f.newest.n+1, func(s Seal) error {
		said, err := parseSeal(s.Text)
		if err != nil || !s.isSignedBy(f.Keys.publicKeys()) {
			return &faultError{fmt.Sprintf("seal %d is not signed by a key of this journal", s.N)}
		}
		f.newest.addErased(said)
		for _, chain := range said.archived {
			f.newest.archived[chain] = true
		}
		return nil
	})
}

// put writes a line.
func (f *Follower) put(l exportLine) error {
	text, err := encodeLine(l)
	if err == nil {
		_, err = f.out.Write(text)
	}
	return err
}

// Line returns the line of an entry in an export, with its content if there is one.
func (e *ExportedEntry) Line() ([]byte, error) { return encodeLine(e.line(false)) }

// line returns the line of an entry, without its content if that is not to be shown.
func (e *ExportedEntry) line(isHidden bool) exportLine {
	l := exportLine{
		Type: "link", Chain: e.Chain, Seq: e.Seq, Digest: hex.EncodeToString(e.Digest), Link: hex.EncodeToString(e.Link),
	}
	switch {
	case e.Content == nil:
		l.IsErased, l.IsForgotten = !e.IsDamaged, e.IsForgotten
	case !e.IsLeftOut && !isHidden:
		l.Type, l.Salt, l.Card = "record", hex.EncodeToString(e.Salt), hex.EncodeToString(e.CardHash)
		l.Record, l.Messages = e.Content, e.Messages
	}
	return l
}

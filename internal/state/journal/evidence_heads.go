package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Head is the newest seal of a journal.
type Head struct {
	N     int64 // 0 means that there is no seal yet
	Hash  []byte
	At    time.Time
	Trail *ChainEnd // how far the audit trail has come, as seals say; nil if they say nothing
}

// head makes a head of what has grown, and returns the newest seal. The end of the audit trail is one more chain.
func (e *evidence) head(ctx context.Context, now time.Time, trail *ChainEnd) (Head, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.makeHead(ctx, now, trail)
	if errors.Is(err, errOtherSeal) {
		err = e.refresh(ctx)
	}
	h := Head{N: e.known.n, Hash: e.known.hash, At: e.known.at}
	if k := e.known.chains[AuditChain]; k != nil {
		end := k.end()
		h.Trail = &end
	}
	return h, e.report(err)
}

func (e *evidence) makeHead(ctx context.Context, now time.Time, trail *ChainEnd) error {
	if err := e.refresh(ctx); err != nil {
		return err
	}
	if midnight := now.UTC().Truncate(24 * time.Hour); e.known.lastDay != "" &&
		e.known.lastDay < dayOf(midnight.Add(-time.Second)) &&
		now.Sub(midnight) > signTime {
		_ = e.report(&faultError{"the day after " + e.known.lastDay + " is over for more than an hour, and it is not signed"})
	}
	since := now.Sub(e.known.headAt)
	if since.Abs() < headInterval {
		return nil
	}
	chains, err := e.chains(ctx)
	if err != nil {
		return err
	}
	if _, err := e.lost(ctx, chains, "9999"); err != nil {
		return err
	}
	s := statement{kind: HeadSeal, at: now, billing: map[string]int64{}}
	for _, name := range sortedKeys(chains) {
		c := chains[name]
		k := e.known.chains[name]
		if k != nil && (k.isClosed || c.Seq <= k.end().Seq) || !e.known.isKept(name) {
			continue
		}
		err := e.check(ctx, c, true)
		if err == nil {
			s.chains = append(s.chains, c.ChainEnd)
		}
		if err := e.report(err); err != nil {
			return err
		}
	}
	if err := e.addBilling(ctx, &s); err != nil {
		return err
	}
	if trail != nil && (len(s.chains) > 0 || e.known.n > 0) { // an empty journal has no seal
		if k := e.known.chains[AuditChain]; k == nil || k.end().Seq < trail.Seq {
			s.chains = append(s.chains, *trail)
		} else if k.end().Seq > trail.Seq || !bytes.Equal(k.end().Link, trail.Link) {
			_ = e.report(&faultError{fmt.Sprintf("the audit trail has %d entries, and a seal says %d", trail.Seq, k.end().Seq)})
		}
	}
	if len(s.chains) == 0 && len(s.billing) == 0 && (e.known.n == 0 || since < quietTime) {
		return nil
	}
	return e.append(ctx, s)
}

// addBilling names the parts whose counters for billing were written since the last head.
func (e *evidence) addBilling(ctx context.Context, s *statement) error {
	has := map[string]int64{}
	if err := e.parts.eachPart(ctx, func(name string, db *database) (err error) {
		has[name], err = db.billingVersion(ctx)
		return err
	}); err != nil {
		return err
	}
	for name, n := range e.known.billing {
		if month := strings.TrimPrefix(name, "month-"); month != name && e.known.since != "" &&
			month < e.known.since[:len(monthForm)] {
			continue // the file of this month is gone
		}
		if has[name] < n {
			_ = e.report(&faultError{"the counters for billing were set back or removed"})
		}
	}
	for name, n := range has {
		if n > e.known.billing[name] {
			s.billing[name] = n
		}
	}
	return nil
}

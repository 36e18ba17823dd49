package mpi

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/protocol/v1"
)

// A cardTable holds the card ranges of one scheme that take part, as its directory server sent them. It never changes;
// an update makes another one.
type cardTable struct {
	serial string
	loaded time.Time
	ranges map[v1.CR]struct{}
	sorted []span
}

// A span is a range with its ends filled up to the longest card number, so that comparing texts orders ranges of
// different lengths.
type span struct {
	begin, end string
	reach      string // the furthest end of all spans up to this one
}

const longestPAN = 19

// padPAN makes a card number, or the end of a range, as long as the longest.
func padPAN(pan, with string) string {
	return pan + strings.Repeat(with, max(longestPAN-len(pan), 0))
}

// apply returns the table that follows t after a whole CRRes. T may be nil, which means that
// there is no table yet.
func (t *cardTable) apply(res *v1.CRRes, at time.Time) *cardTable {
	next := &cardTable{serial: res.Serial, loaded: at, ranges: make(map[v1.CR]struct{})}
	if t != nil {
		if len(res.Ranges) == 0 {
			next.serial = cmp.Or(res.Serial, t.serial)
			next.ranges, next.sorted = t.ranges, t.sorted
			return next
		}
		for r := range t.ranges {
			next.ranges[r] = struct{}{}
		}
	}
	for _, r := range res.Ranges {
		kind := v1.CR{Begin: r.Begin, End: r.End}
		if r.Delete {
			delete(next.ranges, kind)
		} else {
			next.ranges[kind] = struct{}{}
		}
	}
	for r := range next.ranges {
		next.sorted = append(next.sorted, span{begin: padPAN(r.Begin, "0"), end: padPAN(r.End, "9")})
	}
	slices.SortFunc(next.sorted, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	reach := ""
	for i := range next.sorted {
		reach = max(reach, next.sorted[i].end)
		next.sorted[i].reach = reach
	}
	return next
}

// contains reports whether a card lies in a range that takes part.
func (t *cardTable) contains(pan string) bool {
	pan = padPAN(pan, "0")
	after, found := slices.BinarySearchFunc(t.sorted,
		pan, func(s span, pan string) int { return cmp.Compare(s.begin, pan) })
	return found || after > 0 && t.sorted[after-1].reach >= pan
}

// isKnownAbsent reports whether it is known, without asking, that a card does not take
// part. A table that could not be renewed for two days is not used.
func (e *Engine) isKnownAbsent(scheme, pan string) bool {
	t := e.table(scheme)
	return t != nil && e.Now().Sub(t.loaded) < 2*refreshInterval && !t.contains(pan)
}

func (e *Engine) table(scheme string) *cardTable {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.tables[scheme]
}

func (e *Engine) setTable(scheme string, t *cardTable) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tables == nil {
		e.tables = make(map[string]*cardTable)
	}
	e.tables[scheme] = t
}

// refreshInterval is how often the card ranges are asked for.
const refreshInterval = 24 * time.Hour

// firstRetry is the wait after a failed load of card ranges; each further failure doubles
// it, up to the usual time between two loads.
const firstRetry = time.Minute

// keepFresh asks for the card ranges of one scheme again and again, until ctx
// ends.
func (e *Engine) keepFresh(ctx context.Context, d *Directory) {
	if t := e.table(d.Scheme); t != nil && !tasks.Sleep(ctx, t.loaded.Add(refreshInterval).Sub(e.Now())) {
		return
	}
	retry := firstRetry
	for {
		wait := refreshInterval
		if err := e.load(ctx, d); err != nil {
			if ctx.Err() != nil {
				return
			}
			// Without the limit, retry would overflow after a few weeks, and the loop would not wait.
			wait, retry = min(retry, wait), min(2*retry, wait)
			e.Log.WarnContext(ctx, "card ranges of 3-D Secure 1 not loaded", "scheme", d.Scheme, "err", err, "again", wait)
		} else {
			retry = firstRetry
		}
		if !tasks.Sleep(ctx, wait) {
			return
		}
	}
}

// load asks for what has changed since the last time, or for everything.
func (e *Engine) load(ctx context.Context, d *Directory) error {
	former := e.table(d.Scheme)
	res, err := e.askRanges(ctx, d, former)
	if err == nil && res.IReq.Code == serialUnknown && former != nil {
		e.setTable(d.Scheme, nil)
		former = nil
		res, err = e.askRanges(ctx, d, nil)
	}
	switch {
	case err != nil:
		return err
	case res.IReq.Code != "":
		return errors.New("refused: " + iReqText(res.IReq.Code))
	}
	next := former.apply(res, e.Now())
	if former == nil && len(next.ranges) == 0 {
		return errors.New("the first answer has no card ranges")
	}
	e.setTable(d.Scheme, next)
	e.Log.InfoContext(ctx, "card ranges of 3-D Secure 1 loaded", "scheme", d.Scheme, "ranges", len(next.ranges))
	return nil
}

// askRanges makes one exchange of CRReq and CRRes.
func (e *Engine) askRanges(ctx context.Context, d *Directory, former *cardTable) (*v1.CRRes, error) {
	req := &v1.CRReq{
		ID:       v1.NewMessageID(rand.Reader),
		Merchant: v1.Merchant{AcqBIN: d.CardRanges.AcquirerBIN, ID: d.CardRanges.MerchantID},
	}
	if former != nil {
		req.Serial = former.serial
	}
	body, err := e.Client.Exchange(ctx, d.Scheme, "", "CRReq", req.ID, req.Marshal())
	if err != nil {
		return nil, err
	}
	res, err := v1.ReadCRRes(body, req)
	if err != nil {
		e.reportFault(ctx, d.Scheme, req.ID, err)
	}
	return res, err
}

package journal

import (
	"context"
	"encoding/json"
	"time"
)

// Personal data go before messages do, and are kept only where an operator asked for them. They stand in a table of
// their own, sealed under the key of their day. No entry has a digest of them, so its chain says nothing of them.

// keptPersonal are the personal data of a step of an entry.
type keptPersonal struct {
	Step     int             `json:"step"` // its index
	Personal json.RawMessage `json:"personal"`
}

// personalOf returns the personal data of an entry as JSON, nil if it has none.
func personalOf(e *Entry) ([]byte, error) {
	var kept []keptPersonal
	for i := range e.Steps {
		if p := e.Steps[i].Personal; len(p) > 0 {
			kept = append(kept, keptPersonal{i, p})
		}
	}
	if kept == nil {
		return nil, nil
	}
	return json.Marshal(kept)
}

// showPersonal puts the personal data that are kept into the steps of an entry.
func showPersonal(steps []Step, text []byte) error {
	if text == nil {
		return nil
	}
	var kept []keptPersonal
	if err := json.Unmarshal(text, &kept); err != nil {
		return err
	}
	for _, p := range kept {
		if p.Step >= 0 && p.Step < len(steps) {
			steps[p.Step].Personal = p.Personal
		}
	}
	return nil
}

// KeepPersonal says how long personal data are kept. With 0, which is the default, none are written, and the next duty
// removes those that are there. It may be called at any time.
func (j *Journal) KeepPersonal(d time.Duration) { j.personal.Store(int64(d)) }

// expirePersonal removes the personal data whose time is over: all of them if none are kept.
func (j *Journal) expirePersonal(ctx context.Context, now time.Time) error {
	before := now.Add(48 * time.Hour) // also those of another node whose clock is ahead
	if d := j.personal.Load(); d > 0 {
		before = now.Add(-time.Duration(d))
	}
	return j.Store.ExpirePersonal(ctx, before)
}

// ExpirePersonal implements [Store].
func (s *tableStore) ExpirePersonal(ctx context.Context, before time.Time) error {
	return s.expireBeside(ctx, "journal_personal", before)
}

// ExpirePersonal implements [Store].
func (s *fileStore) ExpirePersonal(ctx context.Context, before time.Time) error {
	return s.expireBeside(ctx, "journal_personal", before)
}

// ExpirePersonal implements [Store].
func (l *lazyStore) ExpirePersonal(ctx context.Context, before time.Time) error {
	return l.do(ctx, func(st Store) error { return st.ExpirePersonal(ctx, before) })
}

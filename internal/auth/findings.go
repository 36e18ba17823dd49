package auth

import (
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/scheme"
)

const (
	findingInterval = time.Hour   // between two lines about the same element of a merchant
	maxFindings     = 20_000      // merchants and elements that are remembered; further ones are not logged
	findingCleaning = time.Minute // between two searches for what may be forgotten
)

// A FindingLimit limits the lines about scheme rules: a merchant that lacks an element lacks it in every request. It
// allows one line an hour for each merchant and element. Its zero value is ready to use, and safe for concurrent use.
// A nil *FindingLimit allows every line.
type FindingLimit struct {
	mu      sync.Mutex
	logged  map[merchantElement]time.Time // when there was a line about it
	cleaned time.Time                     // when logged was last searched for old entries
}

// merchantElement is what findings are limited by.
type merchantElement struct{ merchant, element string }

// due returns those of a merchant's findings that are to be logged now.
func (l *FindingLimit) due(merchant string, findings []*scheme.Finding, now time.Time) []*scheme.Finding {
	if l == nil || len(findings) == 0 {
		return findings
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var due []*scheme.Finding
	isNew := map[string]bool{} // by element: there may be several findings about one
	for _, f := range findings {
		if isNew[f.Element] || l.mark(merchantElement{merchant, f.Element}, now) {
			isNew[f.Element] = true
			due = append(due, f)
		}
	}
	return due
}

// mark reports whether there is to be a line about an element now, and if so remembers that.
func (l *FindingLimit) mark(about merchantElement, now time.Time) bool {
	last, isKnown := l.logged[about]
	if isKnown && isWithin(last, now, findingInterval) {
		return false
	}
	if !isKnown && len(l.logged) >= maxFindings {
		l.clean(now)
		if len(l.logged) >= maxFindings {
			return false
		}
	}
	if l.logged == nil {
		l.logged = make(map[merchantElement]time.Time)
	}
	l.logged[about] = now
	return true
}

// clean forgets what is old, if the last search for that was not just now.
func (l *FindingLimit) clean(now time.Time) {
	if isWithin(l.cleaned, now, findingCleaning) {
		return
	}
	l.cleaned = now
	for about, last := range l.logged {
		if !isWithin(last, now, findingInterval) {
			delete(l.logged, about)
		}
	}
}

// isWithin reports whether now is less than d after then. It is false when the clock was set back.
func isWithin(then, now time.Time, d time.Duration) bool {
	since := now.Sub(then)
	return since >= 0 && since < d
}

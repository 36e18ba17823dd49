package auth

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
)

// LogFindings logs what checkRules has found, as far as that is due: elements and no values.
func (e *Engine) LogFindings(ctx context.Context, req *check.Request, to check.Target) {
	findings := e.Findings.due(req.Account.Merchant.Name, req.Findings, e.Now())
	if len(findings) > 0 {
		e.Log.InfoContext(ctx, "scheme rules not kept", "threeDSServerTransID", req.TransID(), "scheme", to.Peer.Scheme,
			"merchant", req.Account.Merchant.Name, "findings", describeFindings(findings))
	}
}

// explainReason logs what the transStatusReason of a message means, if it is one that only
// this scheme defines.
func (e *Engine) explainReason(ctx context.Context, id, schemeName string, m *message.Message) {
	rules := e.RulesOf(schemeName)
	reason := m.Text("transStatusReason")
	if meaning := rules.Meaning("transStatusReason", reason); meaning != "" {
		e.Log.InfoContext(ctx, "reason of the scheme's own", "threeDSServerTransID", id, "scheme", schemeName,
			"transStatusReason", reason, "meaning", meaning)
	}
}

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

// Notes are what a requestor may want to know about a request in addition to its answer. Elements are named as in
// errorDetail, each once and without values.
type Notes struct {
	// Normalised elements were corrected or filled in before the request left (docs/api.md, R9).
	Normalised []string
	// Unkept elements are missing or malformed although the card's scheme requires them now, or are
	// there although it forbids them. Where one of several elements is enough, all their names
	// are one entry, with | between. What a scheme only advises is not here.
	Unkept []string
	// Schemes are the words of all directories that hold a co-badged card, in order of preference. It is
	// nil for other cards.
	Schemes []string
}

// notesOf returns the changes and findings of a request in the form for the requestor.
func notesOf(req *check.Request) Notes {
	n := Notes{Normalised: changedElements(req.Changes)}
	for _, f := range req.Findings {
		if f.InForce && f.Rule != scheme.Advise && f.Rule != scheme.Ignore && f.Rule != scheme.Ended {
			n.Unkept = addName(n.Unkept, f.Element)
		}
	}
	return n
}

// changedElements returns the names of the elements that were changed, each once.
func changedElements(changes []message.Change) (names []string) {
	for _, c := range changes {
		names = addName(names, c.Path.Name())
	}
	return names
}

// addName adds a name to names, unless it is there.
func addName(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// DescribeChanges returns changes in the form for the record and the log.
func DescribeChanges(changes []message.Change) []string {
	var texts []string
	for _, c := range changes {
		texts = append(texts, string(c.Path)+": "+c.What)
	}
	return texts
}

// describeFindings returns findings in the form for the record and the log.
func describeFindings(findings []*scheme.Finding) []string {
	var texts []string
	for _, f := range findings {
		texts = append(texts, f.Text)
	}
	return texts
}

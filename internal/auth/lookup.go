package auth

import (
	"context"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/faults"
	"github.com/openthreeds/threeds/internal/scheme"
	"github.com/openthreeds/threeds/message"
)

// A CardScheme is what a scheme that holds a card says of it.
type CardScheme struct {
	Scheme      string
	Versions    []CardVersion // that can be used, ascending
	Recommended *message.Version
	Requires    []scheme.Requirement // of an AReq of the recommended version
	KnownSince  time.Time            // when the card ranges in use came; its zero value means that this is not known
}

// A CardVersion is a version that a card can be used with.
type CardVersion struct {
	Version   message.Version
	MethodURL string // "" if there is no 3DS Method
	InfoInd   []string
}

// Lookup returns the schemes that hold a card, the preferred one first. It sends nothing. The entries are what is wrong
// with the body.
func (e *Engine) Lookup(ctx context.Context, body []byte) (last4 string, held []CardScheme, wrong []faults.Entry) {
	r, err := message.ReadRequest(body, e.Limits)
	if err != nil {
		cure := "Send one JSON object with the string acctNumber."
		return "", nil, []faults.Entry{faults.New(message.Format, "", "json", cure)}
	}
	problems := r.Duplicates()
	pan := r.Text("acctNumber")
	switch {
	case !r.Has("acctNumber"):
		problems = append(problems, message.Problem{Code: message.Missing, Path: "acctNumber"})
	case !isCardNumber(pan):
		problems = append(problems, message.Problem{Code: message.Format, Path: "acctNumber"})
	}
	for _, p := range problems {
		wrong = append(wrong, faults.Explain(p, faults.Subject{Version: message.V231, Value: r.RawAt}))
	}
	if len(wrong) > 0 {
		return "", nil, wrong
	}
	e.noteCard(ctx, pan)
	for _, hit := range e.Cards.Lookup(pan) {
		peer, ok := e.peer(hit.Scheme)
		if !ok {
			continue
		}
		s := CardScheme{Scheme: hit.Scheme}
		for _, v := range commonVersions(peer, hit.Info) {
			acs := acsVersion(hit.Info, v.String())
			s.Versions = append(s.Versions, CardVersion{v, methodURL(peer, acs), acs.InfoInd})
		}
		if len(s.Versions) > 0 {
			v := slices.MaxFunc(s.Versions, func(a, b CardVersion) int { return int(a.Version) - int(b.Version) }).Version
			s.Recommended, s.Requires = &v, peer.rules().Requirements(v, e.Now())
		}
		if hit.Generation != nil {
			s.KnownSince = hit.Generation.Loaded
		}
		held = append(held, s)
	}
	return pan[len(pan)-4:], held, nil
}

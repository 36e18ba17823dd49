package auth

import (
	"context"

	"github.com/openthreeds/threeds/internal/scheme"
	"github.com/openthreeds/threeds/message"
)

// What a merchant's scheme_rules may say; anything else is a warning.
const (
	rulesOff     = "off"
	rulesEnforce = "enforce"
)

// rules checks an AReq against what its scheme asks for beyond the protocol. It
// returns the problems to refuse the request for, which only merchants with
// scheme_rules "enforce" get; all others go into a.findings. Areq is nil
// when no version is known.
func (a *authentication) rules(areq *message.Message) message.Problems {
	mode := a.acc.Merchant.SchemeRules
	if a.peer == nil || areq == nil || mode == rulesOff {
		return nil
	}
	found := scheme.Check(a.peer.Scheme, areq)
	if len(found) == 0 {
		return nil
	}
	var refused message.Problems
	for _, f := range found {
		if a.Observer != nil {
			a.Observer.Finding(a.peer.Scheme, f.Element, string(f.Rule))
		}
		if mode == rulesEnforce && f.Code != 0 {
			refused = append(refused, message.Problem{Code: f.Code, Path: message.Path(f.Element)})
		} else {
			a.findings = append(a.findings, f)
		}
	}
	return refused
}

// tellFindings logs what rules has found, elements and no values.
func (a *authentication) tellFindings(ctx context.Context) {
	if len(a.findings) > 0 {
		a.Log.InfoContext(ctx, "scheme rules not kept", "threeDSServerTransID", a.id, "scheme", a.peer.Scheme,
			"merchant", a.acc.Merchant.Name, "findings", texts(a.findings))
	}
}

// explain logs what the transStatusReason of m means, if it is one that only this
// scheme defines.
func (e *Engine) explain(ctx context.Context, id, of string, m *message.Message) {
	reason := m.Text("transStatusReason")
	if meaning := scheme.Meaning(of, "transStatusReason", reason); meaning != "" {
		e.Log.InfoContext(ctx, "reason of the scheme's own", "threeDSServerTransID", id, "scheme", of,
			"transStatusReason", reason, "meaning", meaning)
	}
}

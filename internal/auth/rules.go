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

// rules holds an AReq against what its scheme asks for beyond the protocol. It
// returns what the request is refused for, which is nothing unless the
// merchant wants that; the rest is kept, to be recorded and told. Areq is nil
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

// tellFindings logs what rules has kept, elements and no values.
func (a *authentication) tellFindings(ctx context.Context) {
	if len(a.findings) > 0 {
		a.Log.InfoContext(ctx, "scheme rules not kept", "threeDSServerTransID", a.id, "scheme", a.peer.Scheme,
			"merchant", a.acc.Merchant.Name, "findings", texts(a.findings))
	}
}

// explain logs the meaning of a reason that is the scheme's own.
func (e *Engine) explain(id, of string, m *message.Message) {
	reason := m.Text("transStatusReason")
	if meaning := scheme.Meaning(of, "transStatusReason", reason); meaning != "" {
		e.Log.Info("reason of the scheme's own", "threeDSServerTransID", id, "scheme", of,
			"transStatusReason", reason, "meaning", meaning)
	}
}

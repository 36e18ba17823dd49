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

// rules are those of the directory's scheme.
func (d *Directory) rules() *scheme.Sheet {
	if d.Rules != nil {
		return d.Rules
	}
	return scheme.Public(d.Scheme)
}

// checkRules checks an AReq against what its scheme asks for beyond the protocol. It
// returns the problems to refuse the request for, which only merchants with scheme_rules
// "enforce" get; all others go into req.findings.
func (e *Engine) checkRules(req *authRequest, c *contentCheck) message.Problems {
	mode := req.account.Merchant.SchemeRules
	if c.to.peer == nil || c.areq == nil || mode == rulesOff {
		return nil
	}
	at := req.asOf
	if at.IsZero() {
		at = e.Now()
	}
	var refused message.Problems
	c.findings, c.rulesChecked = c.to.peer.rules().Check(c.areq, at), true
	for _, f := range c.findings {
		if mode == rulesEnforce && f.Code != 0 {
			// Of several elements of which one is enough, the first is named.
			refused = append(refused, message.Problem{Code: f.Code, Path: message.Path(f.Elements[0])})
			c.enforced = append(c.enforced, f)
		} else {
			req.findings = append(req.findings, f)
		}
	}
	return refused
}

// logFindings logs what checkRules has found, as far as that is due: elements and no values.
func (e *Engine) logFindings(ctx context.Context, req *authRequest, to target) {
	findings := e.Findings.due(req.account.Merchant.Name, req.findings, e.Now())
	if len(findings) > 0 {
		e.Log.InfoContext(ctx, "scheme rules not kept", "threeDSServerTransID", req.id.value, "scheme", to.peer.Scheme,
			"merchant", req.account.Merchant.Name, "findings", describeFindings(findings))
	}
}

// explainReason logs what the transStatusReason of a message means, if it is one that only
// this scheme defines.
func (e *Engine) explainReason(ctx context.Context, id, schemeName string, m *message.Message) {
	rules := scheme.Public(schemeName)
	if peer, ok := e.peer(schemeName); ok {
		rules = peer.rules()
	}
	reason := m.Text("transStatusReason")
	if meaning := rules.Meaning("transStatusReason", reason); meaning != "" {
		e.Log.InfoContext(ctx, "reason of the scheme's own", "threeDSServerTransID", id, "scheme", schemeName,
			"transStatusReason", reason, "meaning", meaning)
	}
}

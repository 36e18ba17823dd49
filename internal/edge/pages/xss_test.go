package pages_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// isHarmful reports whether a page has an attack as it was given.
func isHarmful(body, attack string) bool {
	if strings.Contains(body, `href="javascript:`) || strings.Contains(body, `action="javascript:`) {
		return true
	}
	return strings.ContainsAny(attack, `<>"'`) && strings.Contains(body, attack)
}

// TestK1AttacksAreText: in each field of a search, and in each text that others wrote into a record.
func TestK1AttacksAreText(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i, attack := range attacks {
		for _, name := range []string{"q", "merchant", "scheme", "result", "status", "acs", "reason", "id", "reference", "last4", "from", "to", "time", "cursor"} {
			if body := s.get("admin", "/authentications?"+name+"="+url.QueryEscape(attack)).Body.String(); isHarmful(body, attack) {
				t.Errorf("%s: %q is on the page", name, attack)
			}
		}
		for _, name := range []string{"step", "beside"} {
			if body := s.get("admin", "/authentications/"+passedID+"?step=ares&"+name+"="+url.QueryEscape(attack)).Body.String(); isHarmful(body, attack) {
				t.Errorf("%s: %q is on the page", name, attack)
			}
		}
		id := "20000000-0000-4000-8000-00000000000" + string(rune('0'+i))
		r := recordOf(id)
		r.Created = s.Now.Add(-1e9)
		r.Merchant, r.Reference, r.ACS, r.TransStatus, r.TransStatusReason, r.ECI, r.ErrorCode, r.Amount, r.Currency, r.Operation, r.MessageVersion =
			attack, attack, attack, attack, attack, attack, attack, attack, attack, attack, attack
		r.Elements, r.Card.Scheme, r.Card.Last4, r.Result, r.Status = []string{attack}, attack, attack, attack, attack
		m := []byte(`{"messageType": "ARes", "messageVersion": "2.2.0", ` + quote(attack) + `: ` + quote(attack) + `, "transStatus": ` + quote(attack) + `}`)
		s.add(journal.Answered, r, journal.Step{Step: "ares", At: r.Created, Message: m, Findings: []string{attack}},
			journal.Step{Step: attack, At: r.Created.Add(1e9), Findings: []string{attack}})
		for _, at := range []string{"/authentications?time=all", "/authentications/" + id, "/authentications/" + id + "?step=ares"} {
			w := s.get("admin", at)
			if body := w.Body.String(); w.Code != 200 || isHarmful(body, attack) {
				t.Errorf("%s: %d, %q of a record is on the page", at, w.Code, attack)
			}
		}
	}
}

func quote(text string) string {
	return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
}

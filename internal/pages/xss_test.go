package pages_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/journal"
)

func recordOf(id string) journal.Record {
	return journal.Record{
		ID: id, API: "emv", Operation: "auth", Merchant: shop, Status: "completed", Result: "authenticated", TransStatus: "Y",
		Card: journal.Card{Scheme: "visa", BIN: "40000000", Last4: "0103"},
	}
}

// attacks end an attribute, an element, a script and a style, and each has a mark of its own.
var attacks = []string{
	`"><script>alert(7)</script>`, `' onmouseover='alert(7)`, `</title><svg onload=alert(7)>`, `javascript:alert(7)`,
	`</script><img src=x onerror=alert(7)>`, `</style><b onclick=alert(7)>`, `{{alert(7)}}`, "`-alert(7)-`",
}

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
		r.Created = s.now.Add(-1e9)
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

func stepOf(name string, at time.Time) journal.Step { return journal.Step{Step: name, At: at} }

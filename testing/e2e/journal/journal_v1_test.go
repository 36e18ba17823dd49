package journal

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD122StepsOfVersion1: the record of a request of 3-D Secure 1.0.2 has its messages as steps, masked and each with
// its time, also where one did not come or was refused, and what it was for.
func TestD122StepsOfVersion1(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t)
	const value = "Q0FOQVJZVkFMVUVDQU5BUlk9PT0="
	ask := func(name string, do func()) (d journal.Detail) {
		t.Helper()
		lines := len(requestLines(t, s.Log.String()))
		do()
		waittest.Until(t, name+": the line of the request", func() bool { return len(requestLines(t, s.Log.String())) > lines })
		id, _ := requestLines(t, s.Log.String())[lines]["request"].(string)
		rig.Must(t, rig.WithJournal(t.Context(), s.ConfigFile, func(st journal.Store, _ *journal.Keys) error {
			waittest.Until(t, name+": the record", func() (isThere bool) {
				var err error
				d, err = st.Show(t.Context(), id)
				return err == nil
			})
			return nil
		}))
		return d
	}
	names := func(d *journal.Detail) (all []string) {
		for i := range d.Steps {
			if i > 0 && d.Steps[i].At.Before(d.Steps[i-1].At) {
				t.Errorf("%s comes before %s", d.Steps[i].Step, d.Steps[i-1].Step)
			}
			all = append(all, d.Steps[i].Step)
		}
		return all
	}
	req := s.Enroll(rig.Purchase(rig.V1Visa))
	pares := req.Answer(rig.V1Visa, "Y")
	pares.CAVV = value
	signed := rig.V1Issuers()["visa"].Sign(pares)
	for _, tt := range []struct {
		name string
		ask  func()
		want string // the steps
		has  []string
	}{
		{"enrolled", func() { s.Enroll(rig.Purchase(rig.V1Visa)) }, "request v1.vereq v1.veres v1.pareq answered", []string{
			`"messageType":"VEReq"`, `"pan":"` + rig.V1Visa[:8] + "****" + rig.V1Visa[12:] + `"`, `"messageType":"VERes"`, `"enrolled":"Y"`, `"acctID":"[withheld, `,
			`"messageType":"PAReq"`, `"purchAmount":"`, `"currency":"`,
		}},
		{"not enrolled", func() {
			s.V1.Play(rig.V1Says("N"))
			s.Form("/enrolled", rig.Purchase(rig.V1Visa))
		}, "request v1.vereq v1.veres answered", []string{`"enrolled":"N"`}},
		{"no answer", func() {
			s.V1.Play(func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) })
			s.Form("/enrolled", rig.Purchase(rig.V1Visa))
		}, "request v1.vereq v1.veres answered", []string{"none: "}},
		{"a bad answer", func() {
			s.V1.Play(rig.V1Body("<X" + rig.V1Visa + "/>"))
			s.Form("/enrolled", rig.Purchase(rig.V1Visa))
		}, "request v1.vereq v1.veres answered", []string{"refused: "}},
		{"checked", func() { s.Form("/check", url.Values{"pares": {signed}}) }, "request v1.pares answered", []string{
			`"messageType":"PARes"`, `"status":"Y"`, `"cavv":"[withheld, 28 bytes] hash `,
		}},
		{"refused", func() { s.Form("/check", url.Values{"pares": {"bm9uc2Vuc2U="}}) }, "request v1.pares answered", []string{"refused: "}},
		{"asked wrongly", func() { s.Form("/enrolled", rig.With(rig.Purchase(rig.V1Visa), "amount")) }, "request answered", nil},
	} {
		d := ask(tt.name, tt.ask)
		if got := strings.Join(names(&d), " "); got != tt.want || d.API != "v1" {
			t.Errorf("%s: the steps are %s, want %s", tt.name, got, tt.want)
		}
		var text strings.Builder
		for _, step := range d.Steps {
			text.Write(step.Message)
			text.WriteString(strings.Join(step.Findings, " "))
		}
		for _, want := range tt.has {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: no %s in %s", tt.name, want, text.String())
			}
		}
		if secret := slices.IndexFunc([]string{rig.V1Visa, value}, func(secret string) bool { return strings.Contains(text.String(), secret) }); secret >= 0 {
			t.Errorf("%s: secret %d is in %s", tt.name, secret, text.String())
		}
		if tt.name == "enrolled" && (d.Amount == "" || d.Currency == "" || d.Card.Last4 != rig.V1Visa[12:] ||
			d.Reference != rig.Purchase(rig.V1Visa).Get("order_id") || d.TransStatus != "Y") {
			t.Errorf("the record is %+v", d.Record)
		}
	}
}

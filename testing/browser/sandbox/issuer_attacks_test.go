package sandbox

import (
	"encoding/base64"
	"html/template"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/sandbox"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// A browserForm is what a page of a shop sends to the issuer; without fields it is an address alone.
type browserForm struct {
	Action string
	Fields map[string]string
}

// formsPage sends each form into a frame of its own.
var formsPage = template.Must(template.New("").Parse(`<!doctype html><meta charset=utf-8><title>Shop</title>
{{range $i, $f := .}}{{if $f.Fields}}<iframe name="f{{$i}}"></iframe><form method=post action="{{$f.Action}}" target="f{{$i}}">
{{range $n, $v := $f.Fields}}<textarea hidden name="{{$n}}">
{{$v}}</textarea>{{end}}</form>{{else}}<iframe src="{{$f.Action}}"></iframe>{{end}}{{end}}
<script>let open = document.forms.length
for (const form of document.forms) { document.getElementsByName(form.target)[0].onload = () => { open--; document.title = open > 0 ? "Shop" : "done" } ; form.submit() }</script>`))

// TestB9AttacksOnTheIssuersPagesAreText: no text of a merchant or a shopper runs on the pages of the issuers.
func TestB9AttacksOnTheIssuersPagesAreText(t *testing.T) {
	ctx := browsertest.NewBrowser(t)
	trap := browsertest.NewTrap(t, ctx)
	box := start(t, func(s *sandbox.Sandbox) { s.PageDelay = time.Hour })
	s := newServer(t, box)
	go func() { // nobody wants the results
		for {
			select {
			case <-s.got:
			case <-t.Context().Done():
				return
			}
		}
	}()
	p := newPlugIn(t, box, "visa")
	base := strings.TrimSuffix(box.ACSURL(), "/")
	var forms []browserForm
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path != "/" {
			_, _ = w.Write([]byte("<!doctype html><title>Back</title>"))
			return
		}
		_ = formsPage.Execute(w, forms)
	}))
	defer shop.Close()
	encode := func(m members) string { return base64.RawURLEncoding.EncodeToString(m.json(t)) }
	challenged := func(pan, attack string) members {
		t.Helper()
		areq := s.areq("2.2.0", "02", pan).with(members{"notificationURL": shop.URL + "/back?" + url.QueryEscape(attack)})
		if ares := s.ask(areq.with(members{"merchantName": attack, "threeDSRequestorName": attack})); ares["acsURL"] != nil {
			return ares
		}
		return s.ask(areq) // it has characters that no name has
	}
	ve := p.enrolled("id", "4000000000000000")

	kinds := map[string]func(attack string) browserForm{
		"merchantName and threeDSSessionData on the page for the code": func(attack string) browserForm {
			ares := challenged("4000000000000172", attack)
			return browserForm{ares["acsURL"].(string), map[string]string{"creq": encode(creq(ares)), "threeDSSessionData": attack}}
		},
		"the same on the page for the app": func(attack string) browserForm {
			ares := challenged("4000000000000174", attack)
			return browserForm{ares["acsURL"].(string), map[string]string{"creq": encode(creq(ares)), "threeDSSessionData": attack}}
		},
		"threeDSSessionData and notificationURL on the way back": func(attack string) browserForm {
			ares := challenged("4000000000000172", attack)
			send(t, ares["acsURL"].(string), s.form(creq(ares), attack)).press("cancel", "")
			return browserForm{Action: ares["acsURL"].(string) + "/" + ares["acsTransID"].(string)}
		},
		"a CReq with another version": func(attack string) browserForm {
			ares := challenged("4000000000000172", attack)
			return browserForm{ares["acsURL"].(string), map[string]string{
				"creq": encode(creq(ares).with(members{"messageVersion": attack, attack: attack})), "threeDSSessionData": attack,
			}}
		},
		"a CReq that is none": func(attack string) browserForm {
			return browserForm{base + "/challenge", map[string]string{"creq": attack, "threeDSSessionData": attack}}
		},
		"a CReq of nobody": func(attack string) browserForm {
			return browserForm{base + "/challenge", map[string]string{"creq": encode(members{"acsTransID": attack})}}
		},
		"the address of a challenge": func(attack string) browserForm {
			return browserForm{Action: base + "/challenge/" + url.PathEscape(attack)}
		},
		"the address of the bank's app": func(attack string) browserForm { return browserForm{Action: base + "/bank/" + url.PathEscape(attack)} },
		"the id of a 3DS Method": func(attack string) browserForm {
			return browserForm{base + "/method", map[string]string{
				"threeDSMethodData": encode(members{"threeDSServerTransID": attack, "threeDSMethodNotificationURL": shop.URL}),
			}}
		},
		"the address of a 3DS Method": func(attack string) browserForm {
			return browserForm{base + "/method", map[string]string{
				"threeDSMethodData": encode(members{"threeDSServerTransID": newID(), "threeDSMethodNotificationURL": attack}),
			}}
		},
		"PaReq": func(attack string) browserForm {
			return browserForm{ve.URL, map[string]string{"PaReq": attack, "TermUrl": shop.URL, "MD": attack}}
		},
		"TermUrl": func(attack string) browserForm {
			return browserForm{ve.URL, map[string]string{"PaReq": pack(t, p.paReq("id", ve.AcctID)), "TermUrl": attack, "MD": attack}}
		},
		"MD and merchant of 1.0.2": func(attack string) browserForm {
			paReq := strings.ReplaceAll(p.paReq("id", ve.AcctID), "Bicycles", template.HTMLEscapeString(clean(attack)))
			return browserForm{ve.URL, map[string]string{"PaReq": pack(t, paReq), "TermUrl": shop.URL + "/back?" + url.QueryEscape(attack), "MD": attack}}
		},
	}
	inputs := 0
	for n, where := range slices.Sorted(maps.Keys(kinds)) {
		forms = nil
		for i, attack := range browsertest.SomeAttacks() {
			if browsertest.HasLongWalks() || i%3 == n%3 { // In a short walk each attack has a third of the places.
				forms = append(forms, kinds[where](attack))
			}
		}
		inputs += len(forms)
		if err := chromedp.Do(ctx, chromedp.Navigate(shop.URL), browsertest.Poll(
			`document.title === "done" || document.forms.length === 0 && document.readyState === "complete"`)); err != nil {
			browsertest.FailureScreenshot(t, ctx, "sandbox-attacks-failed")
			t.Fatalf("%s: %v", where, err)
		}
		trap.Check(where)
	}
	t.Logf("%d inputs", inputs)
}

// clean is a text as XML can have it.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, text)
}

package shop

import (
	"html"
	"strings"
	"testing"
)

// TestB9AddressOfAnIssuerIsText: whatever address a checkout has for its issuer, it stays inside the attribute of the
// form. testing/browser/sandbox sends such addresses through a whole shop.
func TestB9AddressOfAnIssuerIsText(t *testing.T) {
	p := &page{t: t, shop: newBank(t).shop()}
	for _, attack := range []string{
		`"><script>xss()</script>`, `'><img src=x onerror=xss()>`, `" autofocus onfocus=xss() x="`, `javascript:xss()`, "java\tscript:xss()", ` JaVaScRiPt:xss()//`,
		`data:text/html,<script>xss()</script>`, `vbscript:xss()`, `</form><form action=javascript:xss()>`,
	} {
		id := p.toAuth(testOrder("4000000000000172")).ID
		c := p.shop.checkouts.find(id)
		c.mu.Lock()
		c.ares.ACSURL = attack
		c.mu.Unlock()
		p.seen.Reset()
		p.do("GET", "/frame/"+id+"/challenge", "", "")
		body := p.seen.String()
		_, after, isForm := strings.Cut(body, ` action="`)
		action, _, _ := strings.Cut(after, `"`)
		if !isForm || strings.Count(body, "<form") != 1 || strings.Contains(body, "<script>xss") || strings.Contains(body, "<img") {
			t.Errorf("%q leaves its attribute: %s", attack, body)
		}
		if address := strings.ToLower(strings.Join(strings.Fields(html.UnescapeString(action)),
			"")); strings.HasPrefix(address, "javascript:") || strings.HasPrefix(address, "data:") ||
			strings.HasPrefix(address, "vbscript:") {
			t.Errorf("%q is the address %q of the form", attack, action)
		}
	}
}

package browsertest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Attacks are texts that call xss() if a page takes them for more than text: one for each way out of an element, an
// attribute, a script, a style and an address, and some for pages that decode twice.
var Attacks = []string{
	`<script>xss()</script>`,
	`"><script>xss()</script>`,
	`'><script>xss()</script>`,
	`<img src=x onerror=xss()>`,
	`"><img src=x onerror=xss()>`,
	`<svg/onload=xss()>`,
	`" autofocus onfocus=xss() x="`,
	`' autofocus onfocus=xss() x='`,
	` onpointerenter=xss() x=`,
	`</title><img src=x onerror=xss()>`,
	`</style><svg onload=xss()>`,
	`</script><script>xss()</script>`,
	`</textarea><img src=x onerror=xss()>`,
	`--><img src=x onerror=xss()>`,
	`]]><img src=x onerror=xss()>`,
	`<details open ontoggle=xss()>`,
	`<iframe srcdoc="<script>parent.xss()</script>"></iframe>`,
	`<math><style><img src=x onerror=xss()></style></math>`,
	`<a href="javascript:xss()">go</a>`,
	`<form action=javascript:xss()><button>go`,
	`<base href="//attacker.example/">`,
	`<meta http-equiv=refresh content=99>`,
	`javascript:xss()`,
	"java\tscript:xss()",
	` JaVaScRiPt:xss()//`,
	`data:text/html,<script>xss()</script>`,
	`';xss();'`,
	`";xss();"`,
	"`;xss();`",
	`${xss()}`,
	`{{constructor.constructor('xss()')()}}`,
	`red;background:url(//attacker.example)`,
	`}*{background:url(//attacker.example)}`,
	`&lt;img src=x onerror=xss()&gt;`,
	`&#60;img src=x onerror=xss()&#62;`,
	`%3Cimg src=x onerror=xss()%3E`,
	`\u003cimg src=x onerror=xss()\u003e`,
	`\x3cimg src=x onerror=xss()\x3e`,
	"<img/src=x\fonerror=xss()>",
	outOfElements,
}

// outOfElements leaves each element in which a page may have text, and a comment.
const outOfElements = `</title></style></textarea></script>--><img src=x onerror=xss()>`

// sampledAttacks are some of [Attacks]: one for each place in a page that a text can break out of.
var sampledAttacks = []string{
	`<img src=x onerror=xss()>`,
	outOfElements,
	`" autofocus onfocus=xss() x="`,
	`' autofocus onfocus=xss() x='`,
	` onpointerenter=xss() x=`,
	`javascript:xss()`,
	`';xss();'`,
	"`;xss();`",
	`{{constructor.constructor('xss()')()}}`,
	`}*{background:url(//attacker.example)}`,
	`&lt;img src=x onerror=xss()&gt;`,
	`%3Cimg src=x onerror=xss()%3E`,
}

// SomeAttacks returns all [Attacks] if there are [HasLongWalks], and otherwise one for each place that a text can break
// out of. Use it where each attack has a page or a frame of its own, which takes a browser long.
func SomeAttacks() []string {
	if HasLongWalks() {
		return Attacks
	}
	return sampledAttacks
}

// A Trap hears of each attack that worked in the pages of a tab: a script that ran, one that only the
// Content-Security-Policy stopped, and an element or an address that an attack made.
type Trap struct {
	t   testing.TB
	ctx context.Context

	mu    sync.Mutex
	heard []string
}

// watch runs in each document of the tab before its own scripts. It reports what the policy of the page refuses
// and, once the document is loaded, what an attack made in it. findXSS looks again, into shadow roots and
// frames of the same origin.
const watch = `
globalThis.xss = (what) => hearXSS(String(what ?? "it ran"))
addEventListener("securitypolicyviolation", (e) => xss("refused by " + e.effectiveDirective + ": " + (e.sample || e.blockedURI)))
globalThis.findXSS = () => {
	if (location.protocol == "chrome-error:") return // a page of the browser's own
	const found = [], roots = [document]
	const add = (text) => found.push(text.slice(0, 120))
	for (const root of roots) for (const e of root.querySelectorAll("*")) {
		if (e.shadowRoot) roots.push(e.shadowRoot)
		try { if (e.contentDocument) roots.push(e.contentDocument) } catch {}
		for (const { name, value } of e.attributes) {
			if (/^on/i.test(name) || name == "srcdoc") add(e.outerHTML)
			if (["href", "src", "action", "formaction", "data", "xlink:href"].includes(name)) {
				const url = URL.canParse(value, location.href) && new URL(value, location.href)
				if (url && (/^(javascript|data|vbscript):/.test(url.protocol) || url.host == "attacker.example")) add(e.outerHTML)
			}
		}
		if (/^(base|math)$/i.test(e.tagName) || e.httpEquiv == "refresh" && e.content == "99") add(e.outerHTML)
		if (e.tagName == "SCRIPT" && e.textContent.trim().startsWith("xss(")) add(e.outerHTML)
		if (/attacker/.test(e.getAttribute("style") ?? "")) add(e.outerHTML)
	}
	for (const root of roots) for (const sheet of root.styleSheets ?? []) {
		try { for (const rule of sheet.cssRules) if (rule.cssText.includes("attacker")) add(rule.cssText) } catch {}
	}
	for (const text of found) xss("element: " + text)
}
addEventListener("load", findXSS)`

// NewTrap sets a trap in a tab. Give it the context that [NewBrowser] returned.
func NewTrap(t testing.TB, ctx context.Context) *Trap {
	t.Helper()
	trap := &Trap{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, func(ev any) {
		if called, is := ev.(*runtime.EventBindingCalled); is && called.Name == "hearXSS" {
			trap.record("script: " + called.Payload)
		}
	}); err != nil {
		t.Fatal(err)
	}
	_, err := chromedp.Call(ctx, runtime.AddBinding, runtime.AddBindingParams{Name: "hearXSS"})
	if err == nil {
		_, err = chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
	}
	if err != nil {
		t.Fatal(err)
	}
	return trap
}

// record notes what an attack did.
func (trap *Trap) record(what string) {
	trap.mu.Lock()
	defer trap.mu.Unlock()
	trap.heard = append(trap.heard, what)
}

// Sprung returns what worked since the last call, in the page and its frames too.
func (trap *Trap) Sprung() []string {
	trap.t.Helper()
	if err := chromedp.Do(trap.ctx, chromedp.Evaluate[chromedp.Void](`findXSS()`)); err != nil {
		trap.t.Fatal(err)
	}
	trap.mu.Lock()
	defer trap.mu.Unlock()
	heard := trap.heard
	trap.heard = nil
	return slices.Compact(heard)
}

// Check fails the test if an attack worked since the last call. where says in which places the attacks were.
func (trap *Trap) Check(where string) {
	trap.t.Helper()
	for _, sprung := range trap.Sprung() {
		trap.t.Errorf("%s: %s", where, sprung)
	}
}

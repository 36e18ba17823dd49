package browsertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// tabStops lists the controls of a page that Tab has to reach, in the order of the document, in open shadow roots too.
// While a modal dialog is open it lists those of the dialog.
const tabStops = `(() => {
	const all = []
	const walk = (root) => { for (const e of root.querySelectorAll("*")) { all.push(e); if (e.shadowRoot) walk(e.shadowRoot) } }
	walk(document)
	const isWithin = (e) => e.closest(%q) || e.getRootNode() !== document && isWithin(e.getRootNode().host)
	const modal = all.find((e) => e.matches("dialog:modal"))
	globalThis.tabStops = all.filter((e) => e.matches("a[href], button, input:not([type=hidden]), select, textarea, summary, iframe, [tabindex='0']")
		&& isWithin(e) && !e.matches(":disabled") && (!modal || modal.contains(e)) && e.checkVisibility({ visibilityProperty: true }))
	globalThis.tabName = (e) => e.localName + " " + JSON.stringify((e.getAttribute("aria-label") || e.textContent || e.name || e.title || "").trim().replace(/\s+/g, " ").slice(0, 60))
	return tabStops.length
})()`

// tabStop says where the focus is, what is wrong with how it is shown there, and which control it is. A link in a
// drawing may have a rectangle with an edge in place of an outline.
const tabStop = `(() => {
	let e = document.activeElement
	while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement
	if (!e || e === document.body) return { at: -1, name: "nothing" }
	const at = tabStops.indexOf(e), name = tabName(e), box = e.getBoundingClientRect(), style = getComputedStyle(e)
	const isScroller = at < 0 && /auto|scroll/.test(style.overflowX + style.overflowY)
	let fault = ""
	if (e.localName !== "iframe" && !isScroller) {
		const isFramed = e.ownerSVGElement && [...e.querySelectorAll("rect")].some((r) => getComputedStyle(r).stroke !== "none" && parseFloat(getComputedStyle(r).strokeWidth) >= 3)
		if (isFramed && e.matches(":focus-visible")) fault = ""
		else if (!e.matches(":focus-visible")) fault = "is not :focus-visible"
		else if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2 || /^rgba\(.*, 0\)$|^transparent$/.test(style.outlineColor)) fault = "shows no focus: outline " + style.outline
		else if (box.width < 8 || box.height < 8) fault = "is " + box.width + " by " + box.height + " px while it has the focus"
		else if (box.bottom <= 0 || box.right <= 0 || box.top >= innerHeight || box.left >= innerWidth) fault = "has the focus out of sight"
	}
	return { at, name, fault, isScroller }
})()`

// KeyboardMistakes walks through the page of a tab with the Tab key, from its beginning, and returns what somebody
// without a mouse could not use: controls that Tab does not reach, or not in the order of the document, and controls on
// which one does not see the focus.
func KeyboardMistakes(ctx context.Context) ([]string, error) {
	mistakes, err := keyboardMistakes(ctx, "*")
	if err == nil && len(mistakes) == 0 {
		n, err := chromedp.Run(ctx, chromedp.Evaluate[int]("tabStops.length"))
		if err != nil || n > 0 {
			return nil, err
		}
		mistakes = []string{"there is no control"}
	}
	return mistakes, err
}

// keyboardMistakes is [KeyboardMistakes] for the controls inside a selector. Tab comes to the first of them next.
func keyboardMistakes(ctx context.Context, selector string) ([]string, error) {
	n, err := chromedp.Run(ctx, chromedp.Evaluate[int](fmt.Sprintf(tabStops, selector)))
	if err != nil {
		return nil, err
	}
	var mistakes []string
	next, last := 0, -2
	for presses := 0; next < n && presses < 3*n+20; presses++ {
		if err := chromedp.Do(ctx, chromedp.KeyEvent(KeyTab)); err != nil {
			return nil, err
		}
		stop, err := chromedp.Run(ctx, chromedp.Evaluate[struct {
			At         int
			Name       string
			Fault      string
			IsScroller bool
		}](tabStop))
		if err != nil {
			return nil, err
		}
		if stop.IsScroller || stop.At == last && stop.At >= 0 { // a part that scrolls, or the next control inside a frame
			continue
		}
		if stop.Fault != "" {
			mistakes = append(mistakes, stop.Name+" "+stop.Fault)
		}
		last = stop.At
		if stop.At == next {
			next++
			continue
		}
		missed, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`tabName(tabStops[%d])`, next)))
		if err != nil {
			return nil, err
		}
		mistakes = append(mistakes, fmt.Sprintf("Tab goes to %s, want %s", stop.Name, missed))
		if stop.At < next {
			break // the page is over, or its order is another one
		}
		next = stop.At + 1
	}
	return mistakes, nil
}

// CheckKeyboardIn is [CheckKeyboard] for a part of the page that has no control before it but those of a menu, which a
// CSS selector names. It saves the walk through the menu where another page has shown it.
func CheckKeyboardIn(t testing.TB, ctx context.Context, name, selector string) {
	t.Helper()
	script := fmt.Sprintf(`{
		const part = document.querySelector(%q)
		part.tabIndex = -1
		part.focus()
	}`, selector)
	if err := chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](script)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	mistakes, err := keyboardMistakes(ctx, selector)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, mistake := range mistakes {
		t.Errorf("%s: %s", name, mistake)
	}
}

// CheckKeyboard fails the test for each of the [KeyboardMistakes] of a page that was just opened.
// name says which it is.
func CheckKeyboard(t testing.TB, ctx context.Context, name string) {
	t.Helper()
	mistakes, err := KeyboardMistakes(ctx)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, mistake := range mistakes {
		t.Errorf("%s: %s", name, mistake)
	}
}

// TabTo presses Tab until the expression is true of e, the control that has the focus.
func TabTo(t testing.TB, ctx context.Context, expression string) {
	t.Helper()
	for range 100 {
		if err := chromedp.Do(ctx, chromedp.KeyEvent(KeyTab)); err != nil {
			t.Fatal(err)
		}
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`((e) => `+expression+`)(document.activeElement)`))
		if err != nil {
			t.Fatal(err)
		}
		if is {
			return
		}
	}
	at, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.activeElement.outerHTML.slice(0, 200)`))
	t.Fatalf("Tab does not lead to a control with %s; it is on %s", expression, at)
}

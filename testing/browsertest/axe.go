package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// Axe looks for mistakes of accessibility with axe-core, a library that go -C testing run ./long axe installs.
type Axe struct {
	t      testing.TB
	script string
}

// axeRun gives the violations of the rules of WCAG up to 2.2 AA and of good practice, in all open shadow roots. It does
// not go into frames: what a bank shows in one is not ours. Colours that are on their way to others arrive first. Each
// mistake is a line: rule, element, what is wrong.
const axeRun = `document.getAnimations().forEach((a) => a instanceof CSSTransition && a.finish())
axe.run(%s, {
	iframes: false, resultTypes: ["violations"],
	runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}).then(({ violations }) => violations.flatMap(({ id, impact, help, nodes }) => nodes.map(
	({ target, any, all, none }) => id + " (" + impact + ") at " + target.flat().join(" in ") + ": " + help + "; " + [...any, ...all, ...none].map((c) => c.message).join("; "))))`

// NewAxe reads axe-core from the file that the environment variable AXE names. Without AXE the test is skipped.
func NewAxe(t testing.TB) *Axe {
	t.Helper()
	file := os.Getenv("AXE")
	if file == "" {
		t.Skip("NO AXE: accessibility is checked by go -C testing run ./long axe, which installs axe-core; nothing of it is checked here")
	}
	script, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("AXE: %v; go -C testing run ./long axe installs axe-core and names its file", err)
	}
	return &Axe{t, string(script)}
}

// Check fails the test for each mistake in the page of a tab. name says which page that is. Give it the context that
// [NewBrowser] returned. The policy of the page does not matter: the browser runs axe-core, not the page.
func (a *Axe) Check(ctx context.Context, name string) {
	a.t.Helper()
	a.CheckIn(ctx, name, "document")
}

// CheckIn is Check for a part of the page, which a CSS selector or an object of axe-core names as a
// JavaScript expression.
func (a *Axe) CheckIn(ctx context.Context, name, part string) {
	a.t.Helper()
	mistakes, err := a.Mistakes(ctx, part)
	if err != nil {
		a.t.Errorf("%s: axe-core: %v", name, err)
	}
	for _, mistake := range mistakes {
		a.t.Errorf("%s: %s", name, mistake)
	}
}

// Mistakes returns what axe-core finds in a part of a page.
func (a *Axe) Mistakes(ctx context.Context, part string) ([]string, error) {
	isThere, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`typeof axe === "object"`))
	if err != nil {
		return nil, err
	}
	if !isThere {
		if err := chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](a.script+"\n;undefined")); err != nil {
			return nil, err
		}
	}
	raw, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](fmt.Sprintf(axeRun, part), chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	if err != nil {
		return nil, err
	}
	var mistakes []string
	err = json.Unmarshal(raw, &mistakes)
	return mistakes, err
}

// CheckViews checks a page on a wide screen in light and in dark, and on a phone. The rule for the size of targets
// depends on the width, and contrast on the colours.
func (a *Axe) CheckViews(ctx context.Context, name string) {
	a.t.Helper()
	for _, view := range []struct {
		width, height int64
		scheme        string
	}{{1280, 800, "dark"}, {375, 700, "dark"}, {1280, 800, "light"}} {
		if err := chromedp.Do(ctx, View(view.width, view.height, view.scheme)); err != nil {
			a.t.Fatal(err)
		}
		a.Check(ctx, fmt.Sprintf("%s, %d px, %s", name, view.width, view.scheme))
	}
}

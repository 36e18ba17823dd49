package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// An Engine is what a browser is built on.
type Engine string

// The engines of [Open]. Each is a package of Debian: chromium, firefox-esr, and webkit2gtk-driver with xvfb.
const (
	Chromium Engine = "Chromium"
	Firefox  Engine = "Firefox"
	WebKit   Engine = "WebKit"
)

// Engines are all engines, in the order of the columns of a table.
var Engines = []Engine{Chromium, Firefox, WebKit}

// Options say how a browser is set up before it starts.
type Options struct {
	NoThirdPartyStorage bool // frames of other sites get no cookies and no storage, as far as the engine can refuse them
	NoScript            bool // pages run no JavaScript; expressions of the test may be refused, too
}

// Keys that the Press of a [Tab] has beside letters and digits. ShiftTab is the only one with a modifier.
const (
	KeyTab      = "\t"
	KeyShiftTab = "\v"
	KeyEnter    = "\r"
	KeyEscape   = "\x1b"
)

// A Tab is a tab of a real browser. Its methods may be called by one goroutine at a time.
type Tab interface {
	// Navigate opens a URL. It returns when the document has been read, even if frames still load.
	Navigate(url string) error
	// Reload and Back do what the buttons of a browser do.
	Reload() error
	Back() error
	// Eval evaluates an expression in the page, waits for a promise, and decodes the result into a
	// pointer, unless that is nil.
	Eval(expression string, into any) error
	// AnyFrame reports whether an expression is true in a frame of the page, however deep and of whatever origin.
	AnyFrame(expression string) (bool, error)
	// ClickAt clicks at a point of the viewport, count times in a row, as a mouse does.
	ClickAt(x, y float64, count int) error
	// Press presses keys, one after the other, as a keyboard does.
	Press(keys string) error
	// ClickFirst clicks the first element of a CSS selector, also where pages run no script.
	ClickFirst(selector string) error
	// FirstText returns the text of the first element of a CSS selector, also where pages run no script.
	FirstText(selector string) (string, error)
	// Accessible returns role and name that assistive technology has of the element that an expression finds.
	Accessible(element string) (role, name string, err error)
	// URL returns the address of the page.
	URL() (string, error)
	// Resize sets the size of the viewport in CSS pixels.
	Resize(width, height int) error
	// PNG returns a picture of the viewport.
	PNG() ([]byte, error)
	// NewTab opens another tab of the same browser and profile.
	NewTab() (Tab, error)
	// Windows returns how many windows and tabs the browser has.
	Windows() (int, error)
	// Close closes the tab. The first tab ends with the test instead.
	Close() error
}

// Open starts a browser with a fresh profile and returns its first tab. The browser ends with the test. Without
// the programs that an engine needs, the test is skipped or, with CI=true, fails.
func Open(t testing.TB, engine Engine, o Options) Tab {
	t.Helper()
	switch engine {
	case Firefox:
		return openFirefox(t, o)
	case WebKit:
		return openWebKit(t, o)
	default:
		return openChromium(t, o)
	}
}

// skipMissing ends a test for which a program is missing.
func skipMissing(t testing.TB, engine Engine, packages string) {
	t.Helper()
	missing := fmt.Sprintf("NO %s: install %s (Debian packages); nothing is tested in this engine without", engine, packages)
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// Click clicks the middle of the element that an expression finds, count times in a row. A click that did not reach the
// element, as one right after the page has scrolled may not, is made again.
func Click(tab Tab, element string, count int) error {
	for range clickTries {
		var at []float64
		err := tab.Eval(fmt.Sprintf(`(() => {
			const e = %s
			if (!e) return null
			e.scrollIntoView({ block: "nearest" })
			let listens = 0 // not where scripts are off
			e.addEventListener("probe", () => (listens = 1), { once: true })
			e.dispatchEvent(new Event("probe"))
			if (listens) {
				globalThis.clickCame = false
				e.addEventListener("click", () => (globalThis.clickCame = true), { once: true, capture: true })
			}
			const r = e.getBoundingClientRect()
			return [r.x + r.width / 2, r.y + r.height / 2, listens]
		})()`, element), &at)
		if err != nil {
			return err
		}
		if len(at) != 3 {
			return fmt.Errorf("no element %s", element)
		}
		if err := tab.ClickAt(at[0], at[1], count); err != nil {
			return err
		}
		var isLost bool
		if err := tab.Eval(`globalThis.clickCame === false`, &isLost); err != nil || !isLost || at[2] == 0 {
			return nil // in a page that has gone nobody can ask
		}
	}
	return fmt.Errorf("no click reaches %s", element)
}

// clickTries is how often a click is made that does not reach its element.
const clickTries = 20

// Wait polls until a condition is met. Its error has the last reason why it was not. The context of a tab ends shortly
// before the time limit of the test binary.
func Wait(ctx context.Context, condition func() (bool, error)) error {
	began := time.Now()
	for {
		is, err := condition()
		if is && err == nil {
			return nil
		}
		if !pause(ctx, began) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// WaitInTest is [Wait] until shortly before the time limit of the test binary.
func WaitInTest(t testing.TB, condition func() (bool, error)) error {
	return Wait(limited(t, t.Context()), condition)
}

// SavePNG writes what the viewport of a tab shows to artifacts/NAME.png at the root of the repository.
func SavePNG(t testing.TB, tab Tab, name string) {
	t.Helper()
	png, err := tab.PNG()
	if err != nil {
		t.Errorf("screenshot %s: %v", name, err)
		return
	}
	save(t, name+".png", png)
}

// SaveText writes a text to artifacts/NAME at the root of the repository.
func SaveText(t testing.TB, name, text string) {
	t.Helper()
	save(t, name, []byte(text))
}

// decodeInto decodes JSON into a pointer, unless that is nil.
func decodeInto(raw json.RawMessage, into any) error {
	if into == nil || len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, into)
}

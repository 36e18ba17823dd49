package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// framedPages returns the address of a page with a button, a frame and a button. In the frame, which is of another
// site, is a frame with a field and a button.
func framedPages(t *testing.T) string {
	t.Helper()
	serve := func(body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = fmt.Fprint(w, `<!doctype html><html lang="en"><title>Page</title>`+body)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	inner := serve(`<input id="field" aria-label="Name"><button id="go">Go</button>`)
	outer := serve(`<iframe id="inner" title="Inner" src="` + inner + `"></iframe>`)
	return serve(`<button id="before">Before</button><iframe id="outer" title="Outer" src="` +
		strings.Replace(outer, "127.0.0.1", "localhost", 1) + `"></iframe><button id="after">After</button>`)
}

// testedEngines returns Chromium, or with BROWSERS=all each engine.
func testedEngines() []Engine {
	if os.Getenv("BROWSERS") == "all" {
		return Engines
	}
	return []Engine{Chromium}
}

// TestB6LookingIntoFramesKeepsTheFocus: Tab goes through page and frames in the same order, whether a test looks into
// the frames between two keys or not. It runs in Chromium, and with BROWSERS=all in the others, too.
func TestB6LookingIntoFramesKeepsTheFocus(t *testing.T) {
	for _, engine := range testedEngines() {
		t.Run(string(engine), func(t *testing.T) {
			page := framedPages(t)
			tab := Open(t, engine, Options{})
			if err := tab.Navigate(page); err != nil {
				t.Fatal(err)
			}
			waitFor(t, tab, `document.activeElement?.localName == "body" && !!document.getElementById("go")`)
			for _, id := range []string{"before", "field", "go", "after"} {
				if err := tab.Press(KeyTab); err != nil {
					t.Fatal(err)
				}
				waitFor(t, tab, `document.hasFocus() && document.activeElement?.id == "`+id+`"`)
			}
		})
	}
}

// TestB6AKeyMayRemoveItsFrame: a frame that is gone before the key is up is no failure of the key, as when Enter
// sends a form of the frame.
func TestB6AKeyMayRemoveItsFrame(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		page := `<iframe title="Inner" src="/inner"></iframe>`
		if r.URL.Path == "/inner" {
			page = `<button id="go" onkeydown="if (event.key == 'Enter') parent.document.querySelector('iframe').remove()">Go</button>`
		}
		_, _ = fmt.Fprint(w, `<!doctype html><html lang="en"><title>Page</title>`+page)
	}))
	t.Cleanup(server.Close)
	for _, engine := range testedEngines() {
		t.Run(string(engine), func(t *testing.T) {
			tab := Open(t, engine, Options{})
			if err := tab.Navigate(server.URL); err != nil {
				t.Fatal(err)
			}
			waitFor(t, tab, `document.activeElement?.localName == "body" && !!document.getElementById("go")`)
			if err := tab.Press(KeyTab); err != nil {
				t.Fatal(err)
			}
			waitFor(t, tab, `document.hasFocus() && document.activeElement?.id == "go"`)
			if err := tab.Press(KeyEnter); err != nil {
				t.Errorf("Enter: %v", err)
			}
			waitFor(t, tab, `document.readyState == "complete" && !document.querySelector("iframe")`)
		})
	}
}

// waitFor waits until an expression is true in the page or in one of its frames, and looks into the frames in any case.
func waitFor(t *testing.T, tab Tab, expression string) {
	t.Helper()
	err := Wait(limited(t, t.Context()), func() (bool, error) {
		inFrame, err := tab.AnyFrame(expression)
		if err != nil || inFrame {
			return inFrame, err
		}
		var inPage bool
		err = tab.Eval(expression, &inPage)
		return inPage, err
	})
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
}

package hosted

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestD60EndsAreAClosedList: each cause has its word, and a later call goes on after unreachable.
func TestD60EndsAreAClosedList(t *testing.T) {
	w := newWorld(t)
	w.openShop()
	for _, end := range []string{"completed", "failed", "cancelled", "expired", "decoupled", "pending"} {
		w.start(w.engine.Add(enginetest.Row{End: end}), "")
		w.ends(end, "begin result end")
	}
	unknown := newSecret() + newSecret()[:21]
	w.start(unknown, "")
	w.ends("expired", "begin end")

	taken := w.engine.Add(enginetest.Row{ACSURL: w.bank + "/challenge"})
	if _, _, err := w.engine.BeginBrowser(t.Context(), taken, newSecret(), session.BrowserData{}); err != nil {
		t.Fatal(err)
	}
	w.start(taken, "")
	w.ends("elsewhere", "begin end")

	// The page has no network. The clock of the page runs so that a minute is over at the third try.
	w.do(chromedp.Evaluate[chromedp.Void](`window.realNow = Date.now; window.jumped = 0; Date.now = () => realNow() + (jumped += 30000); undefined`))
	token := w.engine.Add(enginetest.Row{})
	w.do(chromedp.Evaluate[chromedp.Void](`window.realFetch = fetch; window.fetch = () => Promise.reject(new TypeError("no network")); undefined`))
	w.start(token, "")
	w.ends("unreachable", "begin end")
	w.do(chromedp.Evaluate[chromedp.Void](`window.fetch = realFetch; Date.now = realNow; undefined`))
	w.start(token, "")
	w.ends("completed", "begin result end")
}

// TestD66ArgumentsAreChecked: a bad argument rejects with a TypeError that names it, and nothing is sent.
func TestD66ArgumentsAreChecked(t *testing.T) {
	w := newWorld(t)
	w.openShop()
	token := w.engine.Add(enginetest.Row{})
	good := fmt.Sprintf("url: %q", w.base+"/a/"+token)
	for _, c := range []struct{ member, options string }{
		{"url", ``},
		{"url", `{}`},
		{"url", `{ url: "x" }`},
		{"url", fmt.Sprintf(`{ url: %q }`, w.base+"/a/short")},
		{"url", fmt.Sprintf(`{ url: %q }`, "ftp://localhost/a/"+token)},
		{"url", fmt.Sprintf(`{ url: %q }`, w.base+"/b/"+token)},
		{"size", `{ ` + good + `, size: "06" }`},
		{"size", `{ ` + good + `, size: 3 }`},
		{"size", `{ ` + good + `, size: "toString" }`},
		{"container", `{ ` + good + `, container: "#inline" }`},
		{"locale", `{ ` + good + `, locale: "<b>" }`},
		{"locale", `{ ` + good + `, locale: "` + strings.Repeat("d", 36) + `" }`},
		{"signal", `{ ` + good + `, signal: {} }`},
		{"onStep", `{ ` + good + `, onStep: "log" }`},
	} {
		w.do(chromedp.Evaluate[chromedp.Void](`delete window.fault; call(` + c.options + `).catch((e) => (window.fault = e)); undefined`))
		w.until(`window.fault !== undefined`)
		if got := w.read(`String(fault instanceof TypeError) + " " + fault.message`); !strings.HasPrefix(got, "true "+c.member+": want ") {
			t.Errorf("%s: %s", c.options, got)
		}
	}
	if row := w.engine.Row(token); row.Binding != "" || row.AReqs != 0 {
		t.Errorf("a bad argument has begun the authentication: %+v", row)
	}
}

// TestD66EndIsFrozenAndStepsComeOnce: what a callback throws changes nothing, and the end is a frozen
// pair of id and status.
func TestD66EndIsFrozenAndStepsComeOnce(t *testing.T) {
	w := newWorld(t)
	w.openShop()
	token := w.engine.Add(enginetest.Row{MethodURL: w.bank + "/method", ACSURL: w.bank + "/challenge?pass"})
	w.start(token, `onStep: (s) => { steps.push(s); throw new Error("a fault of the page") }`)
	w.until(`window.end !== undefined`)
	want := fmt.Sprintf(`true id,status %s`, w.engine.Row(token).View.ID)
	if got := w.read(`Object.isFrozen(end) + " " + Object.keys(end) + " " + end.id`); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	w.ends("completed", "begin method challenge result end")

	// A signal that is aborted is the shopper who cancels, before as well as during the challenge.
	w.do(chromedp.Evaluate[chromedp.Void](`window.early = AbortSignal.abort(); window.late = new AbortController(); undefined`))
	token = w.engine.Add(enginetest.Row{ACSURL: w.bank + "/challenge"})
	w.start(token, `signal: early`)
	w.ends("cancelled", "begin end")
	token = w.engine.Add(enginetest.Row{ACSURL: w.bank + "/challenge"})
	w.start(token, `signal: late.signal`)
	w.until("!!" + mark("challenge"))
	w.engine.Lose("state") // The state of the challenge changes, and an answer is lost: the challenge is told once all the same.
	w.engine.SetStep(token, session.StepChallenge)
	w.until(`performance.getEntriesByType("resource").filter((e) => e.name.includes("/a/state")).length > 2`)
	w.do(chromedp.Evaluate[chromedp.Void](`late.abort(); undefined`))
	w.ends("cancelled", "begin challenge end")
	if got := w.engine.Row(token).View.End; got != "cancelled" {
		t.Errorf("the server has %q", got)
	}
}

// TestD74LostAnswersAreAskedForAgain: a step whose answer is lost is tried again, and no try causes a second AReq.
func TestD74LostAnswersAreAskedForAgain(t *testing.T) {
	w := newWorld(t)
	w.openShop()
	for _, c := range []struct {
		name, steps string
		row         enginetest.Row
	}{
		{"frictionless", "begin result end", enginetest.Row{}},
		{"a text to confirm", "begin result end", enginetest.Row{Info: "Please call"}},
		{"challenge", "begin challenge result end", enginetest.Row{ACSURL: "/challenge?pass"}},
	} {
		if c.row.ACSURL != "" {
			c.row.ACSURL = w.bank + c.row.ACSURL
		}
		token := w.engine.Add(c.row)
		w.engine.Lose("begin", "state", "finish")
		w.start(token, "")
		if c.row.Info != "" {
			w.until("!!" + mark("continue"))
			w.do(chromedp.KeyEvent("\r"))
		}
		w.ends("completed", c.steps)
		if n := w.engine.Row(token).AReqs; n != 1 {
			t.Errorf("%s: %d AReqs, want 1", c.name, n)
		}
	}
}

// TestD61PolicyIsEnough: a page that allows nothing but script, connection and frame of B shows a whole challenge, and
// its browser reports no violation.
func TestD61PolicyIsEnough(t *testing.T) {
	w := newWorld(t)
	w.openShop()
	w.do(chromedp.Evaluate[chromedp.Void](`window.violations = []
document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI)); undefined`))
	token := w.engine.Add(enginetest.Row{MethodURL: w.bank + "/method", ACSURL: w.bank + "/challenge"})
	w.start(token, "")
	w.until("!!" + mark("challenge"))
	w.do(chromedp.KeyEvent("\x1b"))
	w.until("!!" + mark("confirm-cancel"))
	w.do(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	w.ends("cancelled", "begin method challenge end")
	if got := w.read(`violations.join("; ")`); got != "" {
		t.Errorf("the policy was violated: %s", got)
	}
}

// measuringBank is the page of an issuer that tells how large its frame is, and what it may use there.
const measuringBank = `<!doctype html><html lang="en"><title>Bank</title><h1>Test bank</h1><script>
addEventListener("load", () => fetch("/measured", { method: "POST", body: [innerWidth, innerHeight,
	document.featurePolicy.allowsFeature("payment"), document.featurePolicy.allowsFeature("publickey-credentials-get"),
	document.featurePolicy.allowsFeature("camera")].join(" ") }))
</script>`

// TestB5FramesAreOfTheProtocol: the page of the bank has one of the sizes of the protocol, without margins, and may use
// what the protocol allows, and no camera. The frame around it names the origin of the bank.
func TestB5FramesAreOfTheProtocol(t *testing.T) {
	w := newWorld(t)
	measured := make(chan string, 1)
	bank := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/measured" {
			body, _ := io.ReadAll(r.Body)
			measured <- string(body)
			return
		}
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(rw, measuringBank)
	}))
	t.Cleanup(func() {
		bank.CloseClientConnections()
		bank.Close()
	})
	for _, c := range []struct {
		size, container string
		width, height   int
	}{
		{"01", "null", 250, 400},
		{"02", "null", 390, 400},
		{"03", "null", 500, 600},
		{"04", "null", 600, 400},
		{"01", "inline", 250, 400},
		{"03", "inline", 500, 600},
		{"04", "inline", 600, 400},
		{"05", "null", 1280, 0},
	} {
		w.openShop()
		token := w.engine.Add(enginetest.Row{ACSURL: bank.URL + "/acs"})
		w.start(token, fmt.Sprintf("size: %q, container: document.getElementById(%q)", c.size, c.container))
		w.until("!!" + mark("challenge"))
		if c.height == 0 {
			c.height, _ = strconv.Atoi(w.read("String(Math.round(" + mark("challenge") + ".getBoundingClientRect().height))"))
			if c.height < 650 {
				t.Errorf("size 05: the frame is %d high of 800", c.height)
			}
		}
		if got, want := <-measured, fmt.Sprintf("%d %d true true false", c.width, c.height); got != want {
			t.Errorf("size %s, container %s: the bank measures %s, want %s", c.size, c.container, got, want)
		}
		want := fmt.Sprintf("payment %[1]s %[2]s; publickey-credentials-get %[1]s %[2]s", w.base, bank.URL)
		if got := w.read(mark("challenge") + ".allow"); got != want {
			t.Errorf("size %s: the outer frame allows %q, want %q", c.size, got, want)
		}
	}

	// The frame of the method is hidden, but there: a frame that is not displayed may not be loaded.
	w.openShop()
	w.start(w.engine.Add(enginetest.Row{MethodURL: w.bank + "/method?silent", MethodEnd: time.Hour}), "")
	w.until("!!" + mark("method"))
	if got := w.read(`(({ visibility, display }) => visibility + " " + display)(getComputedStyle(` + mark("method") + `))`); got != "hidden block" {
		t.Errorf("the frame of the method: %s", got)
	}
}

// TestD70SandboxOfEachVersion: the frame of the bank has the sandbox of its version.
func TestD70SandboxOfEachVersion(t *testing.T) {
	const sandbox = "allow-forms allow-scripts allow-same-origin" // EMV 3DS 2.3.1, table A.24
	w := newGridWorld(t, browsertest.Chromium, browsertest.Options{})
	for _, c := range []struct {
		row  enginetest.Row
		want string
	}{
		{enginetest.Row{MethodURL: w.bank + "/method?silent", MethodEnd: time.Hour}, sandbox},
		{enginetest.Row{ACSURL: w.bank + "/challenge", Version: "2.3.1"}, sandbox + " allow-pointer-lock"},
		{enginetest.Row{ACSURL: w.bank + "/challenge", Version: "2.2.0"}, sandbox + " allow-pointer-lock allow-popups"},
		{enginetest.Row{ACSURL: w.bank + "/challenge", Version: "2.1.0"}, sandbox + " allow-pointer-lock allow-popups"},
	} {
		w.pay(w.engine.Add(c.row))
		w.poll(c.row.Version+": "+c.want, func() (bool, error) {
			return w.tab.AnyFrame(fmt.Sprintf(`document.querySelector("iframe[name=bank]")?.sandbox.value === %q`, c.want))
		})
	}
}

// TestD66ExportsAuthenticateAndVersion: the module has two names, and its version is that of the package.
func TestD66ExportsAuthenticateAndVersion(t *testing.T) {
	w := newGridWorld(t, browsertest.Chromium, browsertest.Options{})
	w.openShop("")
	text, err := os.ReadFile(filepath.Join(browsertest.Root(t), "web", "package.json"))
	w.must(err)
	var pkg struct{ Version string }
	w.must(json.Unmarshal(text, &pkg))
	var got string
	w.must(w.tab.Eval(fmt.Sprintf(`import(%q).then((m) => Object.keys(m).sort() + " " + m.version)`, w.base+"/threeds.js"), &got))
	if want := "authenticate,version " + pkg.Version; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

package browsertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/porttest"
)

// narrowStyle lets the window of the MiniBrowser be as narrow as a phone: its buttons and fields take
// no more than they show.
const narrowStyle = `* { min-width: 0; padding: 0; margin: 0; border-width: 0 }`

// openWebKit starts Xvfb, WebKitWebDriver and, through it, the MiniBrowser of WebKitGTK.
func openWebKit(t testing.TB, o Options) Tab {
	t.Helper()
	driver, noDriver := exec.LookPath("WebKitWebDriver")
	screen, noScreen := exec.LookPath("Xvfb")
	found, _ := filepath.Glob("/usr/lib*/*/webkit2gtk-4.*/MiniBrowser")
	if noDriver != nil || noScreen != nil || len(found) == 0 {
		skipMissing(t, WebKit, "webkit2gtk-driver and xvfb")
	}
	home, err := os.MkdirTemp("", "webkittest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	style := filepath.Join(home, ".config", "gtk-3.0", "gtk.css")
	if err := errors.Join(os.MkdirAll(filepath.Dir(style), 0o700), os.WriteFile(style, []byte(narrowStyle), 0o600)); err != nil {
		t.Fatal(err)
	}
	display := startXvfb(t, screen)
	_, port, _ := net.SplitHostPort(porttest.Address(t))
	command := exec.Command(driver, "--port="+port)
	command.Env = append(os.Environ(), "DISPLAY="+display, "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"),
		"NO_AT_BRIDGE=1", "GTK_A11Y=none", "GDK_BACKEND=x11")
	startProgram(t, command)
	w := &webKit{base: "http://127.0.0.1:" + port}
	args := []string{"--automation"}
	if o.NoThirdPartyStorage {
		args = append(args, "--cookies-policy=no-third-party", "--enable-itp")
	}
	if o.NoScript {
		args = append(args, "--enable-javascript=FALSE")
	}
	capabilities := map[string]any{
		"pageLoadStrategy": "eager", "unhandledPromptBehavior": "accept",
		"timeouts":                 map[string]any{"pageLoad": 120_000, "script": 60_000},
		"webkitgtk:browserOptions": map[string]any{"binary": found[0], "args": args},
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var session struct{ SessionID string }
	err = Wait(ctx, func() (bool, error) {
		err := w.call("NewSession", map[string]any{"capabilities": map[string]any{"alwaysMatch": capabilities}}, &session)
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("%s: %v", driver, err)
	}
	w.base += "/session/" + session.SessionID
	t.Cleanup(func() { _ = w.call("DeleteSession", nil, nil) }) // ends the browser, or its driver ends it
	tab, err := newWebDriverTab(w)
	if err != nil {
		t.Fatalf("%s: %v", driver, err)
	}
	tab.window, tab.movesFocus = "window", true
	return tab
}

// startXvfb starts a screen that nobody sees and returns its display.
func startXvfb(t testing.TB, program string) string {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	command := exec.Command(program, "-displayfd", "3", "-screen", "0", "1600x1200x24", "-nolisten", "tcp")
	command.ExtraFiles = []*os.File{writer}
	startProgram(t, command)
	_ = writer.Close() // the process has its own
	_ = reader.SetReadDeadline(time.Now().Add(startLimit))
	number, err := bufio.NewReader(reader).ReadString('\n') // it ends if nobody reads the end of the line
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return ":" + strings.TrimSpace(number)
}

// startProgram starts a process that ends with the test.
func startProgram(t testing.TB, command *exec.Cmd) {
	t.Helper()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		select {
		case <-ended:
		case <-time.After(endLimit):
			_ = command.Process.Kill()
			<-ended
		}
	})
}

// A webKit sends the commands of W3C WebDriver over HTTP.
type webKit struct {
	base string // with the session, as soon as there is one
}

// webDriverPaths are method and path of each command; {id} is that of an element.
var webDriverPaths = map[string]string{
	"NewSession":          "POST /session",
	"DeleteSession":       "DELETE ",
	"GetWindowHandle":     "GET /window",
	"GetWindowHandles":    "GET /window/handles",
	"SwitchToWindow":      "POST /window",
	"NewWindow":           "POST /window/new",
	"CloseWindow":         "DELETE /window",
	"GetWindowRect":       "GET /window/rect",
	"SetWindowRect":       "POST /window/rect",
	"Navigate":            "POST /url",
	"GetCurrentURL":       "GET /url",
	"Refresh":             "POST /refresh",
	"Back":                "POST /back",
	"ExecuteScript":       "POST /execute/sync",
	"SwitchToFrame":       "POST /frame",
	"SwitchToParentFrame": "POST /frame/parent",
	"PerformActions":      "POST /actions",
	"FindElement":         "POST /element",
	"ElementClick":        "POST /element/{id}/click",
	"GetElementText":      "GET /element/{id}/text",
	"GetComputedRole":     "GET /element/{id}/computedrole",
	"GetComputedLabel":    "GET /element/{id}/computedlabel",
	"TakeScreenshot":      "GET /screenshot",
}

func (w *webKit) call(command string, params map[string]any, into any) error {
	method, path, _ := strings.Cut(webDriverPaths[command], " ")
	if id, is := params["id"].(string); is {
		path = strings.Replace(path, "{id}", id, 1)
	}
	if params == nil {
		params = map[string]any{}
	}
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	// A command to a page or frame that goes on to another one at the same moment gets no answer. Callers ask again.
	limit := time.Minute
	if strings.HasPrefix(command, "SwitchTo") || command == "ExecuteScript" || command == "FindElement" {
		limit = 15 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, w.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer struct{ Value json.RawMessage }
	if err := json.Unmarshal(raw, &answer); err != nil {
		return errors.Join(fmt.Errorf("%s: %s", command, response.Status), err)
	}
	if response.StatusCode != http.StatusOK {
		var refused struct{ Error, Message string }
		_ = json.Unmarshal(answer.Value, &refused)
		return fmt.Errorf("%s: %s: %s", command, refused.Error, refused.Message)
	}
	return decodeInto(answer.Value, into)
}

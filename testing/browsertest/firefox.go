package browsertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// firefoxPreferences keep Firefox from traffic of its own, and from windows that nobody has asked for.
var firefoxPreferences = map[string]any{
	"app.normandy.enabled":                               false,
	"app.update.disabledForTesting":                      true,
	"browser.aboutConfig.showWarning":                    false,
	"browser.contentblocking.category":                   "custom",
	"browser.safebrowsing.malware.enabled":               false,
	"browser.safebrowsing.phishing.enabled":              false,
	"browser.shell.checkDefaultBrowser":                  false,
	"browser.startup.homepage":                           "about:blank",
	"browser.startup.page":                               0,
	"datareporting.policy.dataSubmissionEnabled":         false,
	"dom.max_script_run_time":                            0,
	"extensions.getAddons.cache.enabled":                 false,
	"marionette.port":                                    0, // the system chooses; the file of the profile has it
	"network.captive-portal-service.enabled":             false,
	"network.connectivity-service.enabled":               false,
	"network.dns.disablePrefetch":                        true,
	"network.prefetch-next":                              false,
	"services.settings.server":                           "data:,",
	"toolkit.telemetry.enabled":                          false,
	"toolkit.telemetry.server":                           "data:,",
	"browser.newtabpage.activity-stream.feeds.topsites":  false,
	"browser.newtabpage.enabled":                         false,
	"browser.topsites.contile.enabled":                   false,
	"extensions.webcompat.enable_interventions":          false,
	"nimbus.rollouts.enabled":                            false,
	"privacy.trackingprotection.enabled":                 false,
	"browser.tabs.unloadOnLowMemory":                     false,
	"accessibility.tabfocus":                             7, // as on Windows and Linux, also elsewhere
	"layout.testing.overlay-scrollbars.always-visible":   false,
	"browser.sessionstore.resume_from_crash":             false,
	"toolkit.cosmeticAnimations.enabled":                 false,
	"browser.translations.enable":                        false,
	"security.sandbox.warn_unprivileged_namespaces":      false,
	"media.gmp-manager.updateEnabled":                    false,
	"browser.ml.enable":                                  false,
	"network.http.speculative-parallel-limit":            0,
	"browser.search.suggest.enabled":                     false,
	"browser.urlbar.suggest.searches":                    false,
	"extensions.systemAddon.update.enabled":              false,
	"dom.push.connection.enabled":                        false,
	"browser.region.network.url":                         "",
	"geo.provider.testing":                               true,
	"browser.discovery.enabled":                          false,
	"browser.messaging-system.whatsNewPanel.enabled":     false,
	"messaging-system.rsexperimentloader.enabled":        false,
	"browser.newtabpage.activity-stream.showSponsored":   false,
	"browser.newtabpage.activity-stream.discoverystream": false,
}

func openFirefox(t testing.TB, o Options) Tab {
	t.Helper()
	program, err := exec.LookPath("firefox-esr")
	if err != nil {
		program, err = exec.LookPath("firefox")
	}
	if err != nil {
		skipMissing(t, Firefox, "firefox-esr")
	}
	home, err := os.MkdirTemp("", "firefoxtest")
	if err != nil {
		t.Fatal(err)
	}
	profile := filepath.Join(home, "profile")
	if err := errors.Join(os.MkdirAll(profile, 0o700), writeFirefoxPreferences(profile, o)); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "-headless", "-marionette", "-remote-allow-system-access", "-no-remote", "-profile", profile)
	command.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home,
		"MOZ_CRASHREPORTER_DISABLE=1", "MOZ_HEADLESS_WIDTH=1280", "MOZ_HEADLESS_HEIGHT=900")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	var m *marionette
	t.Cleanup(func() {
		if m != nil {
			_ = m.callRaw("Marionette:Quit", map[string]any{"flags": []string{"eForceQuit"}}, nil) // it may hang up first
			_ = m.connection.Close()
		}
		select {
		case <-ended:
		case <-time.After(endLimit):
			_ = command.Process.Kill()
			<-ended
		}
		_ = os.RemoveAll(home)
	})
	m, err = dialMarionette(profile, ended)
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	capabilities := map[string]any{
		"pageLoadStrategy": "eager", "unhandledPromptBehavior": "accept",
		"timeouts": map[string]any{"pageLoad": 120_000, "script": 60_000},
	}
	if err := m.call("NewSession", map[string]any{"capabilities": map[string]any{"alwaysMatch": capabilities}}, nil); err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	tab, err := newWebDriverTab(m)
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	tab.hasBack = true
	tab.setWidth = func(width, height int) error { return m.setViewport(width, height) }
	return tab
}

func writeFirefoxPreferences(profile string, o Options) error {
	var text strings.Builder
	add := func(name string, value any) {
		written, _ := json.Marshal(value) // strings, numbers and booleans
		fmt.Fprintf(&text, "user_pref(%q, %s);\n", name, written)
	}
	for name, value := range firefoxPreferences {
		add(name, value)
	}
	if o.NoThirdPartyStorage {
		add("network.cookie.cookieBehavior", 1)
	}
	if o.NoScript {
		add("javascript.enabled", false)
	}
	return os.WriteFile(filepath.Join(profile, "user.js"), []byte(text.String()), 0o600)
}

// A marionette is a connection to Firefox's port for automation. Messages are JSON arrays with
// their length before them.
type marionette struct {
	connection net.Conn
	reader     *bufio.Reader
	last       int
}

// dialMarionette waits until Firefox has written its port to the profile, and connects.
func dialMarionette(profile string, ended <-chan error) (*marionette, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var m *marionette
	err := Wait(ctx, func() (bool, error) {
		select {
		case err := <-ended:
			cancel()
			return false, fmt.Errorf("the browser has ended: %v", err)
		default:
		}
		port, err := os.ReadFile(filepath.Join(profile, "MarionetteActivePort"))
		if err != nil {
			return false, err
		}
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+strings.TrimSpace(string(port)))
		if err != nil {
			return false, err
		}
		m = &marionette{connection: connection, reader: bufio.NewReader(connection)}
		_, err = m.read() // what it says of itself
		return true, err
	})
	return m, err
}

func (m *marionette) read() ([]byte, error) {
	_ = m.connection.SetReadDeadline(time.Now().Add(startLimit)) // a closed connection tells so itself
	length, err := m.reader.ReadString(':')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSuffix(length, ":"))
	if err != nil {
		return nil, err
	}
	message := make([]byte, n)
	_, err = io.ReadFull(m.reader, message)
	return message, err
}

func (m *marionette) call(command string, params map[string]any, into any) error {
	if id, is := params["id"].(map[string]string); is && command == "SwitchToFrame" {
		params = map[string]any{"element": id[elementKey]}
	}
	err := m.callRaw("WebDriver:"+command, params, into)
	if command == "PerformActions" && hasPageGone(err) {
		return nil // what the test waits for next shows whether the actions had their effect
	}
	return err
}

// hasPageGone reports whether the answer to actions was lost because one of them led to another page, or
// removed the frame that they were in. Firefox ends the command with whichever exception comes first, so there
// is no one text to look for.
func hasPageGone(err error) bool {
	return err != nil && (strings.Contains(err.Error(), ": unknown error: ") || strings.Contains(err.Error(), ": no such window: "))
}

func (m *marionette) callRaw(command string, params map[string]any, into any) error {
	m.last++
	if params == nil {
		params = map[string]any{}
	}
	message, err := json.Marshal([]any{0, m.last, command, params})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(m.connection, "%d:%s", len(message), message); err != nil {
		return err
	}
	answer, err := m.read()
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	var parts [4]json.RawMessage
	if err := json.Unmarshal(answer, &parts); err != nil {
		return err
	}
	if string(parts[2]) != "null" {
		var refused struct{ Error, Message string }
		_ = json.Unmarshal(parts[2], &refused)
		return fmt.Errorf("%s: %s: %s", command, refused.Error, refused.Message)
	}
	return decodeInto(unwrapValue(parts[3]), into)
}

// unwrapValue returns the member value of an object that has no other.
func unwrapValue(raw json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) == nil && len(members) == 1 && members["value"] != nil {
		return members["value"]
	}
	return raw
}

// setViewport sets the size of what shows the page, which may be narrower than a window of Firefox can be.
func (m *marionette) setViewport(width, height int) error {
	if err := m.callRaw("Marionette:SetContext", map[string]any{"value": "chrome"}, nil); err != nil {
		return err
	}
	script := `
		const [width, height] = arguments
		for (const b of gBrowser.browsers) {
			b.style.setProperty("width", width + "px"); b.style.setProperty("height", height + "px")
			b.style.setProperty("min-width", width + "px"); b.style.setProperty("min-height", height + "px")
			b.style.setProperty("max-width", width + "px"); b.style.setProperty("max-height", height + "px")
		}`
	err := m.callRaw("WebDriver:ExecuteScript", map[string]any{"script": script, "args": []any{width, height}}, nil)
	return errors.Join(err, m.callRaw("Marionette:SetContext", map[string]any{"value": "content"}, nil))
}

package browser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"golang.org/x/sys/unix"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/browsertest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestT1BrowserInAnotherNetworkNamespace: Chromium completes a challenge of a sandbox in another
// network namespace, which it reaches only by one proxy that ends TLS.
func TestT1BrowserInAnotherNetworkNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a sandbox in another network namespace: only root makes one")
	}
	ip := rig.FindTool(t, "ip", "a sandbox in another network namespace")
	name := fmt.Sprintf("threeds%d", os.Getpid())
	command := func(args ...string) error {
		out, err := exec.Command(ip, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	// The namespace has no link to this one: Chromium breaks off what it loads when the interfaces of the machine change.
	for _, line := range []string{
		"netns add " + name,
		"-n " + name + " address add 198.18.77.2/32 dev lo",
		"-n " + name + " link set lo up",
	} {
		if err := command(strings.Fields(line)...); err != nil {
			_ = command("netns", "del", name)
			t.Skipf("NOT TESTED: a sandbox in another network namespace: %v", err)
		}
	}
	t.Cleanup(func() { rig.Must(t, command("netns", "del", name)) })

	proxy, origin, port := newProxy(t)
	file := filepath.Join(t.TempDir(), "ready.json")
	sandbox := &rig.Process{T: t, Cmd: exec.Command(ip, "netns", "exec", name, "threeds", "sandbox",
		"--listen", "198.18.77.2:8080", "--public-url", origin, "--ready-file", file)}
	sandbox.Start()
	waittest.Until(t, "the ready file", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialIn(ctx, "/run/netns/"+name, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	forward(proxy, "198.18.77.2:8080", transport)

	wrapper := filepath.Join(t.TempDir(), "chromium")
	program := rig.FindTool(t, "chromium", "a browser in another network namespace")
	script := fmt.Sprintf("#!/bin/sh\nexec %s --ignore-certificate-errors "+
		"--host-resolver-rules='MAP example.com:%s 127.0.0.1:%s' \"$@\"\n", program, port, port)
	rig.Must(t, os.WriteFile(wrapper, []byte(script), 0o700))
	t.Setenv("CHROMIUM", wrapper)
	ctx := browsertest.NewBrowser(t)
	id := func(name string) chromedp.CSS { return chromedp.CSS(`[data-testid="` + name + `"]`) }
	do := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, steps...); err != nil {
			t.Fatalf("%v; the sandbox says: %s", err, sandbox.Log)
		}
	}
	do(browsertest.View(1280, 800, "light"), chromedp.Navigate(origin+"/steps"), browsertest.WaitVisible(id("pay")),
		chromedp.SetValue(id("card-number"), "4000001234560072"), chromedp.Click(id("pay")))
	browsertest.InFrame(t, ctx, `document.readyState === "complete" && document.querySelector("#otp") !== null`)
	browsertest.InFrame(t, ctx, fmt.Sprintf(`location.href.startsWith(%q)`, origin+"/acs/challenge/"))
	browsertest.InFrame(t, ctx, `(document.querySelector("#otp").value = "123456") &&
		!document.querySelector("[data-testid=challenge-submit]").click()`)
	do(browsertest.WaitVisible(id("result-word")))
	if got, err := chromedp.Run(ctx, chromedp.TextContent(id("result-status"))); err != nil || strings.TrimSpace(got) != "Y" {
		t.Errorf("the result is %q, %v", got, err)
	}
	sandbox.End(syscall.SIGTERM)
}

// dialIn opens a connection in the network namespace that a file stands for.
func dialIn(ctx context.Context, namespace, network, address string) (net.Conn, error) {
	type dialed struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialed, 1)
	go func() {
		runtime.LockOSThread() // for ever: a thread that has changed its namespace ends with this goroutine
		conn, err := func() (net.Conn, error) {
			file, err := os.Open(namespace)
			if err != nil {
				return nil, err
			}
			if err := errors.Join(unix.Setns(int(file.Fd()), unix.CLONE_NEWNET), file.Close()); err != nil {
				return nil, err
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}()
		done <- dialed{conn, err}
	}()
	d := <-done
	return d.conn, d.err
}

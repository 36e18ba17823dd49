// Package browsertest gives tests a real Chromium: headless, with a fresh profile, and without network traffic of its
// own. Call [NewBrowser] and give the context that it returns to package chromedp.
//
// It uses an installed browser and never downloads one. If there is none the test is skipped
// or, with CI=true, fails.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Limit is how long all steps of one browser may take together, on a busy machine and
// with the tests of a package that share it, too.
const Limit = 15 * time.Minute

// NewBrowser starts a browser of its own for a test and returns the context of
// a tab in it. The browser ends with the test. Flags are further ones of the command
// line, such as "--lang=da".
func NewBrowser(t testing.TB, flags ...string) context.Context {
	t.Helper()
	return newBrowser(t, "", flags...)
}

// newBrowser is NewBrowser with preferences of the profile as JSON.
func newBrowser(t testing.TB, preferences string, flags ...string) context.Context {
	t.Helper()
	program := find(t)
	profile, err := os.MkdirTemp("", "browsertest")
	if err != nil {
		t.Fatal(err)
	}
	if preferences != "" {
		file := filepath.Join(profile, "Default", "Preferences")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(preferences), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program),
		chromedp.UserDataDir(profile),
		chromedp.WSURLReadTimeout(30 * time.Second),
		chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck,
		chromedp.Headless,
		chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-default-apps", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("disable-extensions", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("metrics-recording-only", true),
		chromedp.Flag("no-pings", true),
		chromedp.Flag("password-store", "basic"),
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's own does not work for root
	}
	for _, flag := range flags {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if hasValue {
			options = append(options, chromedp.Flag(name, value))
		} else {
			options = append(options, chromedp.Flag(name, true))
		}
	}
	allocator, cancelBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	tab, cancelTab := chromedp.NewContext(allocator)
	ctx, cancelLimit := context.WithTimeout(tab, Limit)
	t.Cleanup(func() {
		cancelLimit()
		end, cancel := context.WithTimeout(tab, 10*time.Second)
		defer cancel()
		_ = chromedp.Cancel(end) // waits for the browser to end; later it is killed
		cancelTab()
		cancelBrowser()
		_ = os.RemoveAll(profile)
	})
	if err := chromedp.Do(tab); err != nil { // with tab, not ctx: the browser ends with the context that started it
		t.Fatalf("browser %s: %v", program, err)
	}
	return ctx
}

// find returns the browser to use: $CHROMIUM, or Debian's, or one in PATH.
func find(t testing.TB) string {
	t.Helper()
	names := []string{"/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome"}
	if named := os.Getenv("CHROMIUM"); named != "" {
		names = []string{named}
	}
	for _, name := range names {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	const missing = "NO BROWSER: install chromium, or set CHROMIUM to its path; nothing of the browser flow is tested without"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// View sets the size of the tab's viewport in CSS pixels and its colour
// scheme, "light" or "dark".
func View(width, height int64, scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// IssuerFrame waits until an iframe shows a page of an issuer, and returns its node for
// chromedp.FromNode. An issuer is of another origin, or of the sandbox under one address
// with the shop. The node of a frame that still has a page of the shop would be useless as
// soon as the frame goes on to another one.
func IssuerFrame(t testing.TB, ctx context.Context, selector string) *chromedp.Node {
	t.Helper()
	shown := fmt.Sprintf(`(() => {
		const frame = document.querySelector(%q), page = frame?.contentDocument
		return page === null || page?.readyState === "complete" && page.location.pathname.startsWith("/acs/")
	})()`, selector)
	if err := chromedp.Do(ctx, chromedp.Poll[chromedp.Void](shown), chromedp.WaitVisible(chromedp.CSS(selector))); err != nil {
		t.Fatalf("frame %s: %v", selector, err)
	}
	frames, err := chromedp.Run(ctx, chromedp.Nodes(chromedp.CSS(selector)))
	if err != nil {
		t.Fatalf("frame %s: %v", selector, err)
	}
	return frames[0]
}

// InFrame waits until an expression is true in the first iframe of the page. Unlike
// chromedp.FromNode it works while the frame goes from one page to the next.
func InFrame(t testing.TB, ctx context.Context, expression string) {
	t.Helper()
	for {
		is, err := inFrame(ctx, expression)
		if is {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("in the frame, %s: %v", expression, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func inFrame(ctx context.Context, expression string) (bool, error) {
	tree, err := chromedp.Call(ctx, page.GetFrameTree, cdp.Empty{})
	if err != nil || len(tree.FrameTree.ChildFrames) == 0 {
		return false, err
	}
	world, err := chromedp.Call(ctx, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: tree.FrameTree.ChildFrames[0].Frame.ID})
	if err != nil {
		return false, err
	}
	return chromedp.Run(ctx, chromedp.Evaluate[bool](expression, func(p *runtime.EvaluateParams) { p.ContextID = world.ExecutionContextID }))
}

// InAnyFrame reports whether an expression is true in one of the frames of the page, however deep and of whatever origin.
func InAnyFrame(ctx context.Context, expression string) (bool, error) {
	tree, err := chromedp.Call(ctx, page.GetFrameTree, cdp.Empty{})
	if err != nil {
		return false, err
	}
	all := tree.FrameTree.ChildFrames
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].ChildFrames...)
		world, err := chromedp.Call(ctx, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: all[i].Frame.ID})
		if err != nil {
			continue // the frame has gone on to another page
		}
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression, func(p *runtime.EvaluateParams) { p.ContextID = world.ExecutionContextID }))
		if err == nil && is {
			return true, nil
		}
	}
	return false, nil
}

// Screenshot writes what the tab's viewport shows to artifacts/NAME.png at the
// root of the module.
func Screenshot(t testing.TB, ctx context.Context, name string) {
	t.Helper()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatalf("screenshot %s: %v", name, err)
	}
	save(t, name+".png", png)
}

// FullScreenshot is Screenshot for the whole page, however long it is.
func FullScreenshot(t testing.TB, ctx context.Context, name string) {
	t.Helper()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatalf("screenshot %s: %v", name, err)
	}
	save(t, name+".png", png)
}

func save(t testing.TB, name string, content []byte) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "artifacts", name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above %s", start)
		}
	}
}

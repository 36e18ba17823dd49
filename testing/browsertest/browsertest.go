// Package browsertest gives tests a real Chromium: headless, with a fresh profile, and without network traffic of its
// own. Call [NewBrowser] and give the context that it returns to package chromedp. Call [Main] in TestMain, so that the
// tests of a package share one process.
//
// It uses an installed browser and never downloads one. If there is none the test is skipped
// or, with CI=true, fails.
package browsertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// NewBrowser returns the context of a new tab, for the test alone, with cookies and storage of its own. The tab ends
// with the test. In a package whose TestMain calls [Main], all tests share one browser process. A test with further
// flags for the command line, such as "--lang=da", has a process of its own. It is the whole Chromium, unless the flags
// are of the network alone.
func NewBrowser(t testing.TB, flags ...string) context.Context {
	t.Helper()
	if len(flags) == 0 && shared.isOn {
		return shared.newTab(t)
	}
	return startBrowser(t, "", flags...)
}

// shared is the browser process of all tests of a package.
var shared sharedBrowser

// A sharedBrowser is started by the first test that needs it, and ends with the package.
type sharedBrowser struct {
	isOn bool // TestMain ends the browser

	mu      sync.Mutex
	browser *process
}

// Main runs the tests of a package and ends the browser that they share. TestMain calls it and
// exits with what it returns.
func Main(m *testing.M) int {
	shared.isOn = true
	code := m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.browser != nil {
		shared.browser.end()
	}
	return code
}

// newTab returns a tab in a profile of its own. A browser that has crashed is started again.
func (s *sharedBrowser) newTab(t testing.TB) context.Context {
	t.Helper()
	program := find(t, smallFirst)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.browser != nil && s.browser.tab.Err() != nil {
		s.browser.end()
		s.browser = nil
	}
	if s.browser == nil {
		browser, err := startProcess(program, sharedPreferences)
		if err != nil {
			t.Fatal(err)
		}
		s.browser = browser
	}
	tab, cancel := chromedp.NewContext(s.browser.tab, chromedp.WithNewBrowserContext())
	if err := chromedp.Do(tab); err != nil {
		cancel()
		t.Fatalf("a new tab of %s: %v", program, err)
	}
	t.Cleanup(cancel)
	return limited(t, tab)
}

// sharedPreferences allow frames of other sites cookies, which profiles beside the first one are refused otherwise.
const sharedPreferences = `{"profile":{"block_third_party_cookies":false,"cookie_controls_mode":0}}`

// startBrowser starts a process that ends with the test and returns the context of its tab.
func startBrowser(t testing.TB, preferences string, flags ...string) context.Context {
	t.Helper()
	programs := smallFirst
	if preferences != "" || slices.ContainsFunc(flags, isForWholeChromium) {
		programs = wholeFirst
	}
	browser, err := startProcess(find(t, programs), preferences, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(browser.end)
	return limited(t, browser.tab)
}

// isForWholeChromium reports whether chromium-headless-shell may ignore a flag. It follows those of the network.
func isForWholeChromium(flag string) bool {
	name, _, _ := strings.Cut(flag, "=")
	return name != "--host-resolver-rules" && name != "--ignore-certificate-errors-spki-list"
}

// reportTime is what is kept of the time limit of the test binary, so that a test that waits for ever can say for what.
const reportTime = 30 * time.Second

// limited returns a context that ends shortly before the time limit of the test binary (go test -timeout).
func limited(t testing.TB, ctx context.Context) context.Context {
	test, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return ctx
	}
	deadline, ok := test.Deadline()
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(-reportTime))
	t.Cleanup(cancel)
	return ctx
}

// A process is a browser with a fresh profile.
type process struct {
	tab     context.Context
	profile string
	cancel  []func()
}

// startProcess starts a browser with preferences of its profile as JSON, and further flags.
func startProcess(program, preferences string, flags ...string) (*process, error) {
	profile, err := os.MkdirTemp("", "browsertest")
	if err != nil {
		return nil, err
	}
	if preferences != "" {
		file := filepath.Join(profile, "Default", "Preferences")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(preferences), 0o600)); err != nil {
			return nil, err
		}
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program),
		chromedp.UserDataDir(profile),
		chromedp.WSURLReadTimeout(startLimit),
		chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck,
		chromedp.Headless,
		chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-background-timer-throttling", true),
		chromedp.Flag("disable-breakpad", true),
		chromedp.Flag("disable-client-side-phishing-detection", true),
		chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-default-apps", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("disable-extensions", true),
		// A spare renderer for each profile costs as much as the one that is used.
		chromedp.Flag("disable-features", "SpareRendererForSitePerProcess,Translate,OptimizationHints,MediaRouter,AutofillServerCommunication"),
		chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-sync", true),
		// A page that waits draws its animations sixty times a second, without a graphics card.
		chromedp.Flag("force-prefers-reduced-motion", true),
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
	p := &process{tab: tab, profile: profile, cancel: []func(){cancelTab, cancelBrowser}}
	if err := chromedp.Do(tab); err != nil {
		p.end()
		return nil, fmt.Errorf("browser %s: %w", program, err)
	}
	return p, nil
}

const (
	startLimit = 10 * time.Minute // how long a browser may take to start
	endLimit   = time.Minute      // how long it may take to end before it is killed
)

// end asks the browser to end, and kills it if it does not.
func (p *process) end() {
	ctx, cancel := context.WithTimeout(p.tab, endLimit)
	defer cancel()
	_ = chromedp.Cancel(ctx)
	for _, f := range p.cancel {
		f()
	}
	_ = os.RemoveAll(p.profile)
}

// HasLongWalks reports whether tests walk over every page, width and row, and take pictures of them: with WALKS=all.
// Otherwise they have a form that takes some seconds and covers each template once.
func HasLongWalks() bool { return os.Getenv("WALKS") == "all" }

// Poll waits until an expression is true in the page of the tab.
func Poll(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(0), chromedp.WithPollingInterval(pollInterval))
}

// What is looked for in PATH, in this order. Debian's chromium-headless-shell is the engine of the same version without
// what surrounds it: a page costs half the processor time. It has no dialog of SPC and no settings of the user.
var (
	wholeFirst = []string{"/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"}
	smallFirst = append([]string{"chromium-headless-shell"}, wholeFirst...)
)

// find returns the browser to use: $CHROMIUM, or the first of programs that is there. With
// BROWSERS=all it is the whole one.
func find(t testing.TB, programs []string) string {
	t.Helper()
	if os.Getenv("BROWSERS") == "all" {
		programs = wholeFirst
	}
	if named := os.Getenv("CHROMIUM"); named != "" {
		programs = []string{named}
	}
	for _, name := range programs {
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

// FindChromium returns the path of the browser that tests use. Without one the test is skipped, but not in CI.
func FindChromium(t testing.TB) string { return find(t, smallFirst) }

// WaitVisible waits until an element is visible. It asks less often than that of chromedp, which keeps a browser busy.
func WaitVisible[S chromedp.Selectable](selector S, options ...chromedp.QueryOption) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(selector, append([]chromedp.QueryOption{chromedp.RetryInterval(pollInterval)}, options...)...)
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
	if err := chromedp.Do(ctx, Poll(shown), WaitVisible(chromedp.CSS(selector))); err != nil {
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
	began := time.Now()
	for {
		is, err := inFrame(ctx, expression)
		if is {
			return
		}
		if !pause(ctx, began) {
			t.Fatalf("in the frame, %s: %v", expression, err)
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

// InAnyFrame reports whether an expression is true in one of the frames of the page, however deep
// and of whatever origin.
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

// Screenshot writes what the tab's viewport shows to artifacts/NAME.png at the root of the repository, if there are
// [HasLongWalks]. Pictures are for people, and take longer than tests.
func Screenshot(t testing.TB, ctx context.Context, name string) {
	t.Helper()
	if HasLongWalks() {
		FailureScreenshot(t, ctx, name)
	}
}

// FailureScreenshot is Screenshot for a test that is about to fail: it is always taken.
func FailureScreenshot(t testing.TB, ctx context.Context, name string) {
	t.Helper()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Errorf("screenshot %s: %v", name, err)
		return
	}
	save(t, name+".png", png)
}

// FullScreenshot is Screenshot for the whole page, however long it is.
func FullScreenshot(t testing.TB, ctx context.Context, name string) {
	t.Helper()
	if !HasLongWalks() {
		return
	}
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatalf("screenshot %s: %v", name, err)
	}
	save(t, name+".png", png)
}

func save(t testing.TB, name string, content []byte) {
	t.Helper()
	file := filepath.Join(Root(t), "artifacts", name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Root returns the root of the repository, which has docs and artifacts.
func Root(t testing.TB) string {
	t.Helper()
	start, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && bytes.HasPrefix(text, []byte(productModule)) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("no go.mod of the product above %s", start)
		}
	}
}

// productModule is the first line of the go.mod at the root of the repository.
const productModule = "module github.com/openthreeds/threeds\n"

// pause waits a moment before something is asked again, longer in a wait that began long ago. It reports false if the
// context has ended.
func pause(ctx context.Context, began time.Time) bool {
	timer := time.NewTimer(min(max(pollInterval, time.Since(began)/pollsOfAWait), longestPollInterval))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// pollInterval is how long a test waits before it asks a page again. In a long wait it is a part of the time so far, but
// no more than longestPollInterval. A page that is asked more often keeps a processor busy, above all when the machine is
// slow and many tests wait.
const (
	pollInterval        = 50 * time.Millisecond
	longestPollInterval = 250 * time.Millisecond
	pollsOfAWait        = 8
)

package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// A chromiumTab is driven by the DevTools protocol.
type chromiumTab struct {
	ctx    context.Context
	cancel context.CancelFunc
	frames map[target.ID]context.Context // frames of other sites, which have processes of their own
	answer time.Duration                 // how long the next one of them has for an answer
}

// frameAnswer is how long a frame of another process has for its first answer. A question may be lost when the frame
// changes its process. A frame that did not answer gets twice the time, for the machine may be slow.
const frameAnswer = 2 * time.Second

// noThirdPartyStorage are preferences that refuse cookies to frames of other sites. The exceptions refuse them storage,
// too: a page of localhost in one of 127.0.0.1, and the other way round.
const noThirdPartyStorage = `{"profile":{"block_third_party_cookies":true,"cookie_controls_mode":1,
	"content_settings":{"exceptions":{"cookies":{"localhost,127.0.0.1":{"setting":2},"127.0.0.1,localhost":{"setting":2}}}}}}`

func openChromium(t testing.TB, o Options) Tab {
	t.Helper()
	var ctx context.Context
	if o.NoThirdPartyStorage {
		ctx = startBrowser(t, noThirdPartyStorage)
	} else {
		ctx = NewBrowser(t)
	}
	tab := &chromiumTab{ctx: ctx, frames: map[target.ID]context.Context{}, answer: frameAnswer}
	if o.NoScript {
		err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
			return err
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	return tab
}

func (c *chromiumTab) do(steps ...chromedp.Action[chromedp.Void]) error {
	return chromedp.Do(c.ctx, steps...)
}

// Navigate waits for the document alone: a frame may load for ever.
func (c *chromiumTab) Navigate(url string) error {
	return loadByScript(c.ctx, c, func() error {
		_, err := chromedp.Call(c.ctx, page.Navigate, page.NavigateParams{URL: url})
		return err
	})
}

func (c *chromiumTab) Reload() error {
	return loadByScript(c.ctx, c, func() error {
		_, err := chromedp.Call(c.ctx, page.Reload, page.ReloadParams{})
		return err
	})
}

func (c *chromiumTab) Back() error {
	return goBackByScript(c.ctx, c)
}

func (c *chromiumTab) Eval(expression string, into any) error {
	return evaluateIn(c.ctx, expression, into)
}

func evaluateIn(ctx context.Context, expression string, into any, options ...func(*runtime.EvaluateParams)) error {
	raw, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](expression, append(options, chromedp.EvalAwaitPromise, chromedp.EvalAsValue)...))
	if err != nil {
		return err
	}
	return decodeInto(json.RawMessage(raw), into)
}

// AnyFrame asks the frames of the page's own process and those of others, which are targets of their own.
func (c *chromiumTab) AnyFrame(expression string) (bool, error) {
	is, err := InAnyFrame(c.ctx, expression)
	if is || err != nil {
		return is, err
	}
	targets, err := c.targets()
	if err != nil {
		return false, err
	}
	for _, info := range targets {
		if info.Type != "iframe" || info.URL == "" || info.URL == "about:blank" {
			continue // A frame without its first page may move to another process, which leaves the question unanswered.
		}
		frame := c.frames[info.TargetID]
		if frame == nil {
			frame, _ = chromedp.NewContext(c.ctx, chromedp.WithTargetID(info.TargetID)) // The frame's context ends with that of the tab.
			if err := chromedp.Do(frame); err != nil {                                  // without frameAnswer: a connection ends with the context that began it
				continue
			}
			c.frames[info.TargetID] = frame
		}
		ctx, cancel := context.WithTimeout(frame, c.answer)
		err := evaluateIn(ctx, expression, &is)
		if !is {
			is, _ = InAnyFrame(ctx, expression)
		}
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			c.answer *= 2
		}
		if err != nil {
			delete(c.frames, info.TargetID) // the frame has gone on to another page
			continue
		}
		if is {
			return true, nil
		}
	}
	return false, nil
}

// targets returns the pages and frames of the profile. Tests that share a browser do not see those of each other.
func (c *chromiumTab) targets() ([]*target.Info, error) {
	all, err := chromedp.Targets(c.ctx)
	profile := chromedp.FromContext(c.ctx).BrowserContextID
	return slices.DeleteFunc(all, func(info *target.Info) bool { return profile != "" && info.BrowserContextID != profile }), err
}

func (c *chromiumTab) ClickAt(x, y float64, count int) error {
	for i := range count {
		if err := c.do(chromedp.MouseClickXY(x, y, chromedp.ClickCount(i+1))); err != nil {
			return err
		}
	}
	return nil
}

func (c *chromiumTab) Press(keys string) error {
	for _, r := range keys {
		step := chromedp.KeyEvent(string(r))
		if string(r) == KeyShiftTab {
			step = chromedp.KeyEvent(KeyTab, chromedp.KeyModifiers(chromedp.ModifierShift))
		}
		if err := c.do(step); err != nil {
			return err
		}
	}
	return nil
}

func (c *chromiumTab) ClickFirst(selector string) error {
	return Click(c, fmt.Sprintf("document.querySelector(%q)", selector), 1)
}

func (c *chromiumTab) FirstText(selector string) (text string, err error) {
	err = c.Eval(fmt.Sprintf("document.querySelector(%q).innerText.trim()", selector), &text)
	return text, err
}

func (c *chromiumTab) Accessible(element string) (role, name string, err error) {
	object, err := chromedp.Run(c.ctx, chromedp.Evaluate[*runtime.RemoteObject](element))
	if err != nil {
		return "", "", err
	}
	if object == nil || object.ObjectID == "" {
		return "", "", fmt.Errorf("no element %s", element)
	}
	onlyThis := false
	tree, err := chromedp.Call(c.ctx, accessibility.GetPartialAXTree, accessibility.GetPartialAXTreeParams{ObjectID: object.ObjectID, FetchRelatives: &onlyThis})
	if err != nil {
		return "", "", err
	}
	if len(tree.Nodes) == 0 || tree.Nodes[0].Ignored || tree.Nodes[0].Role == nil || tree.Nodes[0].Name == nil {
		return "", "", fmt.Errorf("assistive technology does not have %s", element)
	}
	err = errors.Join(json.Unmarshal(tree.Nodes[0].Role.Value, &role), json.Unmarshal(tree.Nodes[0].Name.Value, &name))
	return role, name, err
}

func (c *chromiumTab) URL() (url string, err error) {
	err = c.Eval("location.href", &url)
	return url, err
}

func (c *chromiumTab) Resize(width, height int) error {
	return c.do(chromedp.EmulateViewport(int64(width), int64(height)))
}

func (c *chromiumTab) PNG() ([]byte, error) { return chromedp.Run(c.ctx, chromedp.CaptureScreenshot()) }

func (c *chromiumTab) NewTab() (Tab, error) {
	ctx, cancel := chromedp.NewContext(c.ctx)
	if err := chromedp.Do(ctx); err != nil {
		cancel()
		return nil, err
	}
	return &chromiumTab{ctx: ctx, cancel: cancel, frames: c.frames, answer: frameAnswer}, nil
}

func (c *chromiumTab) Windows() (int, error) {
	targets, err := c.targets()
	n := 0
	for _, info := range targets {
		if info.Type == "page" {
			n++
		}
	}
	return n, err
}

func (c *chromiumTab) Close() error {
	if c.cancel != nil {
		c.cancel()
	}
	return nil
}

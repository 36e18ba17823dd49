package browsertest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A remote sends commands of W3C WebDriver to a browser. Its names of commands are those of
// Marionette without "WebDriver:".
type remote interface {
	call(command string, params map[string]any, into any) error
}

// A webDriverTab is a tab that is driven by commands of W3C WebDriver.
type webDriverTab struct {
	remote
	session  *webDriverSession
	handle   string
	setWidth func(width, height int) error // nil means that the window itself can have every size
	hasBack  bool                          // the driver answers the command Back also when the page comes from the browser's cache
	window   string                        // what NewTab opens: "tab", or "window" where a tab behind another one takes no clicks
	// movesFocus says that the driver gives the focus to each frame that commands go to, and that keys go to the focus.
	movesFocus bool
}

// webDriverSession is what the tabs of one browser share.
type webDriverSession struct {
	current string // the handle of the tab that commands go to
}

// elementKey is the member that has the reference of an element, of the specification.
const elementKey = "element-6066-11e4-a52e-4f735466cecf"

func newWebDriverTab(r remote) (*webDriverTab, error) {
	w := &webDriverTab{remote: r, session: &webDriverSession{}, window: "tab"}
	if err := r.call("GetWindowHandle", nil, &w.handle); err != nil {
		return nil, err
	}
	w.session.current = w.handle
	return w, nil
}

// send sends a command to this tab.
func (w *webDriverTab) send(command string, params map[string]any, into any) error {
	if w.session.current != w.handle {
		if err := w.call("SwitchToWindow", map[string]any{"handle": w.handle}, nil); err != nil {
			return err
		}
		w.session.current = w.handle
	}
	return w.call(command, params, into)
}

func (w *webDriverTab) Navigate(url string) error {
	return w.send("Navigate", map[string]any{"url": url}, nil)
}
func (w *webDriverTab) Reload() error { return w.send("Refresh", nil, nil) }

func (w *webDriverTab) Back() error {
	if w.hasBack {
		return w.send("Back", nil, nil)
	}
	return goBackByScript(context.Background(), w)
}

// goBackByScript goes back a moment after the page has answered, for the answer of a page that goes away may be lost.
func goBackByScript(ctx context.Context, tab Tab) error {
	return loadByScript(ctx, tab, func() error { return tab.Eval(`void setTimeout(() => history.back())`, nil) })
}

// loadByScript waits until another document than the present one has been read.
func loadByScript(ctx context.Context, tab Tab, start func() error) error {
	const age = `performance.timeOrigin + " " + location.href`
	var before, now string
	if err := tab.Eval(age, &before); err != nil {
		return err
	}
	if err := start(); err != nil {
		return err
	}
	return Wait(ctx, func() (bool, error) {
		err := tab.Eval(`document.readyState == "loading" ? "" : `+age, &now)
		return now != "" && now != before, err
	})
}

func (w *webDriverTab) Eval(expression string, into any) error {
	return w.evaluate("return ("+expression+")", into)
}

func (w *webDriverTab) evaluate(script string, into any, args ...any) error {
	if args == nil {
		args = []any{}
	}
	var raw json.RawMessage
	if err := w.send("ExecuteScript", map[string]any{"script": script, "args": args}, &raw); err != nil {
		return err
	}
	return decodeInto(raw, into)
}

// AnyFrame walks through the frames, those in open shadow roots, too. The focus stays where it is.
func (w *webDriverTab) AnyFrame(expression string) (bool, error) {
	var focused map[string]string
	if w.movesFocus {
		if err := w.Eval(focusedFrame, &focused); err != nil {
			return false, err
		}
	}
	is, err := w.walkFrames(expression)
	if back := w.send("SwitchToFrame", map[string]any{"id": nil}, nil); err == nil {
		err = back
	}
	if w.movesFocus && err == nil {
		err = w.giveFocus(focused)
	}
	return is, err
}

// giveFocus gives the focus to a frame of the page, or to the deepest frame in it; nil stands for the page itself. What
// has the focus in a document is not changed. A frame that is gone leaves the focus to the page.
func (w *webDriverTab) giveFocus(frame map[string]string) error {
	const innerFrame = `[null, document.body].includes(document.activeElement) ? document.querySelector("iframe") : ` + focusedFrame
	isOfPage := frame == nil
	for frame != nil {
		if w.send("SwitchToFrame", map[string]any{"id": frame}, nil) != nil || w.Eval(innerFrame, &frame) != nil {
			isOfPage, frame = true, nil
		}
	}
	err := w.send("SwitchToFrame", map[string]any{"id": nil}, nil)
	if err == nil && isOfPage {
		err = w.Eval("window.focus()", nil)
	}
	return err
}

const allFrames = `
	const found = []
	const search = (root) => {
		for (const e of root.querySelectorAll("*")) {
			if (e.localName == "iframe") found.push(e)
			if (e.shadowRoot) search(e.shadowRoot)
		}
	}
	search(document)
	return found`

func (w *webDriverTab) walkFrames(expression string) (bool, error) {
	var frames []map[string]string
	if err := w.evaluate(allFrames, &frames); err != nil {
		return false, err
	}
	for _, frame := range frames {
		if err := w.send("SwitchToFrame", map[string]any{"id": frame}, nil); err != nil {
			return false, err
		}
		var is bool
		if err := w.Eval(expression, &is); err != nil {
			return false, err
		}
		if is {
			return true, nil
		}
		if is, err := w.walkFrames(expression); is || err != nil {
			return is, err
		}
		if err := w.send("SwitchToParentFrame", nil, nil); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (w *webDriverTab) ClickAt(x, y float64, count int) error {
	actions := []map[string]any{{"type": "pointerMove", "x": int(x), "y": int(y), "origin": "viewport", "duration": 0}}
	for range count {
		actions = append(actions, map[string]any{"type": "pointerDown", "button": 0}, map[string]any{"type": "pointerUp", "button": 0})
	}
	return w.perform(map[string]any{
		"type": "pointer", "id": "mouse", "parameters": map[string]any{"pointerType": "mouse"}, "actions": actions,
	})
}

// webDriverKeys are the code points of keys that are no letters.
var webDriverKeys = map[string]string{KeyTab: "\ue004", KeyEnter: "\ue007", KeyEscape: "\ue00c"}

const shiftKey = "\ue008"

// Press presses the keys in the frame that has the focus, as a keyboard does. Some drivers press them in the frame that
// commands go to.
func (w *webDriverTab) Press(keys string) error {
	if w.movesFocus {
		return w.press(keys)
	}
	err := w.enterFocusedFrame()
	if err == nil {
		err = w.press(keys)
	}
	return errors.Join(err, w.send("SwitchToFrame", map[string]any{"id": nil}, nil))
}

// focusedFrame is the expression of the frame that has the focus, or in which another one has it.
const focusedFrame = `(() => {
	let e = document.activeElement
	while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement
	return e?.localName == "iframe" ? e : null
})()`

// enterFocusedFrame goes into the frame that has the focus, however deep.
func (w *webDriverTab) enterFocusedFrame() error {
	for {
		var frame map[string]string
		if err := w.Eval(focusedFrame, &frame); err != nil || frame == nil {
			return err
		}
		if err := w.send("SwitchToFrame", map[string]any{"id": frame}, nil); err != nil {
			return err
		}
	}
}

func (w *webDriverTab) press(keys string) error {
	var actions []map[string]any
	for _, r := range keys {
		key, hasShift := string(r), false
		if key == KeyShiftTab {
			key, hasShift = KeyTab, true
		}
		if code, is := webDriverKeys[key]; is {
			key = code
		}
		if hasShift {
			actions = append(actions, map[string]any{"type": "keyDown", "value": shiftKey})
		}
		actions = append(actions, map[string]any{"type": "keyDown", "value": key}, map[string]any{"type": "keyUp", "value": key})
		if hasShift {
			actions = append(actions, map[string]any{"type": "keyUp", "value": shiftKey})
		}
	}
	return w.perform(map[string]any{"type": "key", "id": "keyboard", "actions": actions})
}

func (w *webDriverTab) perform(source map[string]any) error {
	return w.send("PerformActions", map[string]any{"actions": []any{source}}, nil)
}

func (w *webDriverTab) findFirst(selector string) (map[string]any, error) {
	var element map[string]any
	err := w.send("FindElement", map[string]any{"using": "css selector", "value": selector}, &element)
	if err != nil {
		return nil, err
	}
	return map[string]any{"id": element[elementKey]}, nil
}

func (w *webDriverTab) ClickFirst(selector string) error {
	element, err := w.findFirst(selector)
	if err != nil {
		return err
	}
	return w.send("ElementClick", element, nil)
}

func (w *webDriverTab) FirstText(selector string) (string, error) {
	element, err := w.findFirst(selector)
	if err != nil {
		return "", err
	}
	var text string
	err = w.send("GetElementText", element, &text)
	return strings.TrimSpace(text), err
}

func (w *webDriverTab) Accessible(element string) (role, name string, err error) {
	var found map[string]string
	if err := w.Eval(element, &found); err != nil {
		return "", "", err
	}
	if found[elementKey] == "" {
		return "", "", fmt.Errorf("no element %s", element)
	}
	id := map[string]any{"id": found[elementKey]}
	if err := w.send("GetComputedRole", id, &role); err != nil {
		return "", "", err
	}
	err = w.send("GetComputedLabel", id, &name)
	return role, name, err
}

func (w *webDriverTab) URL() (string, error) {
	var url string
	err := w.send("GetCurrentURL", nil, &url)
	return url, err
}

// Resize sets the size of the window by as much as the viewport differs from what is wanted.
func (w *webDriverTab) Resize(width, height int) error {
	if w.setWidth != nil {
		return w.setWidth(width, height)
	}
	for range 3 {
		var now struct{ W, H, OW, OH int }
		if err := w.Eval(`({ W: innerWidth, H: innerHeight })`, &now); err != nil {
			return err
		}
		if now.W == width && now.H == height {
			return nil
		}
		var rect struct{ Width, Height int }
		if err := w.send("GetWindowRect", nil, &rect); err != nil {
			return err
		}
		size := map[string]any{"x": 0, "y": 0, "width": rect.Width + width - now.W, "height": rect.Height + height - now.H}
		if err := w.send("SetWindowRect", size, nil); err != nil {
			return err
		}
	}
	var now []int
	if err := w.Eval(`[innerWidth, innerHeight]`, &now); err != nil {
		return err
	}
	if len(now) == 2 && now[0] == width && now[1] == height {
		return nil
	}
	return fmt.Errorf("the viewport is %d wide and high, want %d and %d", now, width, height)
}

func (w *webDriverTab) PNG() ([]byte, error) {
	var text string
	if err := w.send("TakeScreenshot", map[string]any{"full": false}, &text); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}

func (w *webDriverTab) NewTab() (Tab, error) {
	var made struct{ Handle string }
	if err := w.send("NewWindow", map[string]any{"type": w.window, "focus": true}, &made); err != nil {
		return nil, err
	}
	tab := *w
	tab.handle = made.Handle
	return &tab, nil
}

func (w *webDriverTab) Windows() (int, error) {
	var handles []string
	err := w.send("GetWindowHandles", nil, &handles)
	return len(handles), err
}

func (w *webDriverTab) Close() error {
	err := w.send("CloseWindow", nil, nil)
	w.session.current = ""
	return err
}

package threedstest

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// PlayShopper opens the page of an authentication, which is browser.url of the answer to POST /authentications, and
// does what a shopper does whose browser has no JavaScript. It returns where the browser is sent at the end, which is
// returnUrl of the request with the id. It does not go there. Without a returnUrl it returns "". A card that has 2.1.0
// alone ends unavailable, for that version wants JavaScript.
//
// On each page it presses the button that is named by press, and else the first one. At the bank of the sandbox the
// buttons are submit, after the code was entered, and cancel; where the app of the bank is asked, approve and decline.
// On the hosted page hosted-cancel ends the authentication. The default is submit.
//
// The result is not in the answer: the back end asks for it, as with any other shopper.
func (s *Server) PlayShopper(ctx context.Context, browserURL, press string) (back string, err error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	p := &shopper{press: press, ours: s.BrowserURL}
	if p.press == "" {
		p.press = "submit"
	}
	p.http = &http.Client{Jar: jar, Transport: transport, CheckRedirect: p.stopAtShop}
	return p.pay(ctx, browserURL)
}

// A shopper is a browser on its way.
type shopper struct {
	http  *http.Client
	press string
	ours  string // the origin of the hosted page
	back  string // where the shop is, once the browser has been sent there
}

// stopAtShop follows no redirect from the hosted page to another origin.
func (p *shopper) stopAtShop(r *http.Request, via []*http.Request) error {
	isOurs := func(u *url.URL) bool { return u.Scheme+"://"+u.Host == p.ours }
	if isOurs(via[len(via)-1].URL) && !isOurs(r.URL) {
		p.back = r.URL.String()
		return http.ErrUseLastResponse
	}
	return nil
}

// refresh is how long the shopper waits on a page that reloads itself.
const refresh = 50 * time.Millisecond

// pay goes from page to page.
func (p *shopper) pay(ctx context.Context, address string) (back string, err error) {
	page, at, err := p.load(ctx, http.MethodGet, address, nil)
	for err == nil && p.back == "" {
		if strings.Contains(page, `http-equiv="refresh"`) {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(refresh):
			}
			page, at, err = p.load(ctx, http.MethodGet, address, nil)
			continue
		}
		action, values := findForm(page, p.press)
		if values == nil {
			return "", nil // the page says that it can be closed
		}
		var next *url.URL
		if next, err = at.Parse(action); err != nil {
			return "", err
		}
		page, at, err = p.load(ctx, http.MethodPost, next.String(), values)
	}
	return p.back, err
}

// maxPage is more than any page has.
const maxPage = 1 << 20

// load returns a page, and the address that it came from.
func (p *shopper) load(ctx context.Context, method, address string, values url.Values) (page string, at *url.URL, err error) {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(values.Encode()))
	if err != nil {
		return "", nil, err
	}
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Accept-Language", "en")
	r.Header.Set("User-Agent", "threedstest")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := p.http.Do(r)
	if err != nil {
		return "", nil, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return "", nil, err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return "", nil, fmt.Errorf("threedstest: %s %s: %s", method, r.URL.Redacted(), answer.Status)
	}
	return string(text), answer.Request.URL, nil
}

var (
	formTag   = regexp.MustCompile(`(?s)<form\b([^>]*)>(.*?)</form>`)
	inputTag  = regexp.MustCompile(`<input\b([^>]*)>`)
	buttonTag = regexp.MustCompile(`<button\b([^>]*)>`)
	attribute = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
)

// findForm returns action and values of the form with a button, and else of the first form that has one. Without a form
// the values are nil. The pages are those of this module, so a few patterns read them.
func findForm(page, press string) (action string, values url.Values) {
	for _, form := range formTag.FindAllStringSubmatch(page, -1) {
		for _, b := range buttonTag.FindAllStringSubmatch(form[2], -1) {
			button := attributesOf(b[1])
			isPressed := button["data-testid"] == press || button["name"] != "" && button["value"] == press
			if values != nil && !isPressed {
				continue
			}
			action, values = attributesOf(form[1])["action"], url.Values{}
			for _, i := range inputTag.FindAllStringSubmatch(form[2], -1) {
				input := attributesOf(i[1])
				if input["name"] == "code" {
					input["value"] = sandboxCode
				}
				values.Set(input["name"], input["value"])
			}
			if button["name"] != "" {
				values.Set(button["name"], button["value"])
			}
			if isPressed {
				return action, values
			}
		}
	}
	return action, values
}

// sandboxCode is what the bank of the sandbox asks for.
const sandboxCode = "123456"

// attributesOf reads the attributes of a tag.
func attributesOf(tag string) map[string]string {
	all := make(map[string]string)
	for _, m := range attribute.FindAllStringSubmatch(tag, -1) {
		all[m[1]] = html.UnescapeString(m[2])
	}
	return all
}

package browser

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestD65TokenIsInTheHeaderOfSteps: steps of threeds.js have the token in Authorization, and never in an address, a
// form or a cookie. Only the hosted page has it in its path, and its answers send no Referer.
func TestD65TokenIsInTheHeaderOfSteps(t *testing.T) {
	t.Parallel()
	h, engine := newTestHandler(nil)
	token, binding := engine.Add(fakeRow{}), newSecret()
	for _, test := range []struct {
		name string
		of   func(*http.Request)
		want int
	}{
		{"Authorization", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, 200},
		{"no token", func(*http.Request) {}, 404},
		{"another scheme", func(r *http.Request) { r.Header.Set("Authorization", "Basic "+token) }, 404},
		{"an address", func(r *http.Request) { r.URL.RawQuery = "token=" + token + "&access_token=" + token }, 404},
		{"a cookie", func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: "token", Value: token, Secure: true, HttpOnly: true})
		}, 404},
	} {
		r := httptest.NewRequest("POST", "/a/begin", strings.NewReader(`{"data": {}}`))
		r.Header.Set(bindingHeader, binding)
		test.of(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("the token in %s: %d, want %d", test.name, w.Code, test.want)
		}
		if strings.Contains(w.Body.String(), token) || strings.Contains(w.Header().Get("Location"), token) {
			t.Errorf("the token in %s: the answer has it", test.name)
		}
	}
	if w := get(h, "/a/"+engine.Add(fakeRow{})); w.Code != 200 || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("the hosted page: %d, %v", w.Code, w.Header())
	}
}

// TestD67HostedPageHasItsNames: without a script its buttons are of forms, and the end is a sentence.
func TestD67HostedPageHasItsNames(t *testing.T) {
	t.Parallel()
	h, engine := newTestHandler(nil)
	token := engine.Add(fakeRow{ACSURL: "https://bank.example/"})
	first := get(h, "/a/"+token)
	for _, want := range []string{`data-testid="hosted-continue"`, `data-testid="hosted-cancel"`} {
		if !strings.Contains(first.Body.String(), want) {
			t.Errorf("the hosted page has no %s", want)
		}
	}
	cookies := first.Result().Cookies()
	submit(h, "/a/"+token+"/begin", cookies, nil)
	if page := get(h, "/a/"+token, cookies...); !strings.Contains(page.Body.String(), `data-threeds="open-bank" data-testid="hosted-continue"`) {
		t.Errorf("during the challenge: %s", page.Body)
	}
	if end := submit(h, "/a/"+token+"/cancel", cookies, url.Values{}); !strings.Contains(end.Body.String(), `data-testid="hosted-end"`) {
		t.Errorf("the end of the hosted page: %s", end.Body)
	}
	confirm := engine.Add(fakeRow{Info: "Please call"})
	cookies = get(h, "/a/"+confirm).Result().Cookies()
	submit(h, "/a/"+confirm+"/begin", cookies, nil)
	if page := get(h, "/a/"+confirm, cookies...); !strings.Contains(page.Body.String(), `data-threeds="continue"`) {
		t.Errorf("a text of the bank: %s", page.Body)
	}
}

// TestBindingThatIsNoBase64URLOf32BytesIsRefused: a first request with such a binding does not bind the authentication,
// so that the shopper can still begin.
func TestBindingThatIsNoBase64URLOf32BytesIsRefused(t *testing.T) {
	t.Parallel()
	h, engine := newTestHandler(nil)
	token, good := engine.Add(fakeRow{}), newSecret()
	for _, bad := range []string{strings.Repeat("B", 43), good[:42] + "B", good[:42], good + "A", good[:42] + "_"} {
		if w := call(h, "POST", "/a/begin", token, bad, ""); w.Code != http.StatusConflict {
			t.Errorf("the binding %q: %d %s, want 409", bad, w.Code, w.Body)
		}
	}
	for _, step := range []string{"/a/begin", "/a/confirm"} {
		if w := call(h, "POST", step, token, good, ""); w.Code != http.StatusOK {
			t.Errorf("%s with a good binding afterwards: %d %s", step, w.Code, w.Body)
		}
	}
}

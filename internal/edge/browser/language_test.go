package browser

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/session"
)

// TestD77LanguageOfAPage: locale of threeds.js, browserLanguage of the request, Accept-Language, in this order. An
// entry that is no known language does not count, and those around it do.
func TestD77LanguageOfAPage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ locale, request, accept, hosted, script string }{
		{"", "fi-FI", "de", "fi", "fi"},
		{"sv", "fi-FI", "de", "fi", "sv"},
		{"", "", "xx,de", "de", "de"},
		{"", "", "de,x;q=0.1", "de", "de"},
		{"", "", "de;q=0.8,zz;q=0.9", "de", "de"},
		{"xx,sv", "", "de", "de", "sv"},
		{"xx", "zz", "de", "de", "de"},
		{"", "und", "de", "de", "de"},
		{"", "", "\xfc,de", "de", "de"},
	} {
		h, engine := newTestHandler(nil)
		token := engine.Add(fakeRow{View: session.BrowserView{Language: tt.request}})
		r := httptest.NewRequest("GET", "/a/"+token, nil)
		r.Header.Set("Accept-Language", tt.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), `<html lang="`+tt.hosted+`"`) {
			t.Errorf("%+v: the hosted page is %.80s", tt, w.Body)
		}
		r = httptest.NewRequest("POST", "/a/begin", strings.NewReader(`{"data":{}}`))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set(bindingHeader, newSecret())
		r.Header.Set("Accept-Language", tt.accept)
		if tt.locale != "" {
			r.Header.Set("Threeds-Locale", tt.locale)
		}
		w = httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), `"lang":"`+tt.script+`"`) {
			t.Errorf("%+v: threeds.js gets %d %s", tt, w.Code, w.Body)
		}
	}
}

// TestCase23HeadersReachTheEngineInTheirBytes: with and without script, whole, and from all lines of a header.
func TestCase23HeadersReachTheEngineInTheirBytes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 3000)
	for _, hasScript := range []bool{true, false} {
		h, engine := newTestHandler(nil)
		token := engine.Add(fakeRow{})
		r := httptest.NewRequest("POST", "/a/begin", strings.NewReader(`{"data":{"browserLanguage":"`+long+`"}}`))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set(bindingHeader, newSecret())
		if !hasScript {
			r = httptest.NewRequest("POST", "/a/"+token+"/begin", nil)
			for _, c := range get(h, "/a/"+token).Result().Cookies() {
				r.AddCookie(c)
			}
		}
		r.Header.Set("User-Agent", "Mozilla/5.0 \xfc"+long)
		r.Header.Set("Accept", "text/html\xa0")
		r.Header.Add("Accept-Language", "de-DE,de;q=0.9")
		r.Header.Add("Accept-Language", "en;q=0.8")
		h.ServeHTTP(httptest.NewRecorder(), r)
		data := engine.Row(token).Data
		if data["browserUserAgent"] != "Mozilla/5.0 \xfc"+long || data["browserAcceptHeader"] != "text/html\xa0" ||
			data["acceptLanguage"] != "de-DE,de;q=0.9, en;q=0.8" || hasScript != (data["browserLanguage"] == long) {
			t.Errorf("script %t: %q", hasScript, data)
		}
	}
	h, _ := newTestHandler(nil)
	r := httptest.NewRequest("GET", "/a/frame", nil)
	r.Header.Set("Accept", "text/html\xfc")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), "text/htmlü") {
		t.Errorf("the frame tells the page %s", w.Body)
	}
}

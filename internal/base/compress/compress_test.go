package compress_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/compress"
)

var text = strings.Repeat("A page that is long enough to be compressed. ", 100)

// call answers a request with headers, which are names and values in turn.
func call(h http.Handler, method string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", nil)
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// plain returns the body of an answer as it was before it was compressed.
func plain(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	if w.Header().Get("Content-Encoding") == "" {
		return w.Body.String()
	}
	r, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// answer is a handler that answers with a media type and a text.
func answer(mediaType, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, text)
	})
}

// TestPagesAreCompressedForThoseWhoAcceptIt: an answer is under gzip only if the client takes that, the method is GET
// or HEAD, and the answer is a page, a script, a style, a picture in SVG or JSON, and long. Its text stays what it was.
func TestPagesAreCompressedForThoseWhoAcceptIt(t *testing.T) {
	for _, tt := range []struct {
		method, accept, mediaType, text string
		want                            bool
	}{
		{"GET", "gzip", "text/html; charset=utf-8", text, true},
		{"GET", "deflate, gzip;q=0.5, zstd, br", "application/json", text, true},
		{"GET", "gzip", "text/css", text, true},
		{"GET", "gzip", "text/javascript", text, true},
		{"GET", "gzip", "image/svg+xml", text, true},
		{"GET", "gzip", "application/problem+json", text, true},
		{"GET", "", "text/html", text, false},
		{"GET", "identity", "text/html", text, false},
		{"GET", "gzip;q=0", "text/html", text, false},
		{"GET", "zstd, br", "text/html", text, false},
		{"GET", "gzip", "text/html", "short", false},
		{"GET", "gzip", "image/png", text, false},
		{"GET", "gzip", "application/x-ndjson", text, false},
		{"POST", "gzip", "text/html", text, false},
		{"PATCH", "gzip", "application/json", text, false},
		{"DELETE", "gzip", "application/json", text, false},
	} {
		w := call(compress.Handler(answer(tt.mediaType, tt.text)), tt.method, "Accept-Encoding", tt.accept)
		h := w.Header()
		if got := h.Get("Content-Encoding") == "gzip"; got != tt.want || w.Code != http.StatusTeapot || plain(t, w) != tt.text {
			t.Errorf("%+.60v: compressed: %t, status %d, %d bytes", tt, got, w.Code, w.Body.Len())
		}
		if isSmaller := w.Body.Len() < len(tt.text)/4; isSmaller != tt.want {
			t.Errorf("%+.60v: %d bytes of %d", tt, w.Body.Len(), len(tt.text))
		}
		if hasOwnTag := h.Get("ETag") != `"1"`; hasOwnTag != tt.want {
			t.Errorf("%+.60v: ETag %s", tt, h.Get("ETag"))
		}
		if tt.method == "GET" && h.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%+.60v: Vary %q", tt, h.Get("Vary"))
		}
		if length := h.Get("Content-Length"); length != "" && length != strconv.Itoa(w.Body.Len()) {
			t.Errorf("%+.60v: Content-Length %s of %d", tt, length, w.Body.Len())
		}
	}
}

// TestLengthOfACompressedPageSaysLittle: pages that differ in one letter have lengths that are far apart.
func TestLengthOfACompressedPageSaysLittle(t *testing.T) {
	lengths := map[int]bool{}
	for n := range 26 {
		page := answer("text/html", text+string(rune('a'+n)))
		lengths[call(compress.Handler(page), "GET", "Accept-Encoding", "gzip").Body.Len()] = true
	}
	if len(lengths) < 10 {
		t.Errorf("26 pages have only the lengths %v", lengths)
	}
}

// TestPagesOverHTTP: HEAD says what GET says, and a part of an answer is never compressed.
func TestPagesOverHTTP(t *testing.T) {
	server := httptest.NewServer(compress.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	})))
	defer server.Close()
	for _, tt := range []struct{ method, part, encoding string }{
		{"GET", "", "gzip"}, {"HEAD", "", ""}, {"GET", "bytes=0-1999", ""},
	} {
		r, err := http.NewRequest(tt.method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip") // so that the client does not decompress by itself
		if tt.part != "" {
			r.Header.Set("Range", tt.part)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.Header.Get("Content-Encoding") != tt.encoding || res.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%v: %v, %v", tt, res.Header, err)
		}
		if tt.part != "" && (res.StatusCode != http.StatusPartialContent || string(body) != text[:2000]) {
			t.Errorf("%v: %d, %d bytes", tt, res.StatusCode, len(body))
		}
	}
}

// TestFileHasTwoForms: plain and under gzip, each with an ETag of its own, whole, in parts, as a head alone, and not at
// all where the client has it.
func TestFileHasTwoForms(t *testing.T) {
	f := compress.NewFile("text/css; charset=utf-8", []byte(text))
	tags := map[string]string{}
	for _, accept := range []string{"", "gzip"} {
		whole := call(f, "GET", "Accept-Encoding", accept)
		h, body := whole.Header(), whole.Body.String()
		if whole.Code != 200 || plain(t, whole) != text || h.Get("Content-Encoding") != accept || h.Get("Vary") != "Accept-Encoding" ||
			h.Get("Content-Type") != "text/css; charset=utf-8" || h.Get("Content-Length") != strconv.Itoa(len(body)) {
			t.Errorf("%q: %d %v", accept, whole.Code, h)
		}
		if again := call(f, "GET", "Accept-Encoding", accept); again.Body.String() != body {
			t.Errorf("%q: another text at the second time", accept)
		}
		tags[accept] = h.Get("ETag")
		if head := call(f, "HEAD", "Accept-Encoding", accept); head.Body.Len() != 0 || head.Header().Get("Content-Length") != strconv.Itoa(len(body)) ||
			head.Header().Get("Content-Encoding") != accept || head.Header().Get("ETag") != tags[accept] {
			t.Errorf("HEAD %q: %v", accept, head.Header())
		}
		part := call(f, "GET", "Accept-Encoding", accept, "Range", "bytes=10-19")
		if part.Code != 206 || part.Body.String() != body[10:20] || part.Header().Get("Content-Encoding") != accept ||
			part.Header().Get("Content-Range") != "bytes 10-19/"+strconv.Itoa(len(body)) {
			t.Errorf("part, %q: %d %v", accept, part.Code, part.Header())
		}
		if beyond := call(f, "GET", "Accept-Encoding", accept, "Range", "bytes=90000-"); beyond.Code != 416 || beyond.Header().Get("Content-Encoding") != "" {
			t.Errorf("part beyond the end, %q: %d %v", accept, beyond.Code, beyond.Header())
		}
		if has := call(f, "GET", "Accept-Encoding", accept, "If-None-Match", tags[accept]); has.Code != 304 || has.Body.Len() != 0 {
			t.Errorf("the client has it, %q: %d", accept, has.Code)
		}
	}
	if tags[""] == tags["gzip"] || tags[""] == "" {
		t.Errorf("ETags %q", tags)
	}
	if other := call(f, "GET", "If-None-Match", tags["gzip"]); other.Code != 200 {
		t.Errorf("a client that has the other form: %d", other.Code)
	}
	if tag := call(compress.NewFile("text/css", []byte(text+".")), "GET").Header().Get("ETag"); tag == tags[""] {
		t.Error("another content has the same ETag")
	}
}

package demo

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
)

// TestSandboxPrintsRequests: each request has a line with its method, path, status and time, without the query, card
// numbers and tokens. Files of pages have none.
func TestSandboxPrintsRequests(t *testing.T) {
	var out bytes.Buffer
	h := PrintRequests(&out, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/authentications":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
		case "/gone":
			panic(http.ErrAbortHandler)
		case "/nothing":
		default:
			_, _ = io.WriteString(w, "{}")
		}
	}))
	for _, request := range [][2]string{
		{"POST", "/authentications"}, {"GET", "/static/shop.css"}, {"GET", "/console/reports"}, {"GET", "/threeds.js"},
		{"GET", "/authentications/8a880dc0-d2d2-4067-bcb1-b08d1690b26e?acctNumber=4000000000000103"},
		{"GET", "/4000000000000103"}, {"GET", "/4000-0000-0000-0103"}, {"POST", "/a/SECRET/begin"}, {"POST", "/n/SECRET/method"},
		{"GET", "/x%0a%1b[31m"}, {"GET", "/gone"},
	} {
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(request[0], request[1], nil))
		}()
	}
	const want = `POST /authentications 201 T
GET  /authentications/8a880dc0-d2d2-4067-bcb1-b08d1690b26e 200 T
GET  /*** 200 T
GET  /*** 200 T
POST /a/…/begin 200 T
POST /n/…/method 200 T
GET  /x??[31m 200 T
GET  /gone gone T
`
	if got := regexp.MustCompile(`(?m) \d+ ms$`).ReplaceAllString(out.String(), " T"); got != want {
		t.Errorf("the lines are\n%s\nwant\n%s", got, want)
	}
}

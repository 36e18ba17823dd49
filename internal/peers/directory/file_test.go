package directory

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
)

// TestFileRefused: of a card range file that does not come, is another than was begun, or
// is not valid nothing is used. The directory server hears of what is not valid, operators
// of everything, and the next PReq waits for the floor.
func TestFileRefused(t *testing.T) {
	const good = `{"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`
	const part = 50
	// begins sends the beginning of the file; what is asked for then is the rest's.
	begins := func(rest http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				rest(w, r)
				return
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(good)))
			io.WriteString(w, good[:part])
		}
	}
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
	}
	const absent = "the card range file did not come"
	for _, tt := range []struct {
		name         string
		serves       http.HandlerFunc
		fault        string
		code, detail string // of the Erro
	}{
		{"no JSON", says(`{"cardRangeData":[}`), "PRes not valid: code 101 ", "101", "Invalid Formatted Message"},
		{"not valid", says(strings.Replace(good, `"end":"4000000999999999"`, `"end":"x"`, 1)),
			"PRes not valid: code 203 cardRangeData.ranges.end", "203", "cardRangeData.ranges.end"},
		{"not there", http.NotFound, absent, "", ""},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/other") {
				io.WriteString(w, good)
				return
			}
			http.Redirect(w, r, r.URL.Path+"/other", http.StatusFound)
		}, absent, "", ""},
		{"the rest is not there", begins(http.NotFound), absent, "", ""},
		{"all of it in place of the rest", begins(says(good[part:])), absent, "", ""},
		{"another part than the rest", begins(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-"+strconv.Itoa(len(good)-part-1)+"/"+strconv.Itoa(len(good)))
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, good[part:])
		}), absent, "", ""},
		{"a part that says nothing of itself", begins(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, good[part:])
		}), absent, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newShared(t, func(p *Peer) { p.Versions, p.FileHosts = message.Versions(), []string{"127.0.0.1"} })
			a := s.fetch(newFileHost(t, tt.serves))
			now := s.refreshStatus()
			if a.cards.Lookup(card) != nil || now.Generation != 0 || now.Fault != tt.fault {
				t.Errorf("ranges there: %t, it stands so: %+v", a.cards.Lookup(card) != nil, now)
			}
			if wait := time.Until(now.Next); wait < 59*time.Minute {
				t.Errorf("the next PReq leaves in %v", wait)
			}
			a.Close() // waits for the Erro
			s.ds.checkErro(t, tt.code, tt.detail)
		})
	}
	t.Run("not over TLS", func(t *testing.T) {
		plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked for") }))
		defer plain.Close()
		s := newShared(t, func(p *Peer) { p.Versions, p.FileHosts = message.Versions(), []string{"127.0.0.1"} })
		if s.fetch(fileHost{url: plain.URL}); s.refreshStatus().Fault != absent {
			t.Errorf("it stands so: %+v", s.refreshStatus())
		}
	})
}

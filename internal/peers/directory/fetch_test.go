package directory

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
)

// TestPR19PR20PR21PR22File: a card range file is fetched although the connection
// breaks again and again, and taken as a complete set.
func TestPR19PR20PR21PR22File(t *testing.T) {
	content := []byte(`{"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`)
	var asked []string
	etag := `"1"`
	files := func(w http.ResponseWriter, r *http.Request) {
		from := 0
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("PR-18: Accept-Encoding %q", r.Header.Get("Accept-Encoding"))
		}
		asked = append(asked, r.Header.Get("Range"))
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		}
		w.Header().Set("ETag", etag)
		w.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(content[from:min(from+50, len(content))]) // and no more
	}
	host := newFileHost(t, files)
	for _, tt := range []struct {
		name  string
		hosts []string
		want  bool
	}{{"configured host", []string{"127.0.0.1"}, true}, {"other host", []string{"files.example"}, false}} {
		t.Run(tt.name, func(t *testing.T) {
			asked = nil
			s := newShared(t, func(p *Peer) {
				p.Versions, p.FileHosts = message.Versions(), tt.hosts
			})
			a := s.fetch(host)
			if got := a.cards.Lookup(card) != nil; got != tt.want {
				t.Errorf("ranges there: %t, want %t; standing %+v", got, tt.want, s.refreshStatus())
			}
			if preq := s.ds.preqs[0]; preq.Text("cardRangeDataDownloadInd") != "Y" || preq.Has("serialNum") {
				t.Errorf("our PReq: %s", preq.Bytes())
			}
			if tt.want && !slices.Equal(asked, []string{"", "bytes=50-", "bytes=100-"}) {
				t.Errorf("asked for %q", asked)
			}
		})
	}
}

// TestPR20ChangedFile: the rest of another version of a file is not put behind what came
// of the first, whatever the server gives to tell them apart.
func TestPR20ChangedFile(t *testing.T) {
	file := func(bin string) string {
		return `{"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]},` +
			`{"ranges":[{"start":"` + bin + `0000000000","end":"` + bin + `0999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`
	}
	const part = 50
	const before, after = "Sat, 21 Nov 2026 08:00:00 GMT", "Sat, 21 Nov 2026 09:00:00 GMT"
	head := func(etag, modified string) http.Header {
		h := make(http.Header)
		h.Set("ETag", etag)
		h.Set("Last-Modified", modified)
		return h
	}
	var first, second http.Header
	var rest, total, condition string
	host := newFileHost(t, func(w http.ResponseWriter, r *http.Request) {
		of, content := first, file("410000")
		if r.Header.Get("Range") != "" {
			of, content, condition = second, rest[part:], r.Header.Get("If-Range")
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", part, len(rest)-1, total))
		}
		for name, values := range of {
			if values[0] != "" {
				w.Header()[name] = values
			}
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, content)
			return
		}
		io.WriteString(w, content[:part]) // and no more
	})
	same, other, longer := file("410000"), file("420000"), file("420000")+" "
	size := fmt.Sprint(len(same))
	for _, tt := range []struct {
		name          string
		first, second http.Header
		rest, total   string
		condition     string
		want          bool
	}{
		{"the same, by ETag", head(`"1"`, before), head(`"1"`, ""), same, size, `"1"`, true},
		{"the same, by weak ETag", head(`W/"1"`, ""), head(`W/"1"`, ""), same, size, "", true},
		{"the same, by date", head(`W/"1"`, before), head(`W/"1"`, before), same, size, before, true},
		{"the same, by size", nil, nil, same, size, "", true},
		{"the same, of unknown size", head("", before), head("", before), same, "*", before, true},
		{"another, by ETag", head(`"1"`, before), head(`"2"`, before), other, size, `"1"`, false},
		{"another, that lost its ETag", head(`"1"`, ""), nil, other, size, `"1"`, false},
		{"another, by date", head("", before), head("", after), other, size, before, false},
		{"another, by size", nil, nil, longer, fmt.Sprint(len(longer)), "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, second, rest, total, condition = tt.first, tt.second, tt.rest, tt.total, ""
			s := newShared(t, func(p *Peer) { p.Versions, p.FileHosts = message.Versions(), []string{"127.0.0.1"} })
			a := s.fetch(host)
			if got := a.cards.Lookup(otherCard) != nil; got != tt.want {
				t.Errorf("ranges there: %t, want %t; standing %+v", got, tt.want, s.refreshStatus())
			}
			if a.cards.Lookup("4200000000000005") != nil {
				t.Error("the ranges are of two versions")
			}
			if condition != tt.condition {
				t.Errorf("If-Range %q, want %q", condition, tt.condition)
			}
		})
	}
}

// TestPR20Anew: when the rest of a file is not to be had, all of it is fetched again: a
// server may have replaced it, or send no parts.
func TestPR20Anew(t *testing.T) {
	file := func(bin string) string {
		return `{"cardRangeData":[{"ranges":[{"start":"` + bin + `0000000000","end":"` + bin + `0999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`
	}
	const part = 50
	for _, tt := range []struct {
		name          string
		first, second string
		breaks        int // so many answers break off
	}{
		{"the server sends no parts", file("400000"), file("400000"), 1},
		{"and breaks off again", file("400000"), file("400000"), 3},
		{"the file was replaced", file("420000"), file("400000"), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			host := newFileHost(t, func(w http.ResponseWriter, r *http.Request) {
				content := tt.first
				if len(asked) > 0 {
					content = tt.second
				}
				asked = append(asked, r.Header.Get("Range"))
				w.Header().Set("Content-Length", fmt.Sprint(len(content)))
				if r.Header.Get("Range") == "" && len(asked) < 2*tt.breaks {
					content = content[:part] // and no more
				}
				io.WriteString(w, content)
			})
			s := newShared(t, func(p *Peer) { p.Versions, p.FileHosts = message.Versions(), []string{"127.0.0.1"} })
			a := s.fetch(host)
			if a.cards.Lookup(card) == nil || a.cards.Lookup("4200000000000005") != nil {
				t.Errorf("not the ranges of the file that came whole; standing %+v", s.refreshStatus())
			}
			if want := slices.Repeat([]string{"", "bytes=50-"}, tt.breaks); !slices.Equal(asked, append(want, "")) {
				t.Errorf("asked for %q", asked)
			}
		})
	}
}

// TestPR20ShortParts: a server may send less of a file than it is asked for, and say so.
// What is missing is asked for, as often as a download may go on, and nobody is told that
// the file is no JSON.
func TestPR20ShortParts(t *testing.T) {
	content := []byte(`{"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`)
	var file []byte
	var part, asked int
	var encoding string
	var sized bool
	host := newFileHost(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("ETag", `"1"`)
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		from := 0
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err != nil {
			if sized {
				w.Header().Set("Content-Length", fmt.Sprint(len(file)))
			}
			w.Write(file[:30])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		to := min(from+part, len(file))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(file)))
		w.Header().Set("Content-Length", fmt.Sprint(to-from))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(file[from:to])
	})
	for _, tt := range []struct {
		name, encoding string
		sized          bool
		part           int
		want           bool
	}{
		{"parts", "", true, 40, true},
		{"parts of a file whose size was not said", "", false, 40, true},
		{"parts of gzip", "gzip", true, 40, true},
		{"too many parts", "", true, 1, false},
		{"too many parts of gzip", "gzip", true, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked, part, encoding, sized, file = 0, tt.part, tt.encoding, tt.sized, content
			if encoding != "" {
				file = zipped(string(content))
			}
			s := newShared(t, func(p *Peer) { p.Versions, p.FileHosts = message.Versions(), []string{"127.0.0.1"} })
			a := s.fetch(host)
			if got := a.cards.Lookup(card) != nil; got != tt.want {
				t.Errorf("ranges there: %t, want %t; standing %+v", got, tt.want, s.refreshStatus())
			}
			if !tt.want && asked != 1+maxResumptions {
				t.Errorf("asked %d times, want %d", asked, 1+maxResumptions)
			}
			a.Close() // waits for the Erro
			s.ds.checkErro(t, "", "")
		})
	}
}

// TestFileHeader: the header of a card range file's answer is bounded.
func TestFileHeader(t *testing.T) {
	for size, want := range map[int]bool{maxHeader / 2: true, 2 * maxHeader: false} {
		host := newFileHost(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", size))
			io.WriteString(w, `{"cardRangeData":[{"ranges":[{"start":"4100000000000000","end":"4100000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`)
		})
		s := newShared(t, func(p *Peer) { p.Versions, p.FileHosts = message.Versions(), []string{"127.0.0.1"} })
		if got := s.fetch(host).cards.Lookup(otherCard) != nil; got != want {
			t.Errorf("a header of %d bytes: ranges there: %t, want %t; standing %+v", size, got, want, s.refreshStatus())
		}
	}
}

// TestFileHostInCapitals: a host is the one that is configured, in whatever case.
func TestFileHostInCapitals(t *testing.T) {
	host := newFileHost(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`)
	})
	s := newShared(t, func(p *Peer) { p.Versions, p.FileHosts = message.Versions(), []string{"localHost"} })
	s.saysFile(strings.Replace(host.url, "127.0.0.1", "LOCALHOST", 1))
	a := s.start()
	a.peer.files.TLSClientConfig.RootCAs, a.peer.files.TLSClientConfig.ServerName = host.pool, "127.0.0.1"
	if a.refresh(t.Context()); a.cards.Lookup(card) == nil {
		t.Errorf("no ranges; standing %+v", s.refreshStatus())
	}
}

// TestFileHostWithoutHandshake: of a host of card range files that takes connections and
// says nothing none is left open behind the PReq.
func TestFileHostWithoutHandshake(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	over := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			over <- err
			return
		}
		defer conn.Close()
		_, err = io.Copy(io.Discard, conn)
		over <- err
	}()
	s := newShared(t, func(p *Peer) {
		p.Versions, p.FileHosts = message.Versions(), []string{"127.0.0.1"}
		p.DialTimeout, p.PReqTimeout = time.Second, 2*time.Second
	})
	s.saysFile("https://" + l.Addr().String() + "/file")
	s.start().refresh(t.Context())
	if err := <-over; err != nil {
		t.Errorf("the connection was not closed: %v", err)
	}
}

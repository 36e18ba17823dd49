package directory

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/message"
)

const (
	card      = "4000000000000005"
	otherCard = "4100000000000005"
	entry     = `{"startRange":"4000000000000000","endRange":"4000000999999999","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0"}`
	dsID      = "f25084f0-5b16-4c0a-ae5d-b24808a95e4b"
)

// A ds answers PReqs and keeps what it got.
type ds struct {
	answer func(w http.ResponseWriter, preq *message.Message)
	erros  chan string

	mu    sync.Mutex
	preqs []*message.Message
	heads []http.Header
	paths []string // of what else came
}

func (d *ds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := message.Parse(body, message.Limits{})
	if err != nil {
		panic(err)
	}
	if r.URL.Path == "/areq" || m.Text("messageType") == "Erro" {
		d.mu.Lock()
		d.paths = append(d.paths, r.URL.Path)
		d.mu.Unlock()
		d.erros <- string(body)
		return
	}
	d.mu.Lock()
	d.preqs, d.heads = append(d.preqs, m), append(d.heads, r.Header)
	d.mu.Unlock()
	d.answer(w, m)
}

// newDS starts a directory server and a client of it.
func newDS(t *testing.T, change func(*Peer), answer func(http.ResponseWriter, *message.Message)) (*ds, *Client, *ranges.Schemes) {
	ca := newAuthority(t)
	d := &ds{answer: answer, erros: make(chan string, 10)}
	p := peerAt("visa", serve(t, ca.server(), d.ServeHTTP), ca.client())
	if change != nil {
		change(&p)
	}
	c, cards := newClient(t, Hooks{}, p)
	return d, c, cards
}

// refreshOnce makes one exchange as Run does.
func refreshOnce(t *testing.T, c *Client) outcome {
	t.Helper()
	return leased(t, c).exchangePReq(t.Context(), 2)
}

// leased is a refresher that may ask.
func leased(t *testing.T, c *Client) *refresher {
	t.Helper()
	r := newRefresher(c, c.peers["visa"])
	if err := r.acquireLease(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func pres(preq *message.Message, entries string) string {
	return fmt.Sprintf(`{"messageType":"PRes","messageVersion":%q,"threeDSServerTransID":%q,"dsTransID":%q,`+
		`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0","cardRangeData":[%s]}`,
		preq.Text("messageVersion"), preq.Text("threeDSServerTransID"), dsID, entries)
}

func TestRunLoadsRanges(t *testing.T) {
	d, c, cards := newDS(t, nil, func(w http.ResponseWriter, preq *message.Message) { io.WriteString(w, pres(preq, entry)) })
	loaded := make(chan int, 1)
	c.hooks.Refreshed = func(_ string, n int, _ time.Time) { loaded <- n }
	if cards.AnyTried() {
		t.Error("tried before anything was sent")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	if n := <-loaded; n != 1 {
		t.Errorf("%d ranges, want 1", n)
	}
	cancel()
	<-done
	if hits := cards.Lookup(card); len(hits) != 1 || hits[0].Scheme != "visa" || hits[0].Info.ACSEnd != "2.2.0" {
		t.Errorf("Lookup = %v", hits)
	}
	preq := d.preqs[0]
	if v, _ := preq.Version(); v != message.V220 || len(d.preqs) != 1 {
		t.Errorf("%d PReqs of version %v, want one of the highest configured", len(d.preqs), v)
	}
	if problems := preq.Check(message.Context{}); problems != nil {
		t.Errorf("our PReq: %v", problems)
	}
	if preq.Text("threeDSServerRefNumber") != "REF-2.2.0" || preq.Text("threeDSServerOperatorID") != "op-1" ||
		preq.Has("serialNum") || preq.Has("cardRangeDataDownloadInd") {
		t.Errorf("our PReq: %s", preq.Bytes())
	}
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if id := preq.Text("threeDSServerTransID"); !uuid.MatchString(id) {
		t.Errorf("threeDSServerTransID %q", id)
	}
	if d.heads[0].Get("Accept-Encoding") != "gzip" || d.heads[0].Get("X-Request-ID") != "" {
		t.Errorf("headers %v", d.heads[0])
	}
}

func TestPReq231(t *testing.T) {
	d, c, cards := newDS(t, func(p *Peer) { p.Versions = message.Versions() }, func(w http.ResponseWriter, preq *message.Message) {
		fmt.Fprintf(w, `{"messageType":"PRes","messageVersion":"2.3.1","threeDSServerTransID":%q,"dsTransID":%q,"readOrder":"01","dsProtocolVersions":["2.2.0"],`+
			`"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`,
			preq.Text("threeDSServerTransID"), dsID)
	})
	if v := refreshOnce(t, c); v != fresh || cards.Lookup(card) == nil {
		t.Errorf("verdict %d", v)
	}
	if id := d.preqs[0].Text("threeDSServerTransID"); d.heads[0].Get("X-Request-ID") != id {
		t.Errorf("X-Request-ID %q, want %q", d.heads[0].Get("X-Request-ID"), id)
	}
}

// TestPR31VP17RefusedPRes: whatever is wrong with an answer, the ranges in use stay, and
// the directory server is told what is wrong unless it told us (VG-31, VP-17,
// PR-31).
func TestPR31VP17RefusedPRes(t *testing.T) {
	plain := func(text string) func(http.ResponseWriter, *message.Message) {
		return func(w http.ResponseWriter, _ *message.Message) {
			io.WriteString(w, text)
		}
	}
	edited := func(old, new string) func(http.ResponseWriter, *message.Message) {
		return func(w http.ResponseWriter, preq *message.Message) {
			io.WriteString(w, strings.Replace(pres(preq, entry), old, new, 1))
		}
	}
	encoded := func(encoding string, body []byte) func(http.ResponseWriter, *message.Message) {
		return func(w http.ResponseWriter, _ *message.Message) {
			w.Header().Set("Content-Encoding", encoding)
			w.Write(body)
		}
	}
	cut := func(encoding string, body []byte) func(http.ResponseWriter, *message.Message) {
		return func(w http.ResponseWriter, _ *message.Message) {
			w.Header().Set("Content-Encoding", encoding)
			w.Header().Set("Content-Length", "1000")
			w.Write(body)
			panic(http.ErrAbortHandler)
		}
	}
	const patience = 500 * time.Millisecond
	for _, test := range []struct {
		name   string
		answer func(http.ResponseWriter, *message.Message)
		want   outcome
		code   string // of the Erro that must arrive
		detail string
	}{
		{"not JSON", plain("<html>"), refused, "101", unreadable},
		{"unknown type", plain(`{"messageType":"XRes"}`), refused, "101", unknownType},
		{"another type", plain(`{"messageType":"ARes","messageVersion":"2.2.0"}`), refused, "101", wrongType},
		{"no type", plain(`{"messageVersion":"2.2.0"}`), refused, "201", "messageType"},
		{"an Erro",
			plain(`{"messageType":"Erro","messageVersion":"2.2.0","errorCode":"103","errorComponent":"D","errorDescription":"x","errorDetail":"x"}`), refused, "", ""},
		{"a broken Erro", plain(`{"messageType":"Erro"}`), refused, "", ""},
		{"VG-29 another transaction", func(w http.ResponseWriter, preq *message.Message) {
			io.WriteString(w, strings.Replace(pres(preq, entry), preq.Text("threeDSServerTransID"), transID, 1))
		}, refused, "301", "threeDSServerTransID"},
		{"VG-27 another version", edited(`"2.2.0"`, `"2.1.0"`), refused, "203", "messageVersion"},
		{"VP-02 no dsTransID", edited(`"dsTransID":"`+dsID+`",`, ""), refused, "201", "dsTransID"},
		{"VG-08 dsTransID is none", edited(dsID, "4000000000000002-is-no-transactionid"), refused, "203", "dsTransID"},
		{"VP-07 no startRange", edited(`"startRange"`, `"xRange"`), refused, "201", "cardRangeData.startRange"},
		{"VP-09 reversed", edited(`"startRange":"4000000000000000"`, `"startRange":"4999999999999999"`), refused, "203", "cardRangeData"},
		{"VP-06 empty array", edited(entry, ""), refused, "203", "cardRangeData"},
		{"VG-17 twice", edited(`"dsTransID"`, `"cardRangeData":[],"dsTransID"`), refused, "204", "cardRangeData"},
		{"PR-15 no range data", edited(`,"cardRangeData":[`+entry+`]`, ""), fresh, "", ""},
		{"500", func(w http.ResponseWriter, _ *message.Message) { w.WriteHeader(500) }, unreachable, "", ""},
		{"429", func(w http.ResponseWriter, _ *message.Message) { w.WriteHeader(429) }, refused, "", ""},
		{"cut off", func(w http.ResponseWriter, _ *message.Message) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		}, unreachable, "", ""},
		{"too long", plain(strings.Repeat(" ", 1<<20+1)), refused, "", ""},
		{"gzip bomb", encoded("gzip", zipped(strings.Repeat(" ", 4<<20))), refused, "", ""},
		{"gzip without content that goes on", encoded("gzip", bytes.Repeat(zipped(""), 2<<20/len(zipped("")))), refused, "", ""},
		{"not gzip", encoded("gzip", []byte("no, not at all")), refused, "101", unreadable},
		{"bad gzip", encoded("gzip", append(zipped("")[:10], "garbage, not deflated"...)), refused, "101", unreadable},
		{"gzip ends early", encoded("gzip", zipped(strings.Repeat(" ", 4<<10))[:20]), refused, "101", unreadable},
		{"gzip ends at once", encoded("gzip", nil), refused, "101", unreadable},
		{"gzip cut off", cut("gzip", zipped(strings.Repeat(" ", 4<<10))[:20]), unreachable, "", ""},
		{"gzip cut off in its header", cut("gzip", zipped("")[:5]), unreachable, "", ""},
		{"gzip never comes", func(w http.ResponseWriter, _ *message.Message) {
			w.Header().Set("Content-Encoding", "gzip")
			w.(http.Flusher).Flush()
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.Copy(io.Discard, conn) // until the client hangs up
		}, unreachable, "", ""},
		{"brotli", encoded("br", []byte("{}")), refused, "101", unreadable},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, c, cards := newDS(t, func(p *Peer) {
				p.MaxPRes = 1 << 20
				if test.name == "gzip never comes" {
					p.PReqTimeout = patience
				}
			}, test.answer)
			old := new(ranges.Builder)
			old.Add(otherCard, otherCard, &ranges.Info{})
			table, _ := old.Build()
			cards.Swap("visa", table)
			if got := refreshOnce(t, c); got != test.want {
				t.Errorf("verdict %d, want %d", got, test.want)
			}
			if cards.Lookup(otherCard) == nil || cards.Lookup(card) != nil {
				t.Error("the ranges in use were changed")
			}
			c.Close() // waits for the Erro
			d.checkErro(t, test.code, test.detail)
		})
	}
}

// checkErro wants one Erro with the code, or none if code is empty.
func (d *ds) checkErro(t *testing.T, code, detail string) {
	t.Helper()
	close(d.erros)
	text, came := <-d.erros
	if !came {
		if code != "" {
			t.Errorf("no Erro came, want %s", code)
		}
		return
	}
	m, err := message.Parse([]byte(text), message.Limits{})
	if err != nil {
		t.Fatalf("Erro %s: %v", text, err)
	}
	if code == "" || m.Text("errorCode") != code || m.Text("errorDetail") != detail || m.Text("errorComponent") != "S" ||
		m.Text("threeDSServerTransID") != d.preqs[0].Text("threeDSServerTransID") {
		t.Errorf("Erro %s, want code %q, detail %q", text, code, detail)
	}
	if problems := m.Check(message.Context{}); problems != nil {
		t.Errorf("Erro %s: %v", text, problems)
	}
	if !slices.Equal(d.paths, []string{"/preq"}) {
		t.Errorf("the Erro went to %q, want where the PReq went", d.paths)
	}
}

// TestPR18GzippedPRes: the name of the encoding is written as servers do.
func TestPR18GzippedPRes(t *testing.T) {
	for _, encoding := range []string{"gzip", "GZIP", "x-gzip"} {
		d, c, cards := newDS(t, nil, func(w http.ResponseWriter, preq *message.Message) {
			w.Header().Set("Content-Encoding", encoding)
			w.Write(zipped(pres(preq, entry)))
		})
		if v := refreshOnce(t, c); v != fresh || cards.Lookup(card) == nil {
			t.Errorf("%s: verdict %d, want the ranges", encoding, v)
		}
		if got := d.heads[0].Get("Accept-Encoding"); got != "gzip" {
			t.Errorf("Accept-Encoding %q", got)
		}
	}
}

// TestPR30MutualTLS: a PReq goes over the same kind of link as an AReq, with our
// certificate.
func TestPR30MutualTLS(t *testing.T) {
	ca := newAuthority(t)
	shown := make(chan string, 2)
	address := serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
		shown <- r.URL.Path + " " + r.TLS.PeerCertificates[0].SerialNumber.String()
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	refreshOnce(t, c)
	_, _ = send(t, c, "visa")
	preq, areq := <-shown, <-shown
	if preq != strings.Replace(areq, "/areq", "/preq", 1) || !strings.HasPrefix(preq, "/preq ") {
		t.Errorf("shown with %q and %q", preq, areq)
	}
}

// TestVP05OtherSerial: in 2.3.1 a PRes without ranges that says another serial
// number than the PReq is not valid; before, it changes nothing.
func TestVP05OtherSerial(t *testing.T) {
	for _, test := range []struct {
		version message.Version
		serial  string
		want    outcome
		code    string
	}{
		{message.V231, "7", fresh, ""},
		{message.V231, "8", refused, "201"},
		{message.V231, "", refused, "201"},
		{message.V220, "8", fresh, ""},
		{message.V220, "", fresh, ""},
	} {
		t.Run(test.version.String()+" "+test.serial, func(t *testing.T) {
			d, c, cards := newDS(t, func(p *Peer) { p.Versions = versionsUpTo(test.version) }, func(w http.ResponseWriter, preq *message.Message) {
				serial := ""
				if test.serial != "" {
					serial = fmt.Sprintf(`,"serialNum":%q`, test.serial)
				}
				fmt.Fprintf(w, `{"messageType":"PRes","messageVersion":%q,"threeDSServerTransID":%q,"dsTransID":%q,"readOrder":"01",`+
					`"dsProtocolVersions":["2.2.0"],"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0"%s}`,
					test.version.String(), preq.Text("threeDSServerTransID"), dsID, serial)
			})
			old := new(ranges.Builder)
			old.Add(otherCard, otherCard, &ranges.Info{})
			table, _ := old.Build()
			cards.Put("visa", &ranges.Generation{Table: table, Serial: "7", Version: test.version})
			if got := refreshOnce(t, c); got != test.want {
				t.Errorf("verdict %d, want %d", got, test.want)
			}
			if d.preqs[0].Text("serialNum") != "7" || cards.Lookup(otherCard) == nil || cards.Generation("visa").Serial != "7" {
				t.Errorf("PReq %s, serial number in use %q", d.preqs[0].Bytes(), cards.Generation("visa").Serial)
			}
			c.Close()
			d.checkErro(t, test.code, "cardRangeData")
		})
	}
}

// TestVP21Erro: an Erro in answer to a PReq, whatever its code and the status that it
// comes with, leaves the ranges as they are, and the floor holds. After 307 alone the next
// PReq is for all of them.
func TestVP21Erro(t *testing.T) {
	for _, answer := range []struct {
		code   string
		status int
	}{
		{"101", 200}, {"103", 200}, {"201", 200}, {"203", 200}, {"307", 200}, {"403", 200}, {"404", 200}, {"405", 200}, {"999", 200},
		{"103", 429}, {"307", 400}, {"307", 500}, {"403", 503},
	} {
		t.Run(fmt.Sprint(answer.code, " with ", answer.status), func(t *testing.T) {
			s := newShared(t, nil)
			s.says = func(w http.ResponseWriter, preq *message.Message) {
				io.WriteString(w, strings.TrimSuffix(pres(preq, entry), "}")+`,"serialNum":"1"}`)
			}
			a := s.start()
			a.refresh(t.Context())
			s.due()
			a.pollStore(t.Context())
			s.says = func(w http.ResponseWriter, _ *message.Message) {
				w.WriteHeader(answer.status)
				fmt.Fprintf(w, `{"messageType":"Erro","messageVersion":"2.2.0","errorCode":%q,"errorComponent":"D","errorDescription":"x","errorDetail":"y"}`, answer.code)
			}
			a.refresh(t.Context())
			now := s.refreshStatus()
			if len(s.ds.preqs) != 2 || a.cards.Lookup(card) == nil || now.Ranges != 1 || now.Fault == "" {
				t.Errorf("%d PReqs, ranges there: %t, %+v", len(s.ds.preqs), a.cards.Lookup(card) != nil, now)
			}
			if wait := time.Until(now.Next); wait < 59*time.Minute {
				t.Errorf("the next PReq may leave in %v, want the floor", wait)
			}
			if len(s.ds.erros) > 0 {
				t.Error("an Erro was answered with one")
			}
			s.due()
			a.pollStore(t.Context())
			a.refresh(t.Context())
			if last := s.ds.preqs[len(s.ds.preqs)-1]; len(s.ds.preqs) != 3 || last.Has("serialNum") == (answer.code == "307") {
				t.Errorf("%d PReqs, the last has serialNum: %t", len(s.ds.preqs), last.Has("serialNum"))
			}
		})
	}
}

// TestSilentDirectoryCountsAsTried: after that its cards are not enrolled, and
// nobody waits for it any more.
func TestSilentDirectoryCountsAsTried(t *testing.T) {
	ca := newAuthority(t)
	p := peerAt("visa", "https://127.0.0.1:1", ca.client())
	c, cards := newClient(t, Hooks{}, p)
	if v := refreshOnce(t, c); v != unreachable || !cards.AnyTried() || cards.Lookup(card) != nil {
		t.Errorf("verdict %d, tried %t", v, cards.AnyTried())
	}
}

func TestReport(t *testing.T) {
	d, c, _ := newDS(t, nil, nil)
	c.Report(t.Context(), "visa", "", []byte(`{"messageType":"Erro"}`))
	if got := <-d.erros; got != `{"messageType":"Erro"}` {
		t.Errorf("Erro %s", got)
	}
}

// TestReportsAreBounded: what a dead directory server does not take is dropped,
// and Close waits for the rest.
func TestReportsAreBounded(t *testing.T) {
	ca := newAuthority(t)
	release := make(chan struct{})
	var mu sync.Mutex
	arrived, dropped := 0, 0
	address := serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
		<-release
		mu.Lock()
		defer mu.Unlock()
		arrived++
		w.WriteHeader(500) // ignored
	})
	c, _ := newClient(t, Hooks{Dropped: func(string, string) { dropped++ }}, peerAt("visa", address, ca.client()))
	for range maxReports + 3 {
		c.Report(t.Context(), "visa", "", []byte(`{}`))
	}
	close(release)
	c.Close()
	c.Report(t.Context(), "visa", "", []byte(`{}`))
	if arrived != maxReports || dropped != 4 {
		t.Errorf("%d arrived and %d were dropped, want %d and 4", arrived, dropped, maxReports)
	}
}

// TestPReqIsPatient: the limit of an AReq does not cut a PRes off (TO-11).
func TestPReqIsPatient(t *testing.T) {
	_, c, cards := newDS(t, func(p *Peer) { p.Timeout = time.Nanosecond }, func(w http.ResponseWriter, preq *message.Message) {
		io.WriteString(w, pres(preq, entry))
	})
	c.peers["visa"].client.CloseIdle()
	if v := refreshOnce(t, c); v != fresh || cards.Lookup(card) == nil {
		t.Errorf("verdict %d", v)
	}
}

func zipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.Bytes()
}

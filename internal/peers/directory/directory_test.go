package directory

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/leaktest"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
	"github.com/openthreeds/threeds/message"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const transID = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e"

// serve starts a directory server that demands a client certificate and
// returns its URL.
func serve(t *testing.T, config *tls.Config, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.TLS = config
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// serveRaw starts a directory server that handles connections, not requests;
// each is closed when handle returns. It returns the URL.
func serveRaw(t *testing.T, config *tls.Config, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "https://" + l.Addr().String()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				handle(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return address
}

// readRequest reads one request and answers nothing; nil at the end of the
// connection.
func readRequest(r *bufio.Reader) *http.Request {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil
	}
	return req
}

// peerAt is a peer with short limits.
func peerAt(scheme, address string, config *tls.Config) Peer {
	return Peer{
		Scheme: scheme, AReqURL: address + "/areq", PReqURL: address + "/preq", TLS: config,
		OperatorID: "op-1", RefNumber: func(v message.Version) string { return "REF-" + v.String() },
		Versions: []message.Version{message.V220, message.V210},
		Timeout:  10 * time.Second, DialTimeout: 5 * time.Second,
	}
}

func newClient(t *testing.T, hooks Hooks, peers ...Peer) (*Client, *ranges.Schemes) {
	t.Helper()
	var names []string
	for _, p := range peers {
		names = append(names, p.Scheme)
	}
	cards := ranges.NewSchemes(names...)
	c, err := New(peers, cards, storetest.NewMemory(time.Now), slog.New(slog.DiscardHandler), hooks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, cards
}

func send(t *testing.T, c *Client, scheme string) (string, *Error) {
	t.Helper()
	answer, err := c.Send(t.Context(), scheme, "Shop", []byte(`{"messageType":"AReq"}`), transID, message.V220, "")
	if err == nil {
		return string(answer), nil
	}
	failed, ok := errors.AsType[*Error](err)
	if !ok {
		t.Errorf("error %v is no *Error", err)
		failed = &Error{}
	}
	return "", failed
}

func TestNewNamesAllFaults(t *testing.T) {
	ca := newAuthority(t)
	good := peerAt("visa", "https://ds.example", ca.client())
	for _, test := range []struct {
		name string
		bad  func(*Peer)
		want string
	}{
		{"nothing at all", func(p *Peer) { *p = Peer{} }, "directory : no scheme\nno reference number\nno protocol version"},
		{"http", func(p *Peer) { p.AReqURL = "http://ds.example" }, `directory visa: not an https URL: "http://ds.example"`},
		{"no PReq URL", func(p *Peer) { p.PReqURL = "" }, `directory visa: not an https URL: ""`},
		{"no TLS", func(p *Peer) { p.TLS = nil }, "directory visa: no TLS configuration"},
		{
			"system authorities and no certificate", func(p *Peer) { p.TLS = &tls.Config{InsecureSkipVerify: true} },
			"directory visa: no authority to trust: the system's are not used\nthe server's certificate would not be verified\nno client certificate",
		},
	} {
		p := good
		test.bad(&p)
		_, err := New([]Peer{p}, ranges.NewSchemes("visa"), storetest.NewMemory(time.Now), slog.New(slog.DiscardHandler), Hooks{})
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
	_, err := New([]Peer{good, good}, ranges.NewSchemes("visa"), storetest.NewMemory(time.Now), slog.New(slog.DiscardHandler), Hooks{})
	if err == nil || err.Error() != "directory visa: configured twice" {
		t.Errorf("twice the same scheme: %v", err)
	}
}

// TestSendOnTheWire has what a directory server sees of an AReq (HT-01, HT-03,
// HT-04, HT-09, HT-11).
func TestSendOnTheWire(t *testing.T) {
	ca := newAuthority(t)
	var got *http.Request
	var body []byte
	address := serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/JSON; charset=UTF-8")
		io.WriteString(w, `{"messageType":"ARes"}`)
	})
	var counted []string
	c, _ := newClient(t, Hooks{Exchanged: func(_, name string, _ time.Duration, err error) {
		if err == nil {
			counted = append(counted, name)
		}
	}}, peerAt("visa", address, ca.client()))
	for v, want := range map[message.Version]string{message.V210: "", message.V220: "", message.V231: transID} {
		answer, err := c.Send(t.Context(), "visa", "Shop", []byte(`{"messageType":"AReq"}`), transID, v, "")
		if err != nil || string(answer) != `{"messageType":"ARes"}` {
			t.Fatalf("Send = %q, %v", answer, err)
		}
		if id := got.Header.Get("X-Request-ID"); id != want {
			t.Errorf("%v: X-Request-ID %q, want %q", v, id, want)
		}
	}
	if got.Method != "POST" || got.URL.Path != "/areq" || got.ContentLength != 22 || string(body) != `{"messageType":"AReq"}` {
		t.Errorf("%s %s of %d bytes: %s", got.Method, got.URL, got.ContentLength, body)
	}
	if ct := got.Header.Get("Content-Type"); ct != "application/json; charset=utf-8" {
		t.Errorf("Content-Type %q", ct)
	}
	for _, name := range []string{"User-Agent", "Accept-Encoding"} {
		if _, sent := got.Header[name]; sent {
			t.Errorf("%s was sent", name)
		}
	}
	if len(counted) != 3 || counted[0] != "AReq" {
		t.Errorf("counted %v, want three AReqs", counted)
	}
}

func TestUnknownScheme(t *testing.T) {
	c, _ := newClient(t, Hooks{})
	if _, err := send(t, c, "visa"); err == nil || err.Kind != Unknown {
		t.Errorf("Send without a peer: %v", err)
	}
	c.Report(t.Context(), "visa", "", []byte("{}")) // does nothing
}

// TestAnswers has what a directory server may say instead of an ARes.
func TestAnswers(t *testing.T) {
	ca := newAuthority(t)
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
		kind   Kind
		text   string
	}{
		{"HTML with 200", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>")
		}, "<html>", 0, ""},
		{"nothing with 200", func(http.ResponseWriter, *http.Request) {}, "", 0, ""},
		{"RT-06 503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "", Status, "HTTP status 503 Service Unavailable"},
		{"VA-32 an Erro with 400", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, `{"messageType":"Erro"}`)
		}, `{"messageType":"Erro"}`, 0, ""},
		{"an Erro with 503, cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(503)
			io.WriteString(w, `{"messageType":"Erro"}`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "", Status, "HTTP status 503 Service Unavailable"},
		{"an Erro with 400 that is too long", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, `{"messageType":"Erro"}`+string(bytes.Repeat([]byte(" "), maxHeader)))
		}, "", Status, "HTTP status 400 Bad Request"},
		{"an ARes with 400", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, `{"messageType":"ARes"}`)
		}, "", Status, "HTTP status 400 Bad Request"},
		{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "", Status, "HTTP status 204 No Content"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, "", Status, "HTTP status 307 Temporary Redirect"},
		{"10 MiB", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 10<<20)) }, "", TooLarge, "Answer too large"},
		{"10 MiB announced", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10485760")
			w.Write(make([]byte, 10<<20))
		}, "", TooLarge, "Answer too large"},
		{"huge header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", string(make([]byte, 1<<20)))
		}, "", Broken, "Connection failed"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		}, "", Broken, "Connection closed"},
		{"cut off in the body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "", Broken, "Connection closed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var paths []string
			address := serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
				paths = append(paths, r.URL.Path)
				test.answer(w, r)
			})
			c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
			answer, err := send(t, c, "visa")
			switch {
			case answer != test.want:
				t.Errorf("answer %q, want %q", answer, test.want)
			case err != nil && (err.Kind != test.kind || err.Text != test.text):
				t.Errorf("error %v %q, want %v %q", err.Kind, err.Text, test.kind, test.text)
			case err == nil && test.kind != 0:
				t.Errorf("no error, want %v", test.kind)
			}
			if len(paths) != 1 || paths[0] != "/areq" {
				t.Errorf("requests for %q, want one for /areq", paths)
			}
		})
	}
}

// TestTimeout: whatever hangs, Send ends at the limit, and the request left at
// most once (TO-03, RT-02).
func TestTimeout(t *testing.T) {
	ca := newAuthority(t)
	const limit = 150 * time.Millisecond
	for _, test := range []struct {
		name string
		at   func(t *testing.T, count func()) string
	}{
		{"no answer", func(t *testing.T, count func()) string {
			return serve(t, ca.server(), func(_ http.ResponseWriter, r *http.Request) {
				count()
				io.Copy(io.Discard, r.Body) // or the end of the connection is not noticed
				<-r.Context().Done()
			})
		}},
		{"half an answer", func(t *testing.T, count func()) string {
			return serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
				count()
				io.Copy(io.Discard, r.Body)
				io.WriteString(w, `{"messageType":`)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
		}},
		{"no handshake", func(t *testing.T, _ func()) string {
			return serveRaw(t, nil, func(conn net.Conn) { io.Copy(io.Discard, conn) })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex
			requests := 0
			address := test.at(t, func() { mu.Lock(); defer mu.Unlock(); requests++ })
			p := peerAt("visa", address, ca.client())
			p.Timeout, p.DialTimeout = limit, limit
			c, _ := newClient(t, Hooks{}, p)
			start := time.Now()
			_, err := send(t, c, "visa")
			took := time.Since(start)
			if err == nil || err.Kind != Timeout || err.Text != "Connection timeout" {
				t.Errorf("error %+v, want a timeout", err)
			}
			if took < limit {
				t.Errorf("took %v, want %v at least", took, limit)
			}
			mu.Lock()
			defer mu.Unlock()
			if requests > 1 {
				t.Errorf("%d requests, want one", requests)
			}
		})
	}
}

func TestCallerGivesUp(t *testing.T) {
	ca := newAuthority(t)
	ctx, cancel := context.WithCancel(t.Context())
	address := serve(t, ca.server(), func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	_, err := c.Send(ctx, "visa", "Shop", []byte("{}"), transID, message.V220, "")
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("Send = %v, want canceled", err)
	}
}

// TestPeersAreApart: a directory server that hangs takes no more requests than
// it may and slows no other.
func TestPeersAreApart(t *testing.T) {
	ca, otherCA := newAuthority(t), newAuthority(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := serve(t, ca.server(), func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	quick := serve(t, otherCA.server(), func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "quick") })
	slowPeer := peerAt("visa", slow, ca.client())
	slowPeer.MaxInFlight = 2
	c, _ := newClient(t, Hooks{}, slowPeer, peerAt("mastercard", quick, otherCA.client()))

	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { send(t, c, "visa") })
		<-arrived
	}
	if _, err := send(t, c, "visa"); err == nil || err.Kind != Busy {
		t.Errorf("third request: %v, want busy", err)
	}
	for range 20 {
		if answer, err := send(t, c, "mastercard"); answer != "quick" {
			t.Errorf("the other directory server: %q, %v", answer, err)
		}
	}
	close(release)
	wg.Wait()
	go func() { <-arrived }()
	if _, err := send(t, c, "visa"); err != nil {
		t.Errorf("after the others ended: %v", err)
	}
}

// BenchmarkSend is one AReq after the other over a warm connection, beside the
// plain transport that carries it.
func BenchmarkSend(b *testing.B) {
	ca := newAuthority(b)
	answer := append(make([]byte, 1000-len(transID)), transID...) // without it the connection would not be used again
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write(answer)
	}))
	s.TLS = ca.server()
	s.StartTLS()
	defer s.Close()
	body := make([]byte, 3300)
	c, err := New([]Peer{peerAt("visa", s.URL, ca.client())}, ranges.NewSchemes("visa"), storetest.NewMemory(time.Now), slog.New(slog.DiscardHandler), Hooks{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.Run("client", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Send(b.Context(), "visa", "Shop", body, transID, message.V220, ""); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("transport", func(b *testing.B) {
		plain := &http.Transport{TLSClientConfig: ca.client()}
		defer plain.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			req, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL, bytes.NewReader(body))
			resp, err := plain.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}

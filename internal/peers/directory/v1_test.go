package directory

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// newV1 is a client of the peers that counts what it is told.
func newV1(t *testing.T, peers ...V1Peer) (*V1Client, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var told []string
	tell := func(words ...string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, strings.Join(words, " "))
	}
	c, err := NewV1(peers, slog.New(slog.DiscardHandler), Hooks{
		Exchanged: func(scheme, message string, _ time.Duration, err error) {
			kind := "ok"
			if bad, ok := errors.AsType[*Error](err); ok {
				kind = bad.Kind.String()
			}
			tell(scheme, message, kind)
		},
		Dropped: func(scheme, message string) { tell(scheme, message, "dropped") },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return told
	}
}

// TestV1Exchange looks at what is on the wire.
func TestV1Exchange(t *testing.T) {
	ca := newAuthority(t)
	address := serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || r.URL.Path != "/ds" || r.Header.Get("Content-Type") != "application/xml; charset=utf-8" ||
			r.ContentLength != int64(len(body)) || string(body) != "<é/>" || r.Header.Get("Accept-Encoding") != "" ||
			len(r.TLS.PeerCertificates) == 0 {
			t.Errorf("%s %s %v %q", r.Method, r.URL, r.Header, body)
		}
		w.Header().Set("Content-Type", `text/xml; charset="UTF-8"`)
		_, _ = io.WriteString(w, "<answer/>")
	})
	c, told := newV1(t, V1Peer{Scheme: "visa", URL: address + "/ds", TLS: ca.client()})
	got, err := c.Exchange(t.Context(), "visa", "Shop", "VEReq", "", []byte("<é/>"))
	if err != nil || string(got) != "<answer/>" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := c.Exchange(t.Context(), "jcb", "Shop", "VEReq", "", nil); err == nil {
		t.Error("a scheme without a directory server was asked")
	}
	if all := told(); len(all) != 1 || all[0] != "visa VEReq ok" {
		t.Errorf("told %q", all)
	}
}

// TestV1Again has what is tried a second time, and what is not.
func TestV1Again(t *testing.T) {
	ca := newAuthority(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "https://" + closed.Addr().String()
	closed.Close()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for _, tt := range []struct {
		name  string
		first http.HandlerFunc // nil: nobody is there
		want  int              // how often the fallback is asked
		kind  Kind             // without a fallback that answers
		tries int32            // at the first, without another
	}{
		{"nobody there", nil, 1, Connect, 0},
		{"503", status(503), 1, Status, 2},
		{"500", status(500), 1, Status, 2},
		{"hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1, Broken, 2},
		{"400", status(400), 0, Status, 1},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, 0, Status, 1},
		{"empty", status(204), 0, Status, 1},
		{"too large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxV1+1)) }, 0, TooLarge, 1},
		{"silence", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, 0, Timeout, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var first, second atomic.Int32
			peer := V1Peer{Scheme: "visa", URL: dead, TLS: ca.client(), Timeout: 2 * time.Second}
			if tt.first != nil {
				peer.URL = serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
					first.Add(1)
					tt.first(w, r)
				})
			}
			alone, _ := newV1(t, peer)
			_, err := alone.Exchange(t.Context(), "visa", "Shop", "VEReq", "", []byte("<m/>"))
			if bad, ok := errors.AsType[*Error](err); !ok || bad.Kind != tt.kind || first.Load() != tt.tries {
				t.Errorf("alone: %v after %d tries, want %v after %d", err, first.Load(), tt.kind, tt.tries)
			}
			peer.Fallback = serve(t, ca.server(), func(w http.ResponseWriter, _ *http.Request) {
				second.Add(1)
				_, _ = io.WriteString(w, "<answer/>")
			})
			c, _ := newV1(t, peer)
			got, err := c.Exchange(t.Context(), "visa", "Shop", "VEReq", "", []byte("<m/>"))
			if int(second.Load()) != tt.want || (err == nil) != (tt.want == 1) || err == nil && string(got) != "<answer/>" {
				t.Errorf("fallback asked %d times: %q %v", second.Load(), got, err)
			}
			if tt.want == 0 {
				return
			}
			next, err := c.Next([]V1Peer{peer})
			if err != nil {
				t.Fatal(err)
			}
			next.StopRetrying()
			_, err = c.Exchange(t.Context(), "visa", "Shop", "VEReq", "", []byte("<m/>"))
			if bad, ok := errors.AsType[*Error](err); !ok || bad.Kind != tt.kind || int(second.Load()) != tt.want {
				t.Errorf("in haste: %v, and the fallback was asked", err)
			}
		})
	}
}

// TestV1Trust: only the scheme's own authorities, only for the right host, and
// never without a certificate of ours.
func TestV1Trust(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	arrived := func(http.ResponseWriter, *http.Request) { t.Error("a message arrived") }
	foreign := ca.server()
	foreign.Certificates[0] = other.issue(nil)
	for name, peer := range map[string]V1Peer{
		"another authority":     {URL: serve(t, foreign, arrived), TLS: ca.client()},
		"another host":          {URL: strings.Replace(serve(t, ca.server(), arrived), "127.0.0.1", "localhost", 1), TLS: ca.client()},
		"our certificate fails": {URL: serve(t, ca.server(), arrived), TLS: with(other.client(), func(c *tls.Config) { c.RootCAs = ca.pool })},
	} {
		t.Run(name, func(t *testing.T) {
			peer.Scheme = "visa"
			c, _ := newV1(t, peer)
			if got, err := c.Exchange(t.Context(), "visa", "Shop", "VEReq", "", []byte("<m/>")); err == nil {
				t.Errorf("answered %q", got)
			}
		})
	}
	for name, peer := range map[string]V1Peer{
		"plain http": {Scheme: "visa", URL: "http://127.0.0.1/", TLS: ca.client()},
		"no TLS":     {Scheme: "visa", URL: "https://127.0.0.1/"},
		"no scheme":  {URL: "https://127.0.0.1/", TLS: ca.client()},
	} {
		if _, err := NewV1([]V1Peer{peer}, slog.New(slog.DiscardHandler), Hooks{}); err == nil {
			t.Errorf("%s: a client was made", name)
		}
	}
	twice := V1Peer{Scheme: "visa", URL: "https://127.0.0.1/", TLS: ca.client()}
	if _, err := NewV1([]V1Peer{twice, twice}, slog.New(slog.DiscardHandler), Hooks{}); err == nil {
		t.Error("a scheme was taken twice")
	}
}

// TestV1Bounds: what is too much is refused at once, in the background too.
func TestV1Bounds(t *testing.T) {
	ca := newAuthority(t)
	leave, arrived := make(chan bool), make(chan bool)
	address := serve(t, ca.server(), func(_ http.ResponseWriter, r *http.Request) {
		arrived <- true
		<-leave
	})
	c, told := newV1(t, V1Peer{Scheme: "visa", URL: address, TLS: ca.client(), MaxInFlight: 1})
	var all sync.WaitGroup
	all.Go(func() {
		_, _ = c.Exchange(context.WithoutCancel(t.Context()), "visa", "Shop", "VEReq", "", []byte("<m/>"))
	})
	<-arrived
	_, err := c.Exchange(t.Context(), "visa", "Shop", "VEReq", "", []byte("<m/>"))
	if bad, ok := errors.AsType[*Error](err); !ok || bad.Kind != Busy {
		t.Errorf("error %v, want busy", err)
	}
	for range maxReports {
		c.Report(t.Context(), "visa", []byte("<Error/>"))
	}
	for range maxReports {
		<-arrived
	}
	c.Report(t.Context(), "visa", []byte("<Error/>"))
	c.Report(t.Context(), "jcb", []byte("<Error/>")) // nobody
	if all := told(); len(all) != 2 || all[1] != "visa Error dropped" {
		t.Errorf("told %q", all)
	}
	close(leave)
	all.Wait()
	c.Close()
	c.Report(t.Context(), "visa", []byte("<Error/>"))
	if all := told(); len(all) != 2+1+maxReports+1 {
		t.Errorf("told %d things, want %d", len(all), 2+1+maxReports+1)
	}
}

// TestVEReqsOfOneMerchantLeavePlacesForOthers: VEReqs that get no answer take half of the places of a directory server
// for each merchant. More are refused at once, another merchant's and card ranges' are not, and a place is free again
// when its VEReq has ended.
func TestVEReqsOfOneMerchantLeavePlacesForOthers(t *testing.T) {
	const most = 4
	ca := newAuthority(t)
	arrived, end := make(chan bool, most), make(chan bool)
	address := serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "<silent/>" {
			arrived <- true
			<-end
		}
		io.WriteString(w, "<answer/>")
	})
	c, _ := newV1(t, V1Peer{Scheme: "visa", URL: address, TLS: ca.client(), MaxInFlight: most})
	var silent sync.WaitGroup
	for range most / 2 {
		silent.Go(func() {
			if _, err := c.Exchange(t.Context(), "visa", "Shop", "VEReq", "", []byte("<silent/>")); err != nil {
				t.Error(err)
			}
		})
	}
	for range most / 2 {
		<-arrived
	}
	for _, test := range []struct {
		merchant, name string
		want           bool
	}{{"Shop", "VEReq", false}, {"Other", "VEReq", true}, {"", "CRReq", true}} {
		_, err := c.Exchange(t.Context(), "visa", test.merchant, test.name, "", []byte("<m/>"))
		if failed, _ := errors.AsType[*Error](err); (err == nil) != test.want || err != nil && failed.Kind != Busy {
			t.Errorf("%s of %q: %v, want an answer: %t", test.name, test.merchant, err, test.want)
		}
	}
	close(end)
	silent.Wait()
	if _, err := c.Exchange(t.Context(), "visa", "Shop", "VEReq", "", []byte("<m/>")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

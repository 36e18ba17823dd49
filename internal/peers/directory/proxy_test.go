package directory

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/socket"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/peers/tunnel"
	"github.com/openthreeds/threeds/internal/peers/tunnel/tunneltest"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
	"github.com/openthreeds/threeds/message"
)

// behind starts a proxy and, behind it, a server with names that are found nowhere else.
func behind(t *testing.T, ca *authority, overTLS bool, handler http.HandlerFunc, names ...string) (*tunneltest.Proxy, *tunnel.Proxy) {
	t.Helper()
	var config *tls.Config
	given := &tunnel.Proxy{User: "threeds", Password: "hush"}
	if overTLS {
		own := newAuthority(t)
		config, given.Roots = &tls.Config{Certificates: []tls.Certificate{own.issue(nil)}}, own.pool
	}
	proxy := tunneltest.Start(t, config)
	proxy.Demand("Basic dGhyZWVkczpodXNo")
	given.Address = proxy.Address
	server := ca.server()
	server.Certificates = []tls.Certificate{ca.issue(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = names, nil })}
	_, to, _ := strings.Cut(serve(t, server, handler), "//")
	for _, name := range names {
		proxy.Way(name+":443", to)
	}
	return proxy, given
}

// TestThroughProxy: all that leaves by itself goes through the proxy, by names that it
// alone knows, and connections that rest there are used again: AReq, also to an address
// that a PRes gave, PReq, a card range file, Erro; VEReq, CRReq, Error.
func TestThroughProxy(t *testing.T) {
	for name, overTLS := range map[string]bool{"http": false, "https": true} {
		t.Run(name, func(t *testing.T) {
			ca := newAuthority(t)
			came := make(chan string, 10)
			handler := func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.URL.Path != "/preq" || bytes.Contains(body, []byte("Erro")) {
					came <- r.Host + r.URL.Path
				}
				switch r.URL.Path {
				case "/preq":
					m, _ := message.Parse(body, message.Limits{})
					fmt.Fprintf(w, `{"messageType":"PRes","messageVersion":"2.3.1","threeDSServerTransID":%q,"dsTransID":%q,"readOrder":"01","dsProtocolVersions":["2.2.0"],`+
						`"dsUrlList":[{"threeDSServerToDsUrl":"https://near.invalid/areq","dsCountryCode":"208"}],"cardRangeDataFileURL":"https://files.invalid/ranges"}`,
						m.Text("threeDSServerTransID"), dsID)
				case "/ranges":
					io.WriteString(w, `{"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`)
				default:
					fmt.Fprintf(w, "<%s>", body)
				}
			}
			proxy, given := behind(t, ca, overTLS, handler, "ds.invalid", "near.invalid", "files.invalid", "v1.invalid")
			wait := func(want ...string) {
				t.Helper()
				for _, want := range want {
					if got := <-came; got != want {
						t.Errorf("%s came, want %s", got, want)
					}
				}
			}

			p := peerAt("visa", "https://ds.invalid", fixed(ca))
			p.Versions, p.FileHosts, p.Proxy = message.Versions(), []string{"files.invalid"}, given
			c, cards := newClient(t, Hooks{}, p)
			r := newRefresher(c, c.peers["visa"])
			if got := r.exchangePReq(t.Context(), 2); got != fresh || cards.Lookup(card) == nil {
				t.Fatalf("PReq: verdict %v, fault %q", got, r.status.Fault)
			}
			wait("files.invalid/ranges")
			for _, country := range []string{"", "208", "", "208"} {
				if _, err := c.Send(t.Context(), "visa", "Shop", []byte(transID), transID, message.V231, country); err != nil {
					t.Fatal(err)
				}
			}
			wait("ds.invalid/areq", "near.invalid/areq", "ds.invalid/areq", "near.invalid/areq")
			c.Report(t.Context(), "visa", "208", []byte(`{"messageType":"Erro"}`))
			wait("near.invalid/areq")

			v1, _ := newV1(t, V1Peer{Scheme: "visa", URL: "https://v1.invalid/v1", TLS: fixed(ca), Proxy: given})
			for _, what := range []string{"VEReq", "CRReq"} {
				if _, err := v1.Exchange(t.Context(), "visa", "Shop", what, "id", []byte("id")); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			v1.Report(t.Context(), "visa", []byte("id"))
			wait("v1.invalid/v1", "v1.invalid/v1", "v1.invalid/v1")

			want := map[string]int{"ds.invalid:443": 1, "near.invalid:443": 1, "files.invalid:443": 1, "v1.invalid:443": 1}
			if got := proxy.Asked(); !maps.Equal(got, want) {
				t.Errorf("the proxy was asked for %v, want %v", got, want)
			}
			_ = c.Close() // after the Erros
			_ = v1.Close()
		})
	}
}

// TestNoWayAround: a proxy that is gone is no reason to try without it, though the
// directory server could be reached.
func TestNoWayAround(t *testing.T) {
	ca := newAuthority(t)
	var requests atomic.Int64
	address := serve(t, ca.server(), func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	p := peerAt("visa", address, fixed(ca))
	p.Proxy = &tunnel.Proxy{Address: l.Addr().String()}
	c, _ := newClient(t, Hooks{}, p)
	_, failed := send(t, c, "visa")
	if failed == nil || failed.Kind != Proxy || failed.Text != "Proxy: Connection refused" || requests.Load() != 0 {
		t.Errorf("%+v, and %d requests", failed, requests.Load())
	}
	v1, _ := newV1(t, V1Peer{Scheme: "visa", URL: address, TLS: fixed(ca), Proxy: p.Proxy})
	if _, err := v1.Exchange(t.Context(), "visa", "Shop", "VEReq", "", nil); !errors.As(err, &failed) || failed.Kind != Proxy || requests.Load() != 0 {
		t.Errorf("1.0.2: %v, and %d requests", err, requests.Load())
	}
}

// TestProxyFails: what becomes of messages when it is the proxy that fails. Nothing
// was sent, so there is a second attempt, and no third (RT-01). Requestors hear that it
// is the proxy; operators, which one, and what it was asked for; nobody, the password.
func TestProxyFails(t *testing.T) {
	says := func(text string) func(net.Conn) {
		return func(conn net.Conn) {
			conn.Read(make([]byte, 1000))
			io.WriteString(conn, text)
		}
	}
	for _, tt := range []struct {
		name    string
		overTLS bool
		change  func(*tunneltest.Proxy, *Peer)
		text    string
	}{
		{"password", false, func(_ *tunneltest.Proxy, p *Peer) { p.Proxy.Password = "other" }, "Proxy: HTTP status 407 Proxy Authentication Required"},
		{"no way", false, func(_ *tunneltest.Proxy, p *Peer) {
			p.AReqURL, p.PReqURL = "https://other.invalid/", "https://other.invalid/"
		}, "Proxy: HTTP status 502 Bad Gateway"},
		{"forbidden", false, func(proxy *tunneltest.Proxy, _ *Peer) { proxy.Play(says("HTTP/1.1 403 no\r\n\r\n")) }, "Proxy: HTTP status 403 Forbidden"},
		{"closes", false, func(proxy *tunneltest.Proxy, _ *Peer) { proxy.Play(says("")) }, "Proxy: Connection closed"},
		{"garbage", false, func(proxy *tunneltest.Proxy, _ *Peer) { proxy.Play(says("what?\r\n\r\n")) }, "Proxy: Connection failed"},
		{"a page", false, func(proxy *tunneltest.Proxy, _ *Peer) { proxy.Play(says("HTTP/1.1 200 OK\r\n\r\n<html>")) }, "Proxy: Connection failed"},
		{"silent", false, func(proxy *tunneltest.Proxy, p *Peer) {
			proxy.Play(func(conn net.Conn) { io.Copy(io.Discard, conn) })
			p.DialTimeout = 50 * time.Millisecond
		}, "Proxy: Connection timeout"},
		{"not trusted", true, func(_ *tunneltest.Proxy, p *Peer) { p.Proxy.Roots = newAuthority(t).pool }, "Certificate of the proxy is not trusted"},
		{"another's certificate", true, func(_ *tunneltest.Proxy, p *Peer) {
			p.Proxy.Address = strings.Replace(p.Proxy.Address, "127.0.0.1", "localhost", 1)
		}, "Certificate of the proxy is for another host"},
		{"no TLS", true, func(_ *tunneltest.Proxy, p *Peer) { p.Proxy.Roots = nil }, "Proxy: Connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ca := newAuthority(t)
			proxy, given := behind(t, ca, tt.overTLS, func(http.ResponseWriter, *http.Request) { t.Error("a request came") }, "ds.invalid")
			p := peerAt("visa", "https://ds.invalid", fixed(ca))
			p.Proxy = given
			tt.change(proxy, &p)
			c, _ := newClient(t, Hooks{}, p)
			dials := 0
			dial := c.peers["visa"].client.Dial
			c.peers["visa"].client.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials++
				return dial(ctx, network, addr)
			}
			_, failed := send(t, c, "visa")
			if failed == nil || failed.Kind != Proxy || !strings.HasPrefix(failed.Text, tt.text) || dials != 2 {
				t.Fatalf("%+v after %d attempts, want %s after 2", failed, dials, tt.text)
			}
			r := newRefresher(c, c.peers["visa"])
			if got := r.exchangePReq(t.Context(), 1); got != unreachable || r.status.Fault != failed.Text+" ("+p.Proxy.String()+")" {
				t.Errorf("PReq: verdict %v, fault %q", got, r.status.Fault)
			}
			logged := failed.LogValue().String()
			host, _, _ := addressOf(p.AReqURL)
			if !strings.Contains(logged, "proxy "+p.Proxy.String()+", asked for "+host+":443: ") {
				t.Errorf("logged as %s", logged)
			}
			if strings.Contains(failed.Detail()+failed.Error(), p.Proxy.Address) {
				t.Errorf("%v tells an address", failed)
			}
			for _, secret := range []string{"hush", "other\"", "dGhyZWVkczp"} {
				if strings.Contains(logged+r.status.Fault, secret) {
					t.Errorf("%s has the password in it", logged)
				}
			}
		})
	}
}

// TestProxyTakesAllTime: a proxy that swallows requests is named although the time of the
// request ends before its own.
func TestProxyTakesAllTime(t *testing.T) {
	ca := newAuthority(t)
	proxy, given := behind(t, ca, false, nil, "ds.invalid")
	proxy.Play(func(conn net.Conn) { io.Copy(io.Discard, conn) })
	p := peerAt("visa", "https://ds.invalid", fixed(ca))
	p.Proxy, p.Timeout = given, 100*time.Millisecond
	c, _ := newClient(t, Hooks{}, p)
	_, failed := send(t, c, "visa")
	if failed == nil || failed.Kind != Timeout || failed.Text != "Proxy: Connection timeout" || !strings.Contains(failed.LogValue().String(), given.String()) {
		t.Errorf("%+v, logged as %v", failed, failed.LogValue())
	}
}

// TestProxyEndsRest: connections through a proxy that have ended while they rested are
// seen to be over before a request goes that way: it goes over a new one.
func TestProxyEndsRest(t *testing.T) {
	for name, overTLS := range map[string]bool{"http": false, "https": true} {
		t.Run(name, func(t *testing.T) {
			ca := newAuthority(t)
			var requests atomic.Int64
			proxy, given := behind(t, ca, overTLS, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				io.Copy(w, r.Body)
			}, "ds.invalid")
			p := peerAt("visa", "https://ds.invalid", fixed(ca))
			p.Proxy = given
			c, _ := newClient(t, Hooks{}, p)
			var made net.Conn
			dial := c.peers["visa"].client.Dial
			c.peers["visa"].client.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				made = conn
				return conn, err
			}
			for i := range int64(5) {
				if _, err := c.Send(t.Context(), "visa", "Shop", []byte(transID), transID, message.V231, ""); err != nil || requests.Load() != i+1 {
					t.Fatalf("request %d: %v, %d came", i, err, requests.Load())
				}
				if i%2 == 0 {
					continue // and the next one goes over the same connection
				}
				was := made
				proxy.Cut()
				waittest.Until(t, "the end of the connection", func() bool {
					quiet, _ := socket.Peek(socket.Under(was))
					return !quiet
				})
			}
			if n := proxy.Asked()["ds.invalid:443"]; n != 3 {
				t.Errorf("%d connections, want 3", n)
			}
		})
	}
}

// TestNextProxy: with another proxy, or none, nothing goes over a connection that was
// made before, and none of those is left.
func TestNextProxy(t *testing.T) {
	ca := newAuthority(t)
	echo := func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }
	first, given := behind(t, ca, false, echo, "ds.invalid")
	second, other := behind(t, ca, true, echo, "ds.invalid")
	p := peerAt("visa", "https://ds.invalid", fixed(ca))
	v1 := V1Peer{Scheme: "visa", URL: "https://ds.invalid/", TLS: p.TLS}
	log := slog.New(slog.DiscardHandler)
	p.Proxy, v1.Proxy = given, given
	cards := ranges.NewSchemes("visa")
	c, err := New([]Peer{p}, cards, storetest.NewMemory(time.Now), log, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	old, err := NewV1([]V1Peer{v1}, log, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	use := func() {
		t.Helper()
		_, err := c.Send(t.Context(), "visa", "Shop", []byte(transID), transID, message.V231, "")
		_, again := old.Exchange(t.Context(), "visa", "Shop", "VEReq", "id", []byte("id"))
		if err := cmp.Or(err, again); err != nil {
			t.Fatal(err)
		}
	}
	next := func(proxy *tunnel.Proxy) {
		t.Helper()
		p.Proxy, v1.Proxy = proxy, proxy
		cards = cards.Next("visa")
		c, old = follow(t, c, old, p, v1, cards)
	}
	use()
	same := *given
	next(&same)
	use()
	if n := first.Asked()["ds.invalid:443"]; n != 2 {
		t.Errorf("%d connections through a proxy that has not changed, want 2", n)
	}
	next(other)
	use()
	if n, m := first.Asked()["ds.invalid:443"], second.Asked()["ds.invalid:443"]; n != 2 || m != 2 {
		t.Errorf("%d connections through the former proxy, %d through the next", n, m)
	}
	waittest.Until(t, "the end of connections through the former proxy", func() bool { return first.Conns() == 0 })
	next(nil)
	if _, err := c.Send(t.Context(), "visa", "Shop", []byte(transID), transID, message.V231, ""); err == nil {
		t.Error("a name that the proxies alone know was found without one")
	}
	if n := second.Asked()["ds.invalid:443"]; n != 2 {
		t.Errorf("%d connections through a proxy that is not configured any more", n)
	}
	_ = errors.Join(c.Close(), old.Close())
}

// TestProxyForbidsOne: an address that the proxy makes no connection to is one that cannot
// be reached: what has another goes there.
func TestProxyForbidsOne(t *testing.T) {
	ca := newAuthority(t)
	proxy, given := behind(t, ca, false, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) }, "ds.invalid")
	p := peerAt("visa", "https://ds.invalid", fixed(ca))
	p.Proxy = given
	c, cards := newClient(t, Hooks{}, p)
	table, _ := new(ranges.Builder).Build()
	cards.Put("visa", &ranges.Generation{Table: table, From: p.PReqURL, DSURLs: []ranges.DSURL{{URL: "https://near.invalid/", Country: "208"}}})
	answer, err := c.Send(t.Context(), "visa", "Shop", []byte("{}"), transID, message.V231, "208")
	v1, _ := newV1(t, V1Peer{Scheme: "visa", URL: "https://near.invalid/", Fallback: "https://ds.invalid/", TLS: fixed(ca), Proxy: given})
	old, again := v1.Exchange(t.Context(), "visa", "Shop", "VEReq", "", nil)
	if string(answer) != "ds.invalid" || string(old) != "ds.invalid" {
		t.Errorf("%q %v, 1.0.2: %q %v", answer, err, old, again)
	}
	if asked := proxy.Asked(); !maps.Equal(asked, map[string]int{"near.invalid:443": 2, "ds.invalid:443": 2}) {
		t.Errorf("the proxy was asked for %v", asked)
	}
}

// TestProxySilentForFiles: a download waits for a silent proxy as long as for any
// connection, though the transport goes on with one that nobody waits for any more.
func TestProxySilentForFiles(t *testing.T) {
	ca := newAuthority(t)
	proxy, given := behind(t, ca, false, nil, "ds.invalid")
	proxy.Play(func(conn net.Conn) { io.Copy(io.Discard, conn) })
	p := peerAt("visa", "https://ds.invalid", fixed(ca))
	p.Proxy, p.DialTimeout, p.FileHosts = given, 50*time.Millisecond, []string{"files.invalid"}
	c, _ := newClient(t, Hooks{}, p)
	f := &download{peer: c.peers["visa"], ctx: t.Context(), url: "https://files.invalid/ranges"}
	_, err := f.open()
	if failed, ok := errors.AsType[*Error](err); !ok || failed.Kind != Proxy || failed.Text != "Proxy: Connection timeout" {
		t.Errorf("%v", err)
	}
}

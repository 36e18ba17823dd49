package tunnel

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/leaktest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/peers/tunnel/tunneltest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// secured is the two sides of TLS with a proxy: its own, and whom to trust.
func secured(t testing.TB) (server *tls.Config, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, roots
}

// echo starts a server that says all it hears.
func echo(t testing.TB) (address string) {
	t.Helper()
	p := tunneltest.Start(t, nil)
	p.Play(func(conn net.Conn) { io.Copy(conn, conn) })
	return p.Address
}

// say sends a word and reads it back.
func say(conn net.Conn, word string) error {
	if _, err := io.WriteString(conn, word); err != nil {
		return err
	}
	heard := make([]byte, len(word))
	if _, err := io.ReadFull(conn, heard); err != nil || string(heard) != word {
		return fmt.Errorf("said %q, heard %q, %w", word, heard, err)
	}
	return nil
}

// TestThrough: a connection leads where it was asked for, by a name that the proxy alone
// knows, over TCP and over TLS; what is below are the sockets of the dialer it was given.
func TestThrough(t *testing.T) {
	server, roots := secured(t)
	for name, config := range map[string]*tls.Config{"http": nil, "https": server} {
		t.Run(name, func(t *testing.T) {
			var resumed atomic.Int64
			if config != nil {
				config.VerifyConnection = func(state tls.ConnectionState) error {
					if state.DidResume {
						resumed.Add(1)
					}
					return nil
				}
			}
			proxy := tunneltest.Start(t, config)
			proxy.Demand("Basic dGhyZWVkczpwOmEgc3M=")
			sockets := 0
			below := net.Dialer{Control: func(string, string, syscall.RawConn) error { sockets++; return nil }}
			p := Proxy{Address: proxy.Address, User: "threeds", Password: "p:a ss"}
			if config != nil {
				p.Roots = roots
			}
			d := New(p, below)
			for _, addr := range []string{"ds.invalid:443", "[2001:db8::7]:8443", "192.0.2.1:443"} {
				proxy.Way(addr, echo(t))
				ctx, cancel := context.WithCancel(t.Context())
				conn, err := d.DialContext(ctx, "tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				cancel() // the connection outlives who asked for it
				for _, word := range []string{"hello", strings.Repeat("long ", 20_000)} {
					if err := say(conn, word); err != nil {
						t.Error(err)
					}
				}
				conn.Close()
				if n := proxy.Asked()[addr]; n != 1 {
					t.Errorf("%s was asked for %d times", addr, n)
				}
			}
			if sockets != 3 {
				t.Errorf("%d sockets of the dialer, want 3", sockets)
			}
			if n := resumed.Load(); config != nil && n != 2 {
				t.Errorf("%d sessions with the proxy were resumed, want 2", n)
			}
		})
	}
}

// TestRequest has what a proxy sees, to the byte.
func TestRequest(t *testing.T) {
	for _, tt := range []struct {
		proxy        Proxy
		answer, want string
	}{
		{Proxy{}, "HTTP/1.0 200\n\n", "CONNECT ds.invalid:443 HTTP/1.1\r\nHost: ds.invalid:443\r\n\r\n"}, // old, curt, and fine
		{Proxy{User: "threeds"}, "HTTP/1.1 204 x\r\nContent-Length: 9\r\n\r\n",
			"CONNECT ds.invalid:443 HTTP/1.1\r\nHost: ds.invalid:443\r\nProxy-Authorization: Basic dGhyZWVkczo=\r\n\r\n"},
	} {
		proxy := tunneltest.Start(t, nil)
		got := make(chan string, 1)
		proxy.Play(func(conn net.Conn) {
			b := make([]byte, 1000)
			n, _ := conn.Read(b)
			got <- string(b[:n])
			io.WriteString(conn, tt.answer)
		})
		tt.proxy.Address = proxy.Address
		conn, err := New(tt.proxy, net.Dialer{}).DialContext(t.Context(), "tcp", "ds.invalid:443")
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if text := <-got; text != tt.want {
			t.Errorf("asked with %q, want %q", text, tt.want)
		}
	}
}

// script speaks as it is told once it was asked, and then waits for the other side to
// end it, or ends it.
func script(says string, ends bool) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		io.WriteString(conn, says)
		if !ends {
			io.Copy(io.Discard, conn)
		}
	}
}

// drip speaks without end, a byte every millisecond.
func drip(says string) func(net.Conn) {
	return func(conn net.Conn) {
		for i := 0; ; i++ {
			if _, err := conn.Write([]byte{says[i%len(says)]}); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// TestFaults has what a proxy may do instead of making a connection: it is known for
// what it is, within the time there is, and neither its words nor ours are in the error.
func TestFaults(t *testing.T) {
	server, roots := secured(t)
	_, strangers := secured(t)
	const limit = 150 * time.Millisecond
	weak := server.Clone()
	weak.MaxVersion, weak.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
	const body = "Content-Length: 9\r\n\r\nforbidden"
	for _, tt := range []struct {
		name   string
		tls    *tls.Config // of the proxy
		roots  *x509.CertPool
		play   func(net.Conn)
		status int
		is     error // one of those in the chain; nil: any
		says   string
		slow   bool
	}{
		{"wants another password", nil, nil, script("HTTP/1.1 407 Proxy Authentication Required\r\n"+body, false), 407, nil,
			"HTTP status 407 Proxy Authentication Required", false},
		{"forbids it", nil, nil, script("HTTP/1.1 403 word secret\r\n"+body, false), 403, nil, "HTTP status 403 Forbidden", false},
		{"does not reach it", nil, nil, script("HTTP/1.1 502 Bad Gateway\r\n\r\n", true), 502, nil, "HTTP status 502 Bad Gateway", false},
		{"does not reach it in time", nil, nil, script("HTTP/1.1 504 Gateway Timeout\r\n\r\n", true), 504, nil, "HTTP status 504 Gateway Timeout", false},
		{"redirects", nil, nil, script("HTTP/1.1 302 Found\r\nLocation: http://login.invalid/\r\n\r\n", true), 302, nil, "HTTP status 302 Found", false},
		{"another protocol", nil, nil, script("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", true), 101, nil,
			"HTTP status 101 Switching Protocols", false},
		{"a status of its own", nil, nil, script("HTTP/1.1 799 secret\r\n\r\n", true), 799, nil, "HTTP status 799", false},
		{"no after a sign of life", nil, nil, script("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 503 x\r\n\r\n", false), 503,
			nil, "HTTP status 503 Service Unavailable", false},
		{"a web page", nil, nil, script("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret", false), 0, errEarly,
			"more came than an answer before anything was sent", false},
		{"two answers", nil, nil, script("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", false), 0, errEarly, "", false},
		{"no HTTP", nil, nil, script("220 secret ESMTP\r\n\r\n", false), 0, errNoHTTP, "the answer is not HTTP", false},
		{"no HTTP, without end", nil, nil, drip("x"), 0, context.DeadlineExceeded, "", true},
		{"a header that is none", nil, nil, script("HTTP/1.1 200 OK\r\nsecret\r\n\r\n", false), 0, errNoHTTP, "", false},
		{"TLS where none was meant", server, nil, nil, 0, nil, "", false},
		{"a header of 1 MiB", nil, nil, script("HTTP/1.1 200 OK\r\nX-Long: "+strings.Repeat("x", 1<<20)+"\r\n\r\n", true), 0,
			errHeader, "the header of the answer exceeds 16384 bytes", false},
		{"endless signs of life", nil, nil, script(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10_000), true), 0, errHeader, "", false},
		{"a header byte by byte", nil, nil, drip("HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n"), 0, context.DeadlineExceeded, "", true},
		{"silence", nil, nil, script("", false), 0, context.DeadlineExceeded, "no answer: context deadline exceeded", true},
		{"silence in the header", nil, nil, script("HTTP/1.1 200", false), 0, context.DeadlineExceeded, "", true},
		{"closes", nil, nil, script("", true), 0, nil, "", false},
		{"closes at once", nil, nil, func(net.Conn) {}, 0, nil, "", false},
		{"closes in the header", nil, nil, script("HTTP/1.1 200 OK\r\nX", true), 0, nil, "", false},
		{"resets", nil, nil, func(conn net.Conn) {
			conn.Read(make([]byte, 1))
			conn.(*net.TCPConn).SetLinger(0)
		}, 0, syscall.ECONNRESET, "", false},
		{"no TLS where it was meant", nil, roots, func(conn net.Conn) {
			conn.Read(make([]byte, 1))
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}, 0, nil, "tls: first record does not look like a TLS handshake", false},
		{"a certificate of others", server, strangers, nil, 0, nil, "", false},
		{"ciphers that are not spoken", weak, roots, nil, 0, nil, "remote error: tls: handshake failure", false},
		{"silence for a handshake", nil, roots, func(conn net.Conn) { io.Copy(io.Discard, conn) }, 0, context.DeadlineExceeded, "", true},
		{"no over TLS", server, roots, script("HTTP/1.1 403 Forbidden\r\n"+body, false), 403, nil, "HTTP status 403 Forbidden", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proxy := tunneltest.Start(t, tt.tls)
			proxy.Play(tt.play)
			given := Proxy{Address: proxy.Address, Roots: tt.roots, User: "threeds", Password: "hush"}
			start := time.Now() // before the context, whose limit counts from later on
			ctx, cancel := context.WithCancel(t.Context())
			if tt.slow {
				ctx, cancel = context.WithTimeout(t.Context(), limit)
			}
			defer cancel()
			conn, err := New(given, net.Dialer{}).DialContext(ctx, "tcp", "ds.invalid:443")
			took := time.Since(start)
			failed, ok := errors.AsType[*Error](err)
			if !ok || conn != nil {
				t.Fatalf("%v, %v; want an *Error", conn, err)
			}
			if failed.Status != tt.status || tt.is != nil && !errors.Is(err, tt.is) || tt.says != "" && failed.Err.Error() != tt.says {
				t.Errorf("status %d, %v; want %d, %s", failed.Status, err, tt.status, tt.says)
			}
			if tt.slow && took < limit {
				t.Errorf("took %v", took)
			}
			waittest.Until(t, "the end of the connection to the proxy", func() bool { return proxy.Conns() == 0 })
			if text := err.Error(); !strings.HasPrefix(text, "proxy "+given.String()+", asked for ds.invalid:443: ") {
				t.Errorf("%v does not name proxy and address", err)
			}
			for _, secret := range []string{"hush", "dGhyZWVkczpodXNo", "secret", "threeds"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%v has %q in it", err, secret)
				}
			}
		})
	}
}

// TestNobodyThere: a proxy that cannot be reached is named, with the system's reason.
func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = New(Proxy{Address: l.Addr().String()}, net.Dialer{}).DialContext(t.Context(), "tcp", "ds.invalid:443")
	if failed, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, syscall.ECONNREFUSED) || failed.Proxy != "http://"+l.Addr().String() {
		t.Errorf("%v, want that it is refused", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	swallowed := net.Dialer{Control: func(string, string, syscall.RawConn) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	_, err = New(Proxy{Address: l.Addr().String()}, swallowed).DialContext(ctx, "tcp", "ds.invalid:443")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), ": dial tcp "+l.Addr().String()) {
		t.Errorf("%v, want that there is no connection to the proxy", err)
	}
}

// TestGivenUp: the end of who asks ends all, without a connection left.
func TestGivenUp(t *testing.T) {
	proxy := tunneltest.Start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	proxy.Play(func(conn net.Conn) {
		r := bufio.NewReader(conn)
		http.ReadRequest(r)
		cancel()
		_, err := r.ReadByte()
		ended <- err
	})
	_, err := New(Proxy{Address: proxy.Address}, net.Dialer{}).DialContext(ctx, "tcp", "ds.invalid:443")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was given up", err)
	}
	if err := <-ended; err != io.EOF {
		t.Errorf("the connection ended with %v", err)
	}
}

// TestGivenUpLate: who gives up just when the answer comes has an error, or a connection
// that is as good as any.
func TestGivenUpLate(t *testing.T) {
	proxy := tunneltest.Start(t, nil)
	made := 0
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		proxy.Play(func(conn net.Conn) {
			r := bufio.NewReader(conn)
			http.ReadRequest(r)
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
			cancel()
			io.Copy(conn, r)
		})
		conn, err := New(Proxy{Address: proxy.Address}, net.Dialer{}).DialContext(ctx, "tcp", "ds.invalid:443")
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that it was given up", err)
			}
			continue
		}
		made++
		if err := say(conn, "hello"); err != nil {
			t.Errorf("a connection of no use: %v", err)
		}
		conn.Close()
	}
	t.Logf("%d connections were made", made)
}

// TestAskable: what a proxy cannot be asked for is not asked for.
func TestAskable(t *testing.T) {
	proxy := tunneltest.Start(t, nil)
	proxy.Play(func(net.Conn) { t.Error("it was asked") })
	d := New(Proxy{Address: proxy.Address}, net.Dialer{})
	for _, addr := range []string{
		"", ":443", "ds.invalid", "ds.invalid:", "ds.invalid:0", "ds.invalid:65536", "ds.invalid:+1", "ds.invalid:https", "ds invalid:443",
		"ds.invalid\r\nX: y:443", "ds.invalid:443\r\n", "[fe80::1%a b]:443", "[fe80::1%eth0]:443", "d\u00e9s.invalid:443", "[ds.invalid/]:443",
		strings.Repeat("x", 254) + ":443", "192.0.2.1:00", "[::1%25eth0]:443",
	} {
		if _, err := d.DialContext(t.Context(), "tcp", addr); !errors.Is(err, errName) {
			t.Errorf("%q: %v", addr, err)
		}
	}
	for _, addr := range []string{strings.Repeat("x", 253) + ":443", "d_s-1.invalid:1", "ds.invalid:65535", "[2001:db8::7]:443"} {
		if !isAskable(addr) {
			t.Errorf("%q cannot be asked for", addr)
		}
	}
}

// TestSame tells proxies apart by all that they are.
func TestSame(t *testing.T) {
	_, roots := secured(t)
	_, other := secured(t)
	again := roots.Clone()
	base := Proxy{"a:1", roots, "u", "p"}
	for _, tt := range []struct {
		proxy *Proxy
		same  bool
	}{
		{&Proxy{"a:1", again, "u", "p"}, true},
		{&Proxy{"a:2", roots, "u", "p"}, false},
		{&Proxy{"a:1", other, "u", "p"}, false},
		{&Proxy{"a:1", nil, "u", "p"}, false},
		{&Proxy{"a:1", roots, "v", "p"}, false},
		{&Proxy{"a:1", roots, "u", "q"}, false},
		{nil, false},
	} {
		if base.Same(tt.proxy) != tt.same || tt.proxy.Same(&base) != tt.same {
			t.Errorf("%v counts as the same: %t", tt.proxy, !tt.same)
		}
	}
	if none := (*Proxy)(nil); !none.Same(nil) {
		t.Error("no proxy differs from none")
	}
	for _, text := range []string{fmt.Sprint(base), fmt.Sprintf("%+v", &base)} {
		if text != "https://a:1" {
			t.Errorf("printed as %s", text)
		}
	}
}

// heard is a connection on which the other side says the same, whatever it is told.
type heard struct {
	net.Conn
	says *bytes.Reader
	told bytes.Buffer
	each int // the most that is heard at once; 0: all
}

func (h *heard) Read(b []byte) (int, error) {
	if h.each > 0 {
		b = b[:min(len(b), h.each)]
	}
	return h.says.Read(b)
}

func (h *heard) Write(b []byte) (int, error) { return h.told.Write(b) }

// TestLongestHeader: the longest header, in reads of any size, and one byte more.
func TestLongestHeader(t *testing.T) {
	const begin, end = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-Long: ", "\r\n\r\n"
	for _, n := range []int{maxHeader - 1, maxHeader, maxHeader + 1, maxHeader + 5000} {
		for _, each := range []int{1, 1000, 1 << 20} {
			says := begin + strings.Repeat("x", n-len(begin)-len(end)) + end
			conn := &heard{says: bytes.NewReader([]byte(says)), each: each}
			var want error
			if n > maxHeader {
				want = errHeader
			}
			if err := New(Proxy{}, net.Dialer{}).connect(conn, "ds.invalid:443"); !errors.Is(err, want) {
				t.Errorf("%d bytes, %d in a read: %v, want %v", n, each, err, want)
			}
			if read := len(says) - conn.says.Len(); read > maxHeader {
				t.Errorf("%d bytes, %d in a read: %d were read", n, each, read)
			}
		}
	}
}

// FuzzAnswer: whatever a proxy says, a connection is made only if that is one answer of
// status 2xx and nothing behind it, after any of status 1xx; and no more than the longest
// header is read.
func FuzzAnswer(f *testing.F) {
	for _, says := range []string{
		"HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200\n\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nVia: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic\r\n\r\n", "HTTP/1.1 101 x\r\n\r\n", "HTTP/1.1 200 OK\r\n",
		"HTTP/2.0 200\r\n\r\n", "\x15\x03\x01\x00\x02\x02\x46", "",
	} {
		f.Add([]byte(says))
	}
	d := New(Proxy{}, net.Dialer{})
	f.Fuzz(func(t *testing.T, says []byte) {
		conn := &heard{says: bytes.NewReader(says)}
		err := d.connect(conn, "ds.invalid:443")
		if read := len(says) - conn.says.Len(); read > maxHeader {
			t.Errorf("%d bytes were read", read)
		}
		if err != nil {
			if text := err.Error(); strings.ContainsAny(text, "\"\r\n") {
				t.Errorf("%q may quote the answer", text)
			}
			return
		}
		// The judge is not the reader: it goes by lines.
		lines := strings.Split(strings.ReplaceAll(string(says), "\r\n", "\n"), "\n")
		final := ""
		for i, first := 0, true; i < len(lines)-1; i++ {
			if first {
				final = lines[i]
			}
			first = lines[i] == ""
		}
		if _, code, _ := strings.Cut(final, " "); !strings.HasPrefix(strings.TrimLeft(code, " "), "2") || !bytes.HasSuffix(says, []byte("\n")) {
			t.Errorf("a connection was made of %q", says)
		}
	})
}

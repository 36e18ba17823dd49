package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// reference is the example that the libraries of Standard Webhooks share.
const (
	referenceSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	referenceID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	referenceBody      = `{"test": 2432232314}`
	referenceTimestamp = 1614265330
	referenceSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func mustParse(t *testing.T, text string) Secret {
	t.Helper()
	s, err := ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestW1ReferenceVector holds the signature against the published example.
func TestW1ReferenceVector(t *testing.T) {
	s := mustParse(t, referenceSecret)
	at := time.Unix(referenceTimestamp, 0)
	if got := Sign(referenceID, at, []byte(referenceBody), s); got != referenceSignature {
		t.Errorf("%s, want %s", got, referenceSignature)
	}
	if s.Text() != referenceSecret {
		t.Errorf("%s, want %s", s.Text(), referenceSecret)
	}
}

// TestW1ThePublishedLibraryVerifies has the published Go library verify our signatures, and ours verify its.
func TestW1ThePublishedLibraryVerifies(t *testing.T) {
	for n := range 50 {
		secret, other := NewSecret(), NewSecret()
		id, body, now := fmt.Sprintf("evt_%d", n), []byte(strings.Repeat(`{"ä":1}`, n)), time.Now()
		theirs, err := standardwebhooks.NewWebhook(secret.Text())
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{
			HeaderID: {id}, HeaderTimestamp: {strconv.FormatInt(now.Unix(), 10)}, HeaderSignature: {Sign(id, now, body, other, secret)},
		}
		if err := theirs.Verify(body, header); err != nil {
			t.Errorf("the library refuses ours: %v", err)
		}
		signature, err := theirs.Sign(id, now, body)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(id, header.Get(HeaderTimestamp), signature, body, now, secret); err != nil {
			t.Errorf("ours refuses the library's: %v", err)
		}
		for name, err := range map[string]error{
			"other body":   Verify(id, header.Get(HeaderTimestamp), signature, append(body, ' '), now, secret),
			"other id":     Verify(id+"x", header.Get(HeaderTimestamp), signature, body, now, secret),
			"other secret": Verify(id, header.Get(HeaderTimestamp), signature, body, now, other),
			"no signature": Verify(id, header.Get(HeaderTimestamp), "", body, now, secret),
		} {
			if !errors.Is(err, ErrSignature) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, late := range []time.Duration{-6 * time.Minute, 6 * time.Minute} {
			if err := Verify(id, header.Get(HeaderTimestamp), signature, body, now.Add(late), secret); !errors.Is(err, ErrTimestamp) {
				t.Errorf("%s later: %v", late, err)
			}
		}
	}
}

// TestSecretsAreHidden holds that no verb prints a secret, and that faults of one do not quote it.
func TestSecretsAreHidden(t *testing.T) {
	s := NewSecret()
	for _, verb := range []string{"%v", "%s", "%q", "%x", "%#v", "%+v", "%d"} {
		if got := fmt.Sprintf(verb, s); got != "whsec_***" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
	for _, text := range []string{"", "whsec_", "whsec_c2hvcnQ=", "x" + referenceSecret, "whsec_%%%" + referenceSecret[6:],
		"whsec_" + strings.Repeat("QUJD", 22)} {
		if _, err := ParseSecret(text); err == nil || len(text) > 8 && strings.Contains(err.Error(), text[6:]) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestD33AddressesThatAreRefused holds networks that are not public, in each of their forms.
func TestD33AddressesThatAreRefused(t *testing.T) {
	var none Addresses
	for _, text := range []string{
		"10.0.0.1", "127.0.0.1", "0.0.0.0", "169.254.169.254", "172.16.0.1", "192.168.1.1", "100.64.0.1", "224.0.0.1", "255.255.255.255",
		"::", "::1", "fe80::1", "fc00::1", "fd12:3456::1", "ff02::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::10.0.0.1",
		"2002:0a00:0001::", "64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8", "2001:db8::1", "fe80::1%eth0",
		"::ffff:0:127.0.0.1", "3fff::1", "5f00::1", "2001:2::1", "2001:10::1", "2001:20::1", "168.63.129.16",
	} {
		if err := none.Check(netip.MustParseAddr(text)); !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8"} {
		if err := none.Check(netip.MustParseAddr(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	some := Addresses{Allowed: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	if some.Check(netip.MustParseAddr("10.1.2.3")) != nil || some.Check(netip.MustParseAddr("10.2.2.3")) == nil ||
		some.Check(netip.MustParseAddr("::ffff:10.1.2.3")) != nil {
		t.Error("a network that is allowed, and none else")
	}
}

// TestD33URLsThatAreRefused holds what is known of a URL without a connection.
func TestD33URLsThatAreRefused(t *testing.T) {
	lab := Addresses{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	for _, c := range []struct {
		url         string
		isGood      bool
		isGoodInLab bool
	}{
		{"https://shop.example/hooks?x=1", true, true},
		{"https://shop.example:8443/", true, true},
		{"https://8.8.8.8/", true, true},
		{"https://127.0.0.1/", false, true},
		{"http://127.0.0.1:9000/", false, true},
		{"http://10.0.0.1/", false, false},
		{"http://shop.example/", false, false},
		{"http://localhost/", false, false},
		{"https://localhost/", false, true},
		{"https://localhost./", false, true},
		{"https://a.LOCALHOST/", false, true},
		{"https://127.1/", false, false},
		{"https://0177.0.0.1/", false, false},
		{"https://2130706433/", false, false},
		{"https://0x7f000001/", false, false},
		{"https://1.shop.example/", true, true},
		{"https://[::1]/", false, false},
		{"https://a:b@shop.example/", false, false},
		{"https://shop.example:0/", false, false},
		{"https://shop.example/#x", false, false},
		{"ftp://shop.example/", false, false},
		{"/hooks", false, false},
		{"", false, false},
		{"https://", false, false},
		{"https://shop.example/a b", false, false},
		{"https://shop.example/<b>", false, false},
		{"https://shop.example/\"", false, false},
		{"https://shop.example/caf\u00e9", false, false},
		{"https://\uff11\uff12\uff17.0.0.1/", false, false},
		{"https://xn--caf-dma.example/caf%C3%A9?a=%20", true, true},
	} {
		var none Addresses
		if got := none.CheckURL(c.url); (got == nil) != c.isGood {
			t.Errorf("%s: %v", c.url, got)
		}
		if got := lab.CheckURL(c.url); (got == nil) != c.isGoodInLab {
			t.Errorf("%s in a laboratory: %v", c.url, got)
		}
	}
}

// receive starts an endpoint with TLS, and returns a sender that may connect to it.
func receive(t *testing.T, handle http.HandlerFunc) (*Sender, string) {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	loopback := Addresses{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	return NewSender(loopback, time.Second, roots, time.Now), server.URL
}

// TestD32OnlyTheSecondHundredSucceeds holds which answers count as delivered.
func TestD32OnlyTheSecondHundredSucceeds(t *testing.T) {
	secret := NewSecret()
	for status, isGood := range map[int]bool{200: true, 202: true, 204: true, 299: true, 301: false, 400: false, 410: false, 500: false} {
		sender, url := receive(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = Verify(r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), r.Header.Get("webhook-signature"), body, time.Now(), secret)
			}
			if err != nil || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%v %v", err, r.Header)
			}
			w.WriteHeader(status)
		})
		_, err := sender.Send(t.Context(), Delivery{URL: url, EventID: "evt_1", Body: []byte(`{"a":1}`), Secrets: []Secret{secret}})
		if said, ok := errors.AsType[StatusError](err); (err == nil) != isGood || !isGood && (!ok || int(said) != status) {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

// TestW5NoRedirects holds that a redirect is a failure and is not followed.
func TestW5NoRedirects(t *testing.T) {
	calls := 0
	sender, url := receive(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	_, err := sender.Send(t.Context(), Delivery{URL: url, EventID: "evt_1"})
	if !errors.Is(err, StatusError(307)) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestW5AnswerIsNotReadBeyondItsBeginning checks that an endless answer ends the delivery immediately.
func TestW5AnswerIsNotReadBeyondItsBeginning(t *testing.T) {
	sender, url := receive(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	if _, err := sender.Send(t.Context(), Delivery{URL: url, EventID: "evt_1"}); err != nil {
		t.Error(err)
	}
}

// TestW5PrivateAddressBehindAName holds that the address is checked when the connection is made: localhost is a name.
func TestW5PrivateAddressBehindAName(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	sender := NewSender(Addresses{}, time.Second, nil, time.Now)
	if _, err := sender.Send(t.Context(), Delivery{URL: "https://localhost:" + port + "/", EventID: "evt_1"}); !errors.Is(err, ErrAddress) {
		t.Error(err)
	}
}

// serveNames starts a name server that answers each question for an IPv4 address by a function, and returns a resolver
// that asks it.
func serveNames(t *testing.T, answer func() netip.Addr) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			end := 12 + bytes.IndexByte(buffer[12:n], 0) + 5 // after the name come type and class
			reply := slices.Clone(buffer[:end])
			copy(reply[2:], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}) // an answer with one question and no record
			if isIPv4 := reply[end-3] == 1; isIPv4 {
				address := answer().As4()
				reply[7] = 1 // record: of the name of the question, an address, for no time
				reply = slices.Concat(reply, []byte{0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4}, address[:])
			}
			_, _ = server.WriteTo(reply, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// TestW5NameThatChangesItsAddress uses a name whose address is public when the endpoint is added, and loopback when the
// connection is made: the address of the connection counts.
func TestW5NameThatChangesItsAddress(t *testing.T) {
	answers := []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("127.0.0.1")}
	resolver := serveNames(t, func() netip.Addr {
		now := answers[0]
		answers = append(answers[1:], answers[len(answers)-1])
		return now
	})
	var public Addresses
	if err := public.CheckURL("https://rebind.example/hooks"); err != nil {
		t.Fatal(err)
	}
	looked, err := resolver.LookupNetIP(t.Context(), "ip4", "rebind.example")
	if err != nil || public.Check(looked[0]) != nil {
		t.Fatalf("at first the name must be public: %v, %v", looked, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan struct{})
	go func() {
		if conn, err := listener.Accept(); err == nil {
			conn.Close()
			close(accepted)
		}
	}()
	sender := NewSender(public, time.Second, nil, time.Now)
	sender.dialer.Resolver = resolver
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sender.Send(t.Context(), Delivery{URL: "https://rebind.example:" + port + "/", EventID: "evt_1"}); !errors.Is(err, ErrAddress) {
		t.Error(err)
	}
	select {
	case <-accepted:
		t.Error("a connection was made")
	default:
	}
}

// TestW5FaultsOfEndpointsInWords holds that a failed delivery says in words that no answer came, and
// does not quote the URL.
func TestW5FaultsOfEndpointsInWords(t *testing.T) {
	over := make(chan struct{})
	defer close(over) // before the server ends, which waits for its handler
	slow, slowURL := receive(t, func(http.ResponseWriter, *http.Request) { <-over })
	slow.timeout = 50 * time.Millisecond
	trusting, _ := receive(t, nil)
	_, strangeURL := receive(t, func(http.ResponseWriter, *http.Request) {})
	trusting.client.Transport.(*http.Transport).TLSClientConfig.RootCAs = x509.NewCertPool()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		sender    *Sender
		url, want string
	}{
		{slow, slowURL, "no answer came"},
		{trusting, strangeURL, "no answer came"},
		{trusting, "https://" + closed.Addr().String(), "no answer came"},
	} {
		_, err := c.sender.Send(context.Background(), Delivery{URL: c.url + "/secret-path", EventID: "evt_1"})
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

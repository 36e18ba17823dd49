package webhook

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
)

// TestW5ReceiversAreAllThereAre: with a list of receivers, other URLs are refused: another path, port, scheme or host.
// An entry of host and port allows every path.
func TestW5ReceiversAreAllThereAre(t *testing.T) {
	a := Addresses{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	for _, text := range []string{"http://127.0.0.1:8080/hooks", "Hooks.example", "127.0.0.1:9000", "https://shop.example/a?b=c", "[2a00::1]:8443"} {
		r, err := ParseReceiver(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		a.Receivers = append(a.Receivers, r)
	}
	for url, want := range map[string]bool{
		"http://127.0.0.1:8080/hooks": true, "http://127.0.0.1:8080/hooks/": false, "http://127.0.0.1:8080/": false,
		"http://127.0.0.1:8081/hooks": false, "https://127.0.0.1:8080/hooks": false, "http://127.0.0.1:8080/hooks?x": false,
		"http://127.0.0.1:9000/": true, "https://127.0.0.1:9000/any": true, "http://127.0.0.1/": false, "http://127.0.0.2:9000/": false,
		"https://hooks.example/": true, "https://HOOKS.example:443/x": true, "https://hooks.example:8443/": false,
		"https://not-hooks.example/": false, "https://shop.example/a?b=c": true, "https://shop.example/a?b=d": false,
		"https://[2a00::1]:8443/": true, "https://[2a00::1]/": false,
	} {
		if err := a.CheckURL(url); (err == nil) != want || err != nil && !errors.Is(err, errNoReceiver) {
			t.Errorf("%s: %v, want it allowed: %t", url, err, want)
		}
	}
	a.Receivers = []Receiver{}
	if err := a.CheckURL("https://hooks.example/"); !errors.Is(err, errNoReceiver) {
		t.Errorf("with an empty list: %v, want it refused", err)
	}
	operator := a.ForOperator()
	if err := operator.CheckURL("https://hooks.example/"); err != nil {
		t.Errorf("for the operator: %v", err)
	}
	for _, text := range []string{"", "ftp://x.example/", "http://", "a/b", "user@host", "host:port", "https://%"} {
		if _, err := ParseReceiver(text); err == nil {
			t.Errorf("%q is taken as a receiver", text)
		}
	}
}

// TestW5NothingIsLearntOfAPrivateNetwork: in a private network, a failed delivery says the same for a closed port as
// for any other that gives no answer. It says the same for a name with a private address as for a name that does not
// exist.
func TestW5NothingIsLearntOfAPrivateNetwork(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	failures := map[string]error{
		"closed": syscall.ECONNREFUSED, "filtered": context.DeadlineExceeded, "no HTTP": errors.New("malformed HTTP response"), "reset": syscall.ECONNRESET,
	}
	for what, err := range failures {
		ctx := t.Context()
		if what == "filtered" {
			ctx = over
		}
		if got := connectionError(ctx, err, true); got.Error() != "no answer came" {
			t.Errorf("%s port of a private network: %v", what, got)
		}
		if got := connectionError(ctx, err, false); got.Error() == "no answer came" {
			t.Errorf("%s port of a public host: %v, want the reason", what, got)
		}
	}
	unknown := connectionError(t.Context(), &net.DNSError{Err: "no such host", IsNotFound: true}, false)
	private := connectionError(t.Context(), &net.OpError{Op: "dial", Err: ErrAddress}, true)
	if unknown.Error() != private.Error() {
		t.Errorf("an unknown name: %v; a private address: %v; want one text", unknown, private)
	}
}

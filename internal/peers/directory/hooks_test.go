package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// told collects what the hooks around an exchange are called with.
type told struct {
	mu  sync.Mutex
	all []string
}

func (o *told) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprintf(format, args...))
}

// taken is what was collected since it was last asked.
func (o *told) taken() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	return all
}

func (o *told) hooks() Hooks {
	type key struct{}
	kind := func(err error) string {
		if bad, ok := errors.AsType[*Error](err); ok {
			return bad.Kind.String()
		}
		return fmt.Sprint(err)
	}
	return Hooks{
		Begun: func(ctx context.Context, scheme, message, id string) (context.Context, func(error)) {
			o.add("%s %s %s after %v", scheme, message, id, ctx.Value(key{}))
			return context.WithValue(ctx, key{}, message), func(err error) { o.add("%s ended, %s", message, kind(err)) }
		},
		Retried: func(ctx context.Context, err error) { o.add("%v again, %s", ctx.Value(key{}), kind(err)) },
	}
}

// TestHooksAroundExchanges: of every message it is told when it begins, when it is tried
// again, and how it ended, each with the context of the exchange, and of an Erro with that
// of the request that it is about.
func TestHooksAroundExchanges(t *testing.T) {
	ca := newAuthority(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "https://" + l.Addr().String()
	l.Close()
	address := serve(t, ca.server(), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	var o told
	expect := func(what string, want ...string) {
		t.Helper()
		if got := o.taken(); !slices.Equal(got, want) {
			t.Errorf("%s: told %q, want %q", what, got, want)
		}
	}

	c, _ := newClient(t, o.hooks(), peerAt("visa", address, ca.client()), peerAt("jcb", dead, ca.client()))
	send(t, c, "visa")
	expect("an answer", "visa AReq "+transID+" after <nil>", "AReq ended, <nil>")
	send(t, c, "jcb")
	expect("nobody there", "jcb AReq "+transID+" after <nil>", "AReq again, connect", "AReq ended, connect")
	request, _ := o.hooks().Begun(t.Context(), "visa", "request", "")
	gone, cancel := context.WithCancel(request)
	cancel()
	c.Report(gone, "visa", "", []byte("{}"))
	c.Close()
	expect("an Erro", "visa request  after <nil>", "visa Erro  after request", "Erro ended, <nil>")

	v1, err := NewV1([]V1Peer{{Scheme: "visa", URL: dead, Fallback: address, TLS: ca.client()}}, slog.New(slog.DiscardHandler), o.hooks())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v1.Exchange(t.Context(), "visa", "Shop", "VEReq", "m1", []byte("<m/>")); err != nil {
		t.Error(err)
	}
	expect("a VEReq", "visa VEReq m1 after <nil>", "VEReq again, connect", "VEReq ended, <nil>")
	v1.Report(request, "visa", []byte("<m/>"))
	v1.Close()
	expect("an Error", "visa Error  after request", "Error ended, connect")

	p := peerAt("visa", address, ca.client())
	asker, _ := newClient(t, o.hooks(), p)
	r := asker.refreshers[0]
	r.exchangePReq(t.Context(), 1)
	asker.Close()
	got := o.taken()
	slices.Sort(got)
	if len(got) != 4 || got[0] != "Erro ended, <nil>" || got[1] != "PReq ended, <nil>" || got[2] != "visa Erro  after PReq" {
		t.Errorf("a PReq, and the Erro about its answer: told %q", got)
	}
}

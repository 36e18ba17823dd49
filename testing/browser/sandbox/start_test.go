package sandbox

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/sandbox/shop"
)

func getText(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return string(text)
}

// startSandboxWithShop runs the sandbox with a demo shop whose pages are wrapped, on one address, and returns it.
func startSandboxWithShop(t *testing.T, demo *shop.Shop, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	base := "http://" + l.Addr().String()
	demo.API, demo.APIKey, demo.PublicKey, demo.PublicURL = base, playground.Key, playground.Key, base
	if demo.HookURL == "" {
		demo.HookURL = base + shop.HookPath
	}
	t.Cleanup(func() { must(t, demo.Close()) })
	p, err := playground.Start(t.Context(), playground.Options{
		Dir: t.TempDir(), API: l, Log: slog.New(slog.DiscardHandler), Address: &playground.Address{PublicURL: base, Shop: wrap(demo.Handler())},
	})
	must(t, err)
	demo.Source = p
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return base
}

func callAPI(t *testing.T, method, url, body string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	r.Header.Set("APIKey", playground.Key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Fatalf("%s %s: %d", method, url, answer.StatusCode)
	}
	must(t, json.NewDecoder(answer.Body).Decode(into))
}

// readOrder returns the page of an order.
func readOrder(t *testing.T, base, id string) string {
	t.Helper()
	answer, err := http.Get(base + "/order?authentication=" + id)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return string(text)
}

package sandbox

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// clickPage pays in two ways and returns how many milliseconds passed from the click until the back end had the result.
// The one with threeds.js is that of docs/browser.md. The other does by hand what a page must do at least.
const clickPage = `<!doctype html><html lang="en"><title>Shop</title><h1>Shop</h1>
<script type="module">
import { authenticate } from %q
const post = async (path, body) => (await fetch(path, { method: 'POST', body: JSON.stringify(body) })).json()
const clock = async (pay) => {
  const start = performance.now()
  const result = await pay()
  if (result != 'Y') throw new Error('transStatus ' + result)
  return performance.now() - start
}
window.withScript = (card) => clock(async () => {
  const { id, url } = await post('/pay', { card })
  if (url) await authenticate({ url })
  return (await post('/order', { id })).transStatus
})
window.byHand = (card) => clock(async () => {
  const { id, method, data } = await post('/preauth', { card })
  let threeDSCompInd = 'U'
  if (method) {
    const over = new Promise((resolve) => addEventListener('message', resolve, { once: true }))
    const frame = Object.assign(document.createElement('iframe'), { name: 'method' })
    frame.style.visibility = 'hidden'
    const form = Object.assign(document.createElement('form'), { method: 'POST', action: method, target: 'method' })
    form.append(Object.assign(document.createElement('input'), { type: 'hidden', name: 'threeDSMethodData', value: data }))
    document.body.append(frame, form)
    form.submit()
    await over
    frame.remove()
    form.remove()
    threeDSCompInd = 'Y'
  }
  const browser = {
    threeDSCompInd, browserJavaEnabled: false, browserJavascriptEnabled: true, browserLanguage: navigator.language,
    browserColorDepth: '24', browserScreenHeight: String(screen.height), browserScreenWidth: String(screen.width),
    browserTZ: String(new Date().getTimezoneOffset()), browserUserAgent: navigator.userAgent,
  }
  return (await post('/auth', { id, card, browser })).transStatus
})
window.isReady = true
</script>`

// clickShop is the back end of clickPage.
func clickShop(b *testing.B, base string) *httptest.Server {
	ask := func(method, path string, body any) map[string]any {
		text, _ := json.Marshal(body)
		r, err := http.NewRequestWithContext(b.Context(), method, base+path, bytes.NewReader(text))
		if err != nil {
			b.Error(err)
			return nil
		}
		r.Header.Set("APIKey", playground.Key)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Error(err)
			return nil
		}
		defer answer.Body.Close()
		var got map[string]any
		text, _ = io.ReadAll(answer.Body)
		if err := json.Unmarshal(text, &got); err != nil || answer.StatusCode >= 300 {
			b.Errorf("%s %s: %d %s", method, path, answer.StatusCode, text)
		}
		return got
	}
	const common = `"cardExpiryDate": "3012", "purchaseAmount": "12900", "purchaseCurrency": "978", "messageVersion": "2.2.0"`
	var shop *httptest.Server
	mux := http.NewServeMux()
	step := func(path string, do func(in map[string]any) map[string]any) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var in map[string]any
			_ = json.NewDecoder(r.Body).Decode(&in)
			_ = json.NewEncoder(w).Encode(do(in))
		})
	}
	step("/pay", func(in map[string]any) map[string]any {
		a := ask("POST", "/authentications", json.RawMessage(fmt.Sprintf(`{"acctNumber": %q, %s}`, in["card"], common)))
		browser, _ := a["browser"].(map[string]any)
		return map[string]any{"id": a["id"], "url": browser["url"]}
	})
	step("/order", func(in map[string]any) map[string]any {
		a := ask("GET", fmt.Sprintf("/authentications/%v?wait=30", in["id"]), nil)
		outcome, _ := a["outcome"].(map[string]any)
		return map[string]any{"transStatus": outcome["transStatus"]}
	})
	step("/preauth", func(in map[string]any) map[string]any {
		crd := ask("POST", "/preauth", map[string]any{"acctNumber": in["card"]})
		id := crd["threeDSServerTransID"]
		out := map[string]any{"id": id}
		for _, v := range crd["acsProtocolVersions"].([]any) {
			if v := v.(map[string]any); v["version"] == "2.2.0" {
				out["method"] = v["threeDSMethodURL"]
			}
		}
		data, _ := json.Marshal(map[string]any{"threeDSServerTransID": id, "threeDSMethodNotificationURL": shop.URL + "/over"})
		out["data"] = base64.RawURLEncoding.EncodeToString(data)
		return out
	})
	step("/auth", func(in map[string]any) map[string]any {
		var areq map[string]any
		_ = json.Unmarshal([]byte(`{"messageType": "AReq", "deviceChannel": "02", "messageCategory": "01", "threeDSRequestorAuthenticationInd": "01",
			"threeDSRequestorURL": "https://shop.example", "acquirerBIN": "400551", "acquirerMerchantID": "SHOP-1", "mcc": "5411",
			"merchantCountryCode": "208", "merchantName": "Shop", "purchaseExponent": "2", "purchaseDate": "20261120120000",
			"browserAcceptHeader": "text/html", "browserIP": "192.0.2.1", "notificationURL": "https://shop.example/done", `+common+`}`), &areq)
		areq["threeDSServerTransID"], areq["acctNumber"] = in["id"], in["card"]
		for name, value := range in["browser"].(map[string]any) {
			areq[name] = value
		}
		return map[string]any{"transStatus": ask("POST", "/auth", areq)["transStatus"]}
	})
	mux.HandleFunc("POST /over", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<!doctype html><script>parent.postMessage("over", "*")</script>`)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, clickPage, base+"/threeds.js")
	})
	shop = httptest.NewServer(mux)
	return shop
}

// BenchmarkClickToResult measures in Chromium, in turns, how long a payment without a challenge takes from the click
// until the back end has its result: with threeds.js, and with a page written by hand. beyond-ms/op is the difference.
func BenchmarkClickToResult(b *testing.B) {
	l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	base := "http://" + l.Addr().String()
	p, err := playground.Start(b.Context(), playground.Options{
		Dir: b.TempDir(), API: l, Log: slog.New(slog.DiscardHandler), Address: &playground.Address{PublicURL: base, Shop: http.NotFoundHandler()},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() {
		stop()
		<-ended
	}()
	shop := clickShop(b, base)
	defer shop.Close()
	tab := browsertest.NewBrowser(b)
	if err := chromedp.Do(tab, chromedp.Navigate(shop.URL), browsertest.Poll(`window.isReady === true`)); err != nil {
		b.Fatal(err)
	}
	pay := func(way, card string) float64 {
		b.Helper()
		ms, err := chromedp.Run(tab, chromedp.Evaluate[float64](fmt.Sprintf(`%s(%q)`, way, card), chromedp.EvalAwaitPromise))
		if err != nil {
			b.Fatalf("%s: %v", way, err)
		}
		return ms
	}
	for _, c := range []struct{ name, card string }{{"without a 3DS Method", "4000000000000103"}, {"with a 3DS Method", "4000000000000003"}} {
		b.Run(c.name, func(b *testing.B) {
			var script, hand float64
			pay("withScript", c.card) // the first one of each also warms connections
			pay("byHand", c.card)
			n := 0
			for b.Loop() {
				script += pay("withScript", c.card)
				hand += pay("byHand", c.card)
				n++
			}
			b.ReportMetric(script/float64(n), "threeds.js-ms/op")
			b.ReportMetric(hand/float64(n), "by-hand-ms/op")
			b.ReportMetric((script-hand)/float64(n), "beyond-ms/op")
		})
	}
}

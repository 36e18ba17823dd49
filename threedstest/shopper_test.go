package threedstest_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/threedstest"
)

// TestF1BrowserInsideATest: an authentication of a browser goes its whole way, and ends as the card says or the shopper
// wants.
func TestF1BrowserInsideATest(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	c, ctx := server.Client(), t.Context()
	for _, tt := range []struct{ card, press, status, result string }{
		{"4000000000000103", "", "completed", "authenticated"},
		{"4000000000000003", "", "completed", "authenticated"}, // a 3DS Method, which wants JavaScript
		{"4000000000001103", "", "completed", "unavailable"},   // 2.1.0 alone, which wants JavaScript
		{"4000000000000113", "", "completed", "not_authenticated"},
		{"4000000000000170", "", "completed", "authenticated"},
		{"4000000000000171", "", "completed", "not_authenticated"},
		{"4000000000000172", "", "completed", "authenticated"},
		{"4000000000000172", "submit", "completed", "authenticated"},
		{"4000000000000172", "cancel", "completed", "abandoned"},
		{"4000000000000172", "hosted-cancel", "cancelled", "abandoned"},
		{"4000000000000174", "approve", "completed", "authenticated"},
		{"4000000000000174", "decline", "completed", "not_authenticated"},
		{"9001105100000000", "", "completed", "not_authenticated"}, // with a text that the shopper confirms
		{"4000000000000143", "", "completed", "informational"},
	} {
		for _, returnURL := range []string{"https://shop.example/done?order=17", ""} {
			request := map[string]any{"acctNumber": tt.card, "cardExpiryDate": "3012", "purchaseAmount": "1250", "purchaseCurrency": "978"}
			if returnURL != "" {
				request["returnUrl"] = returnURL
			}
			a, err := c.Authenticate(ctx, request, "")
			if err != nil || a.Browser == nil || !strings.HasPrefix(a.Browser.URL, server.BrowserURL+"/a/") {
				t.Fatalf("%s: %+v, %v", tt.card, a, err)
			}
			back, err := server.PlayShopper(ctx, a.Browser.URL, tt.press)
			want := ""
			if returnURL != "" {
				want = returnURL + "&authentication=" + a.ID
			}
			if err != nil || back != want {
				t.Errorf("%s %s: back at %q, %v, want %q", tt.card, tt.press, back, err, want)
			}
			end, err := c.Authentication(ctx, a.ID, 0)
			if err != nil || string(end.Status) != tt.status || end.Outcome == nil || string(end.Outcome.Result) != tt.result {
				t.Errorf("%s %s: %s, %v, want %s %s", tt.card, tt.press, end.Answer.Raw, err, tt.status, tt.result)
			}
		}
	}
	if back, err := server.PlayShopper(ctx, server.BrowserURL+"/a/unknown", ""); err == nil {
		t.Errorf("an address that nobody has: %q", back)
	}
}

// TestF1TestServerHasTheScript: threeds.js is served where the answer says, and allows the pages of a shop on this
// machine.
func TestF1TestServerHasTheScript(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	request := map[string]any{"acctNumber": card, "cardExpiryDate": "3012", "purchaseAmount": "1250", "purchaseCurrency": "978"}
	a, err := server.Client().Authenticate(t.Context(), request, "")
	if err != nil {
		t.Fatal(err)
	}
	script, err := url.Parse(a.Browser.Script)
	if err != nil || script.Scheme+"://"+script.Host != server.BrowserURL {
		t.Errorf("the script is at %s, %v", script, err)
	}
	for _, address := range []string{a.Browser.Script, server.BrowserURL + "/threeds.js"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), "authenticate") {
			t.Errorf("%s: %s, %v", address, res.Status, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := client.New(server.URL, server.OtherKey).Authentication(t.Context(), a.ID, 0); err == nil {
		t.Error("another merchant sees the authentication")
	}
}

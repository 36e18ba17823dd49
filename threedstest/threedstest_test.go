package threedstest_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openthreeds/threeds/threedstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a JSON object to an operation and returns what it answers.
func post(tb testing.TB, s *threedstest.Server, path string, body map[string]any) (int, map[string]any) {
	tb.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		tb.Fatal(err)
	}
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, s.URL+path, bytes.NewReader(data))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("APIKey", s.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	var got map[string]any
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		tb.Fatal(err)
	}
	return res.StatusCode, got
}

// browserPayment is an AReq for a payment in a browser.
func browserPayment(transID string) map[string]any {
	return map[string]any{
		"messageType": "AReq", "messageVersion": "2.2.0", "deviceChannel": "02", "messageCategory": "01",
		"threeDSServerTransID": transID, "threeDSCompInd": "U", "acctNumber": card, "cardExpiryDate": "3012",
		"threeDSRequestorAuthenticationInd": "01", "threeDSRequestorURL": "https://shop.example",
		"acquirerBIN": "400000", "acquirerMerchantID": "M1", "mcc": "5411", "merchantCountryCode": "208", "merchantName": "Shop",
		"purchaseAmount": "1099", "purchaseCurrency": "978", "purchaseExponent": "2", "purchaseDate": "20261120120000",
		"browserAcceptHeader": "text/html", "browserIP": "192.0.2.1", "browserJavaEnabled": false, "browserJavascriptEnabled": true,
		"browserLanguage": "en", "browserColorDepth": "24", "browserScreenHeight": "1080", "browserScreenWidth": "1920", "browserTZ": "-60",
		"browserUserAgent": "Mozilla/5.0", "notificationURL": "https://shop.example/done", "cardholderName": "Ann Example",
	}
}

// card is one that is authenticated without a challenge.
const card = "4000000000000103"

// TestServersAuthenticateAndShareNothing: two servers at once authenticate a card, and
// neither knows the transactions of the other.
func TestServersAuthenticateAndShareNothing(t *testing.T) {
	first, second := threedstest.NewServer(t), threedstest.NewServer(t)
	for _, s := range []*threedstest.Server{first, second} {
		code, crd := post(t, s, "/preauth", map[string]any{"acctNumber": card})
		if code != http.StatusOK {
			t.Fatalf("/preauth: %d %v", code, crd)
		}
		id, _ := crd["threeDSServerTransID"].(string)
		code, ares := post(t, s, "/auth", browserPayment(id))
		if code != http.StatusOK || ares["transStatus"] != "Y" {
			t.Fatalf("/auth: %d %v", code, ares)
		}
		if len(s.Sandbox.Received(id)) == 0 {
			t.Error("the directory server has received nothing")
		}
		other := first
		if s == first {
			other = second
		}
		if code, got := post(t, other, "/postauth", map[string]any{"threeDSServerTransID": id}); code != http.StatusBadRequest {
			t.Errorf("the other server knows the transaction: %d %v", code, got)
		}
	}
}

// TestClosedServerLeavesNothing: a closed server can be closed again, answers no more, and
// its files are gone.
func TestClosedServerLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s, err := threedstest.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	post(t, s, "/preauth", map[string]any{"acctNumber": card})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if res, err := http.Get(s.URL); err == nil {
		res.Body.Close()
		t.Error("it still answers")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v is left, %v", files, err)
	}
}

// BenchmarkNewServer measures a server from its start to its first answer, which is to take
// 200 ms at most, and its end.
func BenchmarkNewServer(b *testing.B) {
	var ready, closed time.Duration
	for b.Loop() {
		start := time.Now()
		s, err := threedstest.Start(nil)
		if err != nil {
			b.Fatal(err)
		}
		post(b, s, "/preauth", map[string]any{"acctNumber": card})
		ready += time.Since(start)
		start = time.Now()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		closed += time.Since(start)
	}
	b.ReportMetric(ready.Seconds()*1000/float64(b.N), "ms-ready")
	b.ReportMetric(closed.Seconds()*1000/float64(b.N), "ms-close")
}

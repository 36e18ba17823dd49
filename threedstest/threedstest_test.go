package threedstest_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/base/leaktest"
	"github.com/openthreeds/threeds/threedstest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

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
		crd, err := s.Client().Preauth(t.Context(), client.PreauthRequest{AcctNumber: card})
		if err != nil {
			t.Fatal(err)
		}
		id := crd.ThreeDSServerTransID
		ares, err := s.Client().Auth(t.Context(), browserPayment(id))
		if err != nil || ares.TransStatus != "Y" {
			t.Fatalf("/auth: %+v, %v", ares, err)
		}
		if len(s.Sandbox.Received(id)) == 0 {
			t.Error("the directory server has received nothing")
		}
		other := first
		if s == first {
			other = second
		}
		var erro *client.Erro
		if _, err := other.Client().PostAuth(t.Context(), id); !errors.As(err, &erro) {
			t.Errorf("the other server knows the transaction: %v", err)
		}
	}
}

// TestRequestOf231ReachesCardOf220: a merchant with bridging writes an AReq of 2.3.1 for a card of 2.2.0. The
// directory server gets what Bridging carries, and the ARes and the result bring the issuer's.
func TestRequestOf231ReachesCardOf220(t *testing.T) {
	t.Parallel()
	const challenged = "4000000000002170" // 2.2.0 only, and the challenge passes by itself
	s := threedstest.NewServer(t)
	c := client.New(s.URL, s.OtherKey)
	defer c.CloseIdleConnections()
	crd, err := c.Preauth(t.Context(), client.PreauthRequest{AcctNumber: challenged})
	if err != nil {
		t.Fatal(err)
	}
	areq := browserPayment(crd.ThreeDSServerTransID)
	maps.Copy(areq, map[string]any{
		"messageVersion": "2.3.1", "acctNumber": challenged, "threeDSRequestorChallengeInd": []string{"14", "04"},
		"threeDSRequestorAuthenticationInd": "08", "recurringAmount": "999", "merchantRiskIndicator": map[string]any{"transChar": []string{"01"}},
	})
	ares, err := c.Auth(t.Context(), areq)
	if err != nil || ares.TransStatus != "C" || ares.MessageVersion != "2.2.0" {
		t.Fatalf("/auth: %+v, %v", ares, err)
	}
	sent := bridgingData(t, []byte(s.Sandbox.Received(crd.ThreeDSServerTransID)[0].Body))
	if want :=
		`{"version":"2.0","recurringData":{"recurringAmount":"999"},"addData":{"threeDSRequestorAuthenticationInd":"08","transChar":["01"]}}`; sent != want {
		t.Errorf("the AReq has %s, want %s", sent, want)
	}
	const answered = `{"version":"2.0","addData":{"authenticationMethod":["02"]}}`
	if got := bridgingData(t, ares.Raw); got != answered {
		t.Errorf("the ARes has %s, want %s", got, answered)
	}
	beginChallenge(t, ares)
	rreq, err := c.PostAuth(t.Context(), crd.ThreeDSServerTransID)
	if err != nil {
		t.Fatal(err)
	}
	if got := bridgingData(t, rreq.Raw); got != answered || rreq.TransStatus != "Y" {
		t.Errorf("the RReq has %s, want %s: %s", got, answered, rreq.TransStatus)
	}
}

// beginChallenge posts the CReq of a challenge that passes by itself. When it returns, the result was sent.
func beginChallenge(t *testing.T, ares *client.ARes) {
	t.Helper()
	creq, err := json.Marshal(map[string]string{
		"messageType": "CReq", "messageVersion": ares.MessageVersion, "challengeWindowSize": "05",
		"threeDSServerTransID": ares.ThreeDSServerTransID, "acsTransID": ares.ACSTransID,
	})
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"creq": {base64.RawURLEncoding.EncodeToString(creq)}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ares.ACSURL, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer answer.Body.Close()
	if page, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v: %s", answer.Status, err, page)
	}
}

// bridgingData returns the data of the Bridging extension in a message, "" if it has none.
func bridgingData(t *testing.T, body []byte) string {
	t.Helper()
	var m struct {
		MessageExtension []struct {
			ID   string          `json:"id"`
			Data json.RawMessage `json:"data"`
		} `json:"messageExtension"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, x := range m.MessageExtension {
		if x.ID == "A000000802-004" {
			return string(x.Data)
		}
	}
	return ""
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
	if _, err := s.Client().Preauth(t.Context(), client.PreauthRequest{AcctNumber: card}); err != nil {
		t.Error(err)
	}
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
		if _, err := s.Client().Preauth(b.Context(), client.PreauthRequest{AcctNumber: card}); err != nil {
			b.Fatal(err)
		}
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

// TestD88ServersAreStrict: a threeDSCompInd Y whose 3DS Method never ran is refused.
func TestD88ServersAreStrict(t *testing.T) {
	s := threedstest.NewServer(t)
	const withMethod = "4000000000000003"
	crd, err := s.Client().Preauth(t.Context(), client.PreauthRequest{AcctNumber: withMethod})
	if err != nil {
		t.Fatal(err)
	}
	areq := browserPayment(crd.ThreeDSServerTransID)
	areq["acctNumber"], areq["threeDSCompInd"] = withMethod, "Y"
	var erro *client.Erro
	if _, err := s.Client().Auth(t.Context(), areq); !errors.As(err, &erro) || erro.ErrorCode != "305" || erro.ErrorDescription != "Invalid ThreeDSCompInd" {
		t.Errorf("/auth: %v", err)
	}
}

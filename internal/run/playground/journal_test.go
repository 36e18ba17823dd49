package playground

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// frictionless is a card that is authenticated without a challenge.
const frictionless = "4000000000000103"

// payment is an AReq for a payment in a browser.
func payment(transID string) map[string]any {
	return map[string]any{
		"messageType": "AReq", "messageVersion": "2.2.0", "deviceChannel": "02", "messageCategory": "01",
		"threeDSServerTransID": transID, "threeDSCompInd": "U", "acctNumber": frictionless, "cardExpiryDate": "3012",
		"threeDSRequestorAuthenticationInd": "01", "threeDSRequestorURL": "https://shop.example",
		"acquirerBIN": "400000", "acquirerMerchantID": "M1", "mcc": "5411", "merchantCountryCode": "208", "merchantName": "Shop",
		"purchaseAmount": "1099", "purchaseCurrency": "978", "purchaseExponent": "2", "purchaseDate": "20261120120000",
		"browserAcceptHeader": "text/html", "browserIP": "192.0.2.1", "browserJavaEnabled": false, "browserJavascriptEnabled": true,
		"browserLanguage": "en", "browserColorDepth": "24", "browserScreenHeight": "1080", "browserScreenWidth": "1920", "browserTZ": "-60",
		"browserUserAgent": "Mozilla/5.0", "notificationURL": "https://shop.example/done", "cardholderName": "Ann Example",
	}
}

// TestJ1AuthenticationsAndRefusalsAreInTheJournal: what the sandbox has done is found by card, last four digits and
// id, with its steps, and so is a refused request by its X-Request-Id. Nothing of it has the card number, the
// authentication value or the API key (J6).
func TestJ1AuthenticationsAndRefusalsAreInTheJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	api, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	p, err := Start(t.Context(), Options{Dir: dir, API: api, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	c := client.New("http://"+api.Addr().String(), Key)
	defer c.CloseIdleConnections()
	crd, err := c.Preauth(t.Context(), client.PreauthRequest{AcctNumber: frictionless})
	must(t, err)
	id := crd.ThreeDSServerTransID
	ares, err := c.Auth(t.Context(), payment(id))
	must(t, err)
	bad := payment(id)
	delete(bad, "mcc")
	var refused *client.Erro
	if _, err := c.Auth(t.Context(), bad); !errors.As(err, &refused) {
		t.Fatalf("a request without mcc: %v", err)
	}
	stop()
	must(t, <-ended)

	keys, err := journal.LoadKeys(filepath.Join(dir, "journal-keys.json"))
	must(t, err)
	st, err := journal.OpenFiles(dir, keys)
	must(t, err)
	defer st.Close()
	for name, q := range map[string]journal.Query{
		"card": {Card: frictionless, Status: "completed"}, "last4": {Last4: "0103", Status: "completed"},
		"id": {ID: id, Status: "completed"}, "merchant": {Merchant: shopMerchant, Status: "completed"},
	} {
		page, err := st.Search(t.Context(), q)
		if err != nil || len(page.Records) != 1 || page.Records[0].ID != id || page.Records[0].TransStatus != "Y" || page.Records[0].Card.BIN != "40000000" {
			t.Errorf("by %s: %+v, %v", name, page.Records, err)
		}
	}
	d, err := st.Show(t.Context(), id)
	must(t, err)
	var steps []string
	for _, s := range d.Steps {
		steps = append(steps, s.Step)
	}
	if got, want := strings.Join(steps, " "), "request lookup areq ares answered"; got != want {
		t.Errorf("the steps are %s, want %s", got, want)
	} else if areq := string(d.Steps[2].Message); !strings.Contains(areq, `"browserScreenWidth":"1920"`) {
		t.Errorf("the AReq is not whole: %s", areq)
	}
	page, err := st.Search(t.Context(), journal.Query{Card: frictionless, Status: "refused"})
	if err != nil || len(page.Records) != 1 || page.Records[0].ErrorCode != "201" || strings.Join(page.Records[0].Elements, " ") != "mcc" {
		t.Errorf("the refused request: %+v, %v", page.Records, err)
	}

	var text bytes.Buffer
	n, err := journal.WriteJSONLines(t.Context(), &text, st, keys, journal.Query{})
	if err != nil || n != 2 && n != 3 { // the answer has what the entry of the claim would have; on a slow machine that is an entry of its own
		t.Errorf("%d entries exported, %v", n, err)
	}
	if _, err := journal.Verify(bytes.NewReader(text.Bytes()), keys.PublicKey()); err != nil {
		t.Errorf("the export: %v", err)
	}
	var message struct {
		Value string `json:"authenticationValue"`
	}
	must(t, json.Unmarshal(ares.Raw, &message))
	kept := text.Bytes()
	files, err := filepath.Glob(filepath.Join(dir, "journal-*.db*"))
	must(t, err)
	if len(files) == 0 || message.Value == "" {
		t.Fatal("there is nothing to look for")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		kept = append(kept, data...)
	}
	for _, secret := range []string{frictionless, message.Value, Key,
		base64.StdEncoding.EncodeToString([]byte(frictionless)), hex.EncodeToString([]byte(frictionless))} {
		if bytes.Contains(kept, []byte(secret)) {
			t.Errorf("the journal has %d bytes that must not be there, beginning with %.2q", len(secret), secret)
		}
	}
}

// TestD31CardNumberInPlaceOfANameIsKeptNowhere: what stands in the place of a member's or parameter's name is repeated
// only if it has the form of a name. A card number there is in no answer, and neither in the log nor in what is stored.
func TestD31CardNumberInPlaceOfANameIsKeptNowhere(t *testing.T) {
	t.Parallel()
	const card = "4000001234567899"
	dir := t.TempDir()
	api, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	var kept bytes.Buffer // the log until Run has returned, then the files too
	p, err := Start(t.Context(), Options{Dir: dir, API: api, Log: slog.New(slog.NewJSONHandler(&kept, nil))})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for _, r := range [][3]string{
		{"GET", "/authentications?" + card + "=1", ""}, {"GET", "/authentications?" + card + "=1&" + card + "=2", ""},
		{"GET", "/events?" + card + "=1", ""}, {"GET", "/events?" + card + "=1&" + card + "=2", ""},
		{"POST", "/authentications/search", `{"` + card + `":1}`}, {"POST", "/authentications/search", `{"` + card + `":"x"}`},
		{"POST", "/webhook-endpoints", `{"` + card + `":1}`}, {"POST", "/authentications", `{"` + card + `":1}`},
		{"POST", "/authentications", `{"` + card + `":1,"` + card + `":2}`}, {"POST", "/lookup", `{"` + card + `":1,"` + card + `":2}`},
		{"POST", "/webhook-endpoints/ep_1/rotate", `{"` + card + `":1}`}, {"POST", "/authentications/" + card + "/cancel", `{"` + card + `":1}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), r[0], "http://"+api.Addr().String()+r[1], strings.NewReader(r[2]))
		must(t, err)
		req.Header.Set("APIKey", Key)
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		answer, err := io.ReadAll(res.Body)
		res.Body.Close()
		if must(t, err); res.StatusCode != 400 || bytes.Contains(answer, []byte(card)) {
			t.Errorf("%s: status %d, want 400 without the card number: %s", r, res.StatusCode, answer)
		}
	}
	stop()
	must(t, <-ended)
	must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		kept.Write(data)
		return err
	}))
	if text := kept.String(); !strings.Contains(text, "unknown-member") && !strings.Contains(text, "refused") || strings.Contains(text, card) {
		t.Errorf("the log and %s: with the card number %t", dir, strings.Contains(text, card))
	}
}

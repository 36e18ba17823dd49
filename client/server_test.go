package client_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/threedstest"
)

// areq is a payment in a browser with two slips, which the server puts right.
func areq(transID, card string) map[string]any {
	return map[string]any{
		"messageType": "AReq", "messageVersion": "2.2.0", "deviceChannel": "02", "messageCategory": "01",
		"threeDSServerTransID": transID, "threeDSCompInd": "U", "acctNumber": card, "cardExpiryDate": "3012",
		"threeDSRequestorAuthenticationInd": "01", "threeDSRequestorURL": "https://shop.example",
		"acquirerBIN": "400000", "acquirerMerchantID": "M1", "mcc": "5411", "merchantCountryCode": "8", "merchantName": "Shop",
		"purchaseAmount": "1099", "purchaseCurrency": "36", "purchaseExponent": "2", "purchaseDate": "20261120120000",
		"browserAcceptHeader": "text/html", "browserIP": "192.0.2.1", "browserJavaEnabled": false, "browserJavascriptEnabled": true,
		"browserLanguage": "en", "browserColorDepth": "24", "browserScreenHeight": "1080", "browserScreenWidth": "1920", "browserTZ": "-60",
		"browserUserAgent": "Mozilla/5.0", "notificationURL": "https://shop.example/done", "cardholderName": "Ann Example",
	}
}

// TestA2ClientTellsSchemes: of a co-badged card the client names all schemes, and asks for the one that is wanted.
func TestA2ClientTellsSchemes(t *testing.T) {
	server := threedstest.NewServer(t)
	c := client.New(server.URL, server.Key)
	for _, tt := range []struct {
		card, ds, want string
		schemes        []string
	}{
		{"4000000000000103", "", "visa", nil},
		{"4000970000000103", "", "visa", []string{"visa", "cb"}},
		{"4000970000000103", "cb", "cb", []string{"visa", "cb"}},
		{"4571000000000103", "sbn", "sbn", []string{"visa", "sbn"}},
	} {
		crd, err := c.Preauth(t.Context(), client.PreauthRequest{AcctNumber: tt.card, DS: tt.ds})
		if err != nil || crd.Scheme != tt.want || !slices.Equal(crd.Schemes(), tt.schemes) {
			t.Errorf("%s, ds %q: %+v, %v, want %s of %v", tt.card, tt.ds, crd, err, tt.want, tt.schemes)
		}
	}
}

// TestAgainstTheServer makes each call with the server and the sandbox.
func TestAgainstTheServer(t *testing.T) {
	server := threedstest.NewServer(t)
	c, ctx := client.New(server.URL, server.Key), t.Context()

	const card = "4000000000000103"
	crd, err := c.Preauth(ctx, client.PreauthRequest{AcctNumber: card})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(crd.Versions(), "2.2.0") || crd.Scheme != "visa" {
		t.Errorf("%+v", crd)
	}
	ares, err := c.Auth(ctx, areq(crd.ThreeDSServerTransID, card))
	if err != nil {
		t.Fatal(err)
	}
	if ares.TransStatus != "Y" || ares.ECI != "05" || ares.AuthenticationValue == "" {
		t.Errorf("%s", ares.Raw)
	}
	if names := ares.Normalised(); !slices.Contains(names, "merchantCountryCode") || !slices.Contains(names, "purchaseCurrency") {
		t.Errorf("put right: %v", names)
	}

	_, err = c.Preauth(ctx, client.PreauthRequest{AcctNumber: "9000100111111111"})
	if erro := wantErro(t, err, "305"); erro != nil && !erro.IsNotEnrolled() {
		t.Errorf("%v is not that of a card that is not enrolled", err)
	}
	_, err = c.Auth(ctx, areq(crd.ThreeDSServerTransID, card))
	wantErro(t, err, "301")
	_, err = c.PostAuth(ctx, crd.ThreeDSServerTransID)
	if erro := wantErro(t, err, "203"); erro != nil && erro.IsPending() {
		t.Errorf("%v: there will be no result", err)
	}
	_, err = c.Preauth(ctx, client.PreauthRequest{AcctNumber: "x"})
	wantErro(t, err, "203")

	_, err = client.New(server.URL, "9fbb8e40-0000-4000-8000-000000000001").PostAuth(ctx, crd.ThreeDSServerTransID)
	var refused *client.RefusedError
	if !errors.As(err, &refused) || refused.Status != 401 {
		t.Errorf("a wrong key: %v", err)
	}
}

// TestPendingResultOfTheServer: a challenge that no shopper takes has no result.
func TestPendingResultOfTheServer(t *testing.T) {
	server := threedstest.NewServer(t)
	c, ctx := server.Client(), t.Context()
	const card = "4000000000000172"
	crd, err := c.Preauth(ctx, client.PreauthRequest{AcctNumber: card})
	if err != nil {
		t.Fatal(err)
	}
	ares, err := c.Auth(ctx, areq(crd.ThreeDSServerTransID, card))
	if err != nil || ares.TransStatus != "C" || ares.ACSURL == "" {
		t.Fatalf("%+v, %v", ares, err)
	}
	_, err = c.PostAuth(ctx, crd.ThreeDSServerTransID)
	if erro := wantErro(t, err, "305"); erro != nil && !erro.IsPending() {
		t.Errorf("%v is not that of a result that is still to come", err)
	}
}

// TestV1AgainstTheServer makes the calls of 1.0.2.
func TestV1AgainstTheServer(t *testing.T) {
	server := threedstest.NewServer(t)
	c := server.Client()
	request := client.EnrolledRequest{
		Amount: "1099", Currency: "EUR", OrderID: "order-17", CardholderIP: "192.0.2.1",
		Card:     client.Card{Number: "4000001234560000", ExpireMonth: "12", ExpireYear: "2029"},
		Merchant: client.Merchant{AcquirerBIN: "400000", ID: "M1", Name: "Shop", Country: "DK", URL: "https://shop.example"},
	}
	got, err := c.Enrolled(t.Context(), request)
	if err != nil || got.Enrolled != "Y" || got.ACSURL == "" || got.PAReq == "" || got.Error != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	request.Amount = "x"
	_, err = c.Enrolled(t.Context(), request)
	var bad *client.ParameterError
	if !errors.As(err, &bad) || bad.Param != "amount" || bad.Type != "invalid_param" {
		t.Errorf("%v", err)
	}
	_, err = c.Check(t.Context(), "x")
	if !errors.As(err, &bad) || bad.Param != "pares" {
		t.Errorf("%v", err)
	}
}

// wantErro returns the Erro that an error is, nil after a failure.
func wantErro(t *testing.T, err error, code string) *client.Erro {
	t.Helper()
	var erro *client.Erro
	if !errors.As(err, &erro) || erro.ErrorCode != code {
		t.Errorf("%v, want an Erro with code %s", err, code)
		return nil
	}
	return erro
}

package check_test

import (
	"bytes"
	"log/slog"
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

var bridged = &account.Account{Merchant: &account.Merchant{Name: "Shop", Bridging: true}}

// bridgingWorld has cards that can be used with 2.1.0 and 2.2.0, and whose range lists extensions for
// 2.2.0.
func bridgingWorld(listed ...ranges.Extension) *authtest.World {
	w := authtest.NewWorld()
	info := authtest.AllVersions("")
	info.ACS = info.ACS[:2]
	info.ACS[1].Extensions = listed
	w.Hits = []ranges.Hit{{Scheme: "visa", Info: info}}
	return w
}

// of231 are elements that 2.2.0 lacks, and codes that it lacks.
var of231 = authtest.Object{
	"recurringAmount": "999", "recurringCurrency": "978", "recurringExponent": "2", "recurringDate": "20270101",
	"recurringInd":                      authtest.Object{"amountInd": "01", "frequencyInd": "02"},
	"threeDSRequestorAuthenticationInd": "08", "merchantRiskIndicator": authtest.Object{"transChar": []string{"01"}, "shipIndicator": "01"},
	"threeDSRequestorChallengeInd": []string{"12", "03"},
}

// TestR8cRequestOf231GoesToCardOf220: the AReq that leaves is one of 2.2.0, with what Bridging carries in
// the version that the range lists. What the ARes and the RReq bring comes back byte for byte.
func TestR8cRequestOf231GoesToCardOf220(t *testing.T) {
	for _, version := range []string{"1.0", "2.0"} {
		w := bridgingWorld(ranges.Extension{ID: extension.BridgingID, Version: version})
		e := w.NewEngine(0)
		var sent []byte
		w.Sent = func(areq []byte) { sent = areq }
		answer := []authtest.Object{{"name": "Bridging", "id": extension.BridgingID, "criticalityIndicator": false,
			"data": authtest.Object{"version": version, "addData": authtest.Object{"authenticationMethod": []string{"02"}, "transChallengeExemption": "05"}}}}
		var request authtest.Object
		w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
			request = areq
			return authtest.With(authtest.AResObject(areq, "C"), "messageExtension", answer).JSON(), nil
		}
		got, err := authtest.Try(t, e, bridged, of231)
		if err != nil {
			t.Fatal(err)
		}
		m, err := message.Parse(sent, message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if found := append(m.Check(message.Context{AReq: m}), extension.Check(m)...); len(found) > 0 {
			t.Errorf("the AReq: %v", found)
		}
		for path, want := range map[string]string{
			"messageVersion": `"2.2.0"`, "threeDSRequestorAuthenticationInd": `"01"`, "threeDSRequestorChallengeInd": `"03"`,
			"messageExtension[0].data": `{"version":"` + version + `","recurringData":{"recurringAmount":"999","recurringCurrency":"978","recurringExponent":"2",` +
				`"recurringDate":"20270101","recurringInd":{"amountInd":"01","frequencyInd":"02"}},"addData":{"threeDSRequestorAuthenticationInd":"08","transChar":["01"]}}`,
			"merchantRiskIndicator": `{"shipIndicator":"01"}`,
		} {
			if raw := string(m.Raw(path)); raw != want {
				t.Errorf("%s is %s, want %s", path, raw, want)
			}
		}
		if m.Has("recurringAmount") || m.Has("messageExtension[1]") {
			t.Errorf("%s", sent)
		}
		ares := authtest.Parse(t, authtest.With(authtest.AResObject(request, "C"), "messageExtension", answer).JSON())
		if !bytes.Equal(got.JSON(), ares.JSON()) {
			t.Errorf("the ARes: %s", got.JSON())
		}
		result := authtest.With(authtest.RReq(request, "Y", 1), "messageExtension", answer).JSON()
		if answer := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, result).Body); answer.Text("messageType") != "RRes" {
			t.Fatalf("%v", answer)
		}
		back, err := e.Result(t.Context(), bridged, authtest.Object{"threeDSServerTransID": request["threeDSServerTransID"]}.JSON())
		if err != nil || !bytes.Equal(back, result) {
			t.Errorf("the RReq: %v: %s", err, back)
		}
	}
}

// TestBridgingOnlyWhereItIsTaken: without the merchant's bridging, with a strict key or for a card of 2.3.1
// nothing changes. If a range lists no known version of the extension, its AReq of 2.2.0 has no extension.
func TestBridgingOnlyWhereItIsTaken(t *testing.T) {
	strict := &account.Account{Merchant: bridged.Merchant, Strict: true}
	for name, tt := range map[string]struct {
		acc    *account.Account
		listed []ranges.Extension
		want   string
	}{
		"merchant without it": {authtest.Shop, []ranges.Extension{{ID: extension.BridgingID, Version: "2.0"}}, "102 2.1.0,2.2.0"},
		"strict key":          {strict, []ranges.Extension{{ID: extension.BridgingID, Version: "2.0"}}, "102 2.1.0,2.2.0"},
		"nothing listed":      {bridged, nil, ""},
		"another listed":      {bridged, []ranges.Extension{{ID: "A000000802-001", Version: "2.0"}}, ""},
		"unknown version":     {bridged, []ranges.Extension{{ID: extension.BridgingID, Version: "9.0"}}, ""},
	} {
		w := bridgingWorld(tt.listed...)
		var sent []byte
		w.Sent = func(areq []byte) { sent = areq }
		parts := []authtest.Object{of231}
		if tt.acc == strict {
			parts = append(parts, authtest.Object{"acquirerCountryCodeSource": "01", "acceptLanguage": []string{"en"}})
		}
		_, err := authtest.Try(t, w.NewEngine(0), tt.acc, parts...)
		if tt.want != "" {
			if authtest.Told(err) != tt.want || sent != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		m, fault := message.Parse(sent, message.Limits{})
		if err != nil || fault != nil || m.Text("messageVersion") != "2.2.0" || m.Has("messageExtension") {
			t.Errorf("%s: %v: %s", name, err, sent)
		}
	}
	w := authtest.NewWorld()
	var sent []byte
	w.Sent = func(areq []byte) { sent = areq }
	if _, err := authtest.Try(t, w.NewEngine(0), bridged, of231); err != nil {
		t.Fatal(err)
	}
	if m, _ := message.Parse(sent, message.Limits{}); m.Text("messageVersion") != "2.3.1" || m.Text("recurringAmount") != "999" || m.Has("messageExtension") {
		t.Errorf("a card of 2.3.1: %s", sent)
	}
}

// TestBridgingOfRequestOf220: elements of 2.3.1 in a request of 2.2.0 are carried, too, and a fault in them is refused
// with their name. X-Normalised names what was changed.
func TestBridgingOfRequestOf220(t *testing.T) {
	w := bridgingWorld(ranges.Extension{ID: extension.BridgingID, Version: "2.0"})
	e := w.NewEngine(0)
	var sent []byte
	w.Sent = func(areq []byte) { sent = areq }
	send := func(more authtest.Object) (auth.Notes, error) {
		sent = nil
		req := authtest.AReq("2.2.0", authtest.Preauth(t, e, bridged))
		for name, v := range more {
			req[name] = v
		}
		_, notes, err := e.Authenticate(t.Context(), bridged, req.JSON())
		return notes, err
	}
	notes, err := send(authtest.Object{"recurringAmount": "999", "threeDSRequestorAuthenticationInd": "10"})
	if err != nil || !bytes.Contains(sent,
		[]byte(`"data":{"version":"2.0","recurringData":{"recurringAmount":"999"},"addData":{"threeDSRequestorAuthenticationInd":"10"}}`)) {
		t.Errorf("%v: %s", err, sent)
	}
	if !slices.Contains(notes.Normalised, "messageExtension") || !slices.Contains(notes.Normalised, "threeDSRequestorAuthenticationInd") {
		t.Errorf("%v", notes.Normalised)
	}
	if _, err := send(authtest.Object{"recurringAmount": "9.99"}); authtest.Told(err) != "203 recurringAmount" || sent != nil {
		t.Errorf("%v", err)
	}
}

// TestOtherVersionOfBridgingIsLogged: the version has to be the same in an AReq and its ARes.
func TestOtherVersionOfBridgingIsLogged(t *testing.T) {
	for version, want := range map[string]bool{"2.0": false, "1.0": true, "4000000000000002": true, "": false} {
		w := bridgingWorld(ranges.Extension{ID: extension.BridgingID, Version: "2.0"})
		e := w.NewEngine(0)
		var log bytes.Buffer
		e.Log = slog.New(slog.NewJSONHandler(&log, nil))
		w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
			answer := []authtest.Object{{"name": "Bridging", "id": extension.BridgingID, "criticalityIndicator": false,
				"data": authtest.Object{"version": version, "addData": authtest.Object{}}}}
			return authtest.With(authtest.AResObject(areq, "Y"), "messageExtension", answer).JSON(), nil
		}
		if _, err := authtest.Try(t, e, bridged, of231); err != nil {
			t.Fatal(err)
		}
		if isLogged := bytes.Contains(log.Bytes(), []byte("Bridging extension of another version")); isLogged != want ||
			bytes.Contains(log.Bytes(), []byte("4000000000000002")) {
			t.Errorf("%q: %s", version, log.Bytes())
		}
	}
}

// TestBridgingNormalisesAs231: what is corrected in a request of 2.3.1 is also corrected in what Bridging carries, and
// is named.
func TestBridgingNormalisesAs231(t *testing.T) {
	w := bridgingWorld(ranges.Extension{ID: extension.BridgingID, Version: "2.0"})
	e := w.NewEngine(0)
	var sent []byte
	w.Sent = func(areq []byte) { sent = areq }
	req := authtest.AReq231(authtest.Preauth(t, e, bridged), authtest.Object{
		"recurringAmount": "999", "recurringCurrency": "36", "purchaseCurrency": "36", "merchantCountryCode": "36",
	})
	_, notes, err := e.Authenticate(t.Context(), bridged, req.JSON())
	if err != nil ||
		!bytes.Contains(sent, []byte(`"recurringData":{"recurringAmount":"999","recurringCurrency":"036"}`)) ||
		!bytes.Contains(sent, []byte(`"purchaseCurrency":"036"`)) {
		t.Errorf("%v: %s", err, sent)
	}
	for name, want := range map[string]bool{
		"recurringCurrency": true, "purchaseCurrency": true, "merchantCountryCode": true, "acquirerCountryCode": false, "acceptLanguage": false,
	} {
		if slices.Contains(notes.Normalised, name) != want {
			t.Errorf("%s: %v", name, notes.Normalised)
		}
	}
}

package check_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// TestCriticalExtensions: a critical extension that the directory's configuration names passes in every direction; any
// other is 202 (VG-14, MC-52).
func TestCriticalExtensions(t *testing.T) {
	critical := func(id string) []authtest.Object {
		return []authtest.Object{{"name": "Extension", "id": id, "criticalityIndicator": true, "data": authtest.Object{"a": "b"}}}
	}
	for _, id := range []string{"A000000003-known", "A000000003-other"} {
		known := id == "A000000003-known"
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		e.Peers[0].CriticalExtensions = []string{"A000000003-known"}
		_, err := authtest.Try(t, e, authtest.Shop, authtest.Object{"messageExtension": critical(id)})
		if got := authtest.CodeOf(err); known != (got == "") || !known && authtest.Told(err) != "202 messageExtension" {
			t.Errorf("%s in a request: %v", id, err)
		}
		w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
			return authtest.With(authtest.AResObject(areq, "Y"), "messageExtension", critical(id)).JSON(), nil
		}
		_, err = authtest.Try(t, e, authtest.Shop)
		if got := authtest.CodeOf(err); known != (got == "") || !known && got != "202" {
			t.Errorf("%s in an ARes: %v", id, err)
		}
		sent := authtest.Challenged(t, w, e)
		got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, authtest.With(authtest.RReq(sent, "Y", 1), "messageExtension", critical(id)).JSON()).Body)
		if known != (got.Text("messageType") == "RRes") || !known && got.Text("errorCode") != "202" {
			t.Errorf("%s in an RReq: %v", id, got)
		}
	}
}

// TestD112IDOfAnExtensionGoesToTheDirectoryAlone: the id of an unknown critical extension, which may be
// any text, goes to the directory server. The requestor, the log and the record of the request get the
// name of the element.
func TestD112IDOfAnExtensionGoesToTheDirectoryAlone(t *testing.T) {
	const id = "4000 0000 0000 0002, said somebody"
	extension := []authtest.Object{{"name": "Extension", "id": id, "criticalityIndicator": true, "data": authtest.Object{"a": "b"}}}
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	var log bytes.Buffer
	e.Log = slog.New(slog.NewJSONHandler(&log, nil))

	_, err := authtest.Try(t, e, authtest.Shop, authtest.Object{"messageExtension": extension})
	if authtest.Told(err) != "202 messageExtension" {
		t.Errorf("a request: %v", err)
	}
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		return authtest.With(authtest.AResObject(areq, "Y"), "messageExtension", extension).JSON(), nil
	}
	if _, err = authtest.Try(t, e, authtest.Shop); authtest.Told(err) != "202 messageExtension" {
		t.Errorf("an ARes, to the requestor: %v", err)
	}
	if got := w.Reported(); len(got) != 1 || got[0].Detail != id {
		t.Errorf("an ARes, to the directory server: %v", got)
	}
	if bad, ok := errors.AsType[message.Error](err); !ok || !slices.Equal(check.Elements(bad), []string{"messageExtension"}) {
		t.Errorf("elements of %v: %v", err, check.Elements(bad))
	}
	sent := authtest.Challenged(t, w, e)
	got := e.Receive(t.Context(), []string{"visa"}, authtest.With(authtest.RReq(sent, "Y", 1), "messageExtension", extension).JSON())
	if detail := authtest.Parse(t, got.Body).Text("errorDetail"); detail != id {
		t.Errorf("an RReq, to the directory server: %q", detail)
	}
	if got.Refused == nil || got.Refused.Detail != "messageExtension" {
		t.Errorf("an RReq, for the log: %v", got.Refused)
	}
	if text := log.String(); strings.Contains(text, "somebody") || strings.Count(text, "messageExtension") != 2 {
		t.Errorf("the log: %s", text)
	}
}

// sendWith sends a request of 2.2.0 with further members, and returns the AReq that left, byte for byte.
func sendWith(t *testing.T, acc *account.Account, more authtest.Object) (sent []byte, notes auth.Notes, err error) {
	t.Helper()
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	w.Sent = func(areq []byte) { sent = areq }
	req := authtest.AReq("2.2.0", authtest.Preauth(t, e, acc))
	maps.Copy(req, more)
	_, notes, err = e.Authenticate(t.Context(), acc, req.JSON())
	return sent, notes, err
}

// TestR8aPlainFieldsBecomeMessageExtensions: what a requestor writes in "extensions" is sent as messageExtension to the
// directory that accepts it, and is left out for others.
func TestR8aPlainFieldsBecomeMessageExtensions(t *testing.T) {
	sent, notes, err := sendWith(t, authtest.Shop, authtest.Object{"extensions": authtest.Object{
		"TravelIndustry":         authtest.Object{"agencyIndicator": "N", "air": authtest.Object{"airlineTicketInfo": authtest.Object{"ticketCount": "02"}}},
		"visaAcquirerCountry":    authtest.Object{"acquirerCountryCode": "250"},
		"mastercardMerchantData": authtest.Object{"acquirerCountryCode": "250"},
		"bridging":               authtest.Object{"addData": authtest.Object{"transChar": []string{"01"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := message.Parse(sent, message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Has("extensions") || m.Has("messageExtension[2]") {
		t.Errorf("%s", sent)
	}
	for _, want := range []string{
		`{"criticalityIndicator":false,"data":{"agencyIndicator":"N","air":{"airlineTicketInfo":{"ticketCount":"02"}}},"id":"A000000802-002","name":"Travel Industry"}`,
		`{"criticalityIndicator":false,"data":{"acquirerCountryCode":"250"},"id":"A000000003-001","name":"Acquirer Country Code Extension"}`,
	} {
		if !bytes.Contains(sent, []byte(want)) {
			t.Errorf("no %s in %s", want, m.Raw("messageExtension"))
		}
	}
	for _, name := range []string{"extensions.travelIndustry", "extensions.mastercardMerchantData", "extensions.bridging"} {
		if !slices.Contains(notes.Normalised, name) {
			t.Errorf("%s is not noted: %v", name, notes.Normalised)
		}
	}
	for name, tt := range map[string]struct {
		extensions authtest.Object
		want       string
	}{
		"code":    {authtest.Object{"travelIndustry": authtest.Object{"agencyIndicator": "maybe"}}, "203 extensions.travelIndustry.agencyIndicator"},
		"member":  {authtest.Object{"travelIndustry": authtest.Object{"agent": "Y"}}, "203 extensions.travelIndustry.agent"},
		"word":    {authtest.Object{"travel": authtest.Object{"agencyIndicator": "Y"}}, "203 extensions.travel"},
		"missing": {authtest.Object{"visaAcquirerCountry": authtest.Object{"version": "1.0"}}, "201 extensions.visaAcquirerCountry.acquirerCountryCode"},
		"country": {authtest.Object{"visaAcquirerCountry": authtest.Object{"acquirerCountryCode": "901"}}, "304 extensions.visaAcquirerCountry.acquirerCountryCode"},
	} {
		sent, _, err := sendWith(t, authtest.Shop, authtest.Object{"extensions": tt.extensions})
		if authtest.Told(err) != tt.want || sent != nil {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// TestR8bKnownExtensionsAreChecked: an extension whose content is public is refused with the path into it
// if a value in it is wrong. What is missing is a fault for strict keys only. All other extensions are sent on byte for
// byte.
func TestR8bKnownExtensionsAreChecked(t *testing.T) {
	strict := &account.Account{Merchant: authtest.Shop.Merchant, Strict: true}
	raw := func(id, data string) authtest.Object {
		return authtest.Object{"name": "Extension", "id": id, "criticalityIndicator": false, "data": json.RawMessage(data)}
	}
	unknown := raw("A000000999-x", `{"version":7,"n":1.50,"e":{},"null":null}`)
	for _, tt := range []struct {
		id, data, want, strict string
	}{
		{"A000000802-002", `{"agencyIndicator":"Y","more":[1]}`, "", ""},
		{"A000000802-002", `{"agencyIndicator":7}`, "203 messageExtension[1].data.agencyIndicator", "203 messageExtension[1].data.agencyIndicator"},
		{"A000000802-002", `{"air":{"itineraryInfo":{"segments":[{},{"departureDate":"20261399"}]}}}`,
			"203 messageExtension[1].data.air.itineraryInfo.segments[1].departureDate", "203 messageExtension[1].data.air.itineraryInfo.segments[1].departureDate"},
		{"A000000004-merchantData", `{"A000000004-merchantData":{"merchantFraudRate":"0"}}`,
			"203 messageExtension[1].data.A000000004-merchantData.merchantFraudRate", "203 messageExtension[1].data.A000000004-merchantData.merchantFraudRate"},
		{"A000000802-004", `{"version":"2.0","addData":{"threeRIInd":"77"}}`,
			"203 messageExtension[1].data.addData.threeRIInd", "203 messageExtension[1].data.addData.threeRIInd"},
		{"A000000802-004", `{"version":"7.0","addData":{"threeRIInd":"77"}}`, "", ""},
		{"A000000802-004", `{"addData":{"transChar":["01"]}}`, "", "201 messageExtension[1].data.version"},
		{"A000000998-x", `{"agencyIndicator":7}`, "", ""},
	} {
		for acc, want := range map[*account.Account]string{authtest.Shop: tt.want, strict: tt.strict} {
			sent, _, err := sendWith(t, acc, authtest.Object{"messageExtension": []authtest.Object{unknown, raw(tt.id, tt.data)}})
			if want != "" {
				if authtest.Told(err) != want || sent != nil {
					t.Errorf("%s %s, strict %t: %v, want %s", tt.id, tt.data, acc.Strict, err, want)
				}
				if bad, _ := errors.AsType[message.Error](err); !slices.Equal(check.Elements(bad), []string{bad.Detail}) {
					t.Errorf("elements of %q: %v", bad.Detail, check.Elements(bad))
				}
				continue
			}
			if err != nil || !bytes.Contains(sent, []byte(tt.data)) || !bytes.Contains(sent, []byte(`{"version":7,"n":1.50,"e":{},"null":null}`)) {
				t.Errorf("%s %s, strict %t: %v: %s", tt.id, tt.data, acc.Strict, err, sent)
			}
		}
	}
}

// TestKnownExtensionsOfAnswersAreNoFaults: an issuer's extension with a fault in it is passed on, byte for
// byte.
func TestKnownExtensionsOfAnswersAreNoFaults(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	bad := []authtest.Object{{"name": "Bridging", "id": "A000000802-004", "criticalityIndicator": false, "data": authtest.Object{"version": "2.0", "addData": 7}}}
	var sent []byte
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		sent = authtest.With(authtest.AResObject(areq, "Y"), "messageExtension", bad).JSON()
		return sent, nil
	}
	got, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop)).JSON())
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%v: %s", err, got)
	}
}

// TestR8aLimitsHoldForWhatIsBuilt: the limits of the version for the number and the size of extensions also hold for
// built ones.
func TestR8aLimitsHoldForWhatIsBuilt(t *testing.T) {
	own := make([]authtest.Object, 10)
	for i := range own {
		own[i] = authtest.Object{"name": "x", "id": "A000000999-x", "criticalityIndicator": false, "data": authtest.Object{"n": i}}
	}
	travel := func(size int) authtest.Object {
		return authtest.Object{"travelIndustry": authtest.Object{"hotel": authtest.Object{"name": strings.Repeat("x", size)}}}
	}
	for _, tt := range []struct {
		own  []authtest.Object
		size int
		want string
	}{
		{own[:9], 1, ""},
		{own, 1, "203 messageExtension"},
		{nil, 8059 - len(`{"hotel":{"name":""}}`), ""},
		{nil, 8060 - len(`{"hotel":{"name":""}}`), "203 messageExtension.data"},
	} {
		more := authtest.Object{"extensions": travel(tt.size)}
		if tt.own != nil {
			more["messageExtension"] = tt.own
		}
		sent, _, err := sendWith(t, authtest.Shop, more)
		if tt.want == "" && err != nil || tt.want != "" && authtest.Told(err) != tt.want || (sent == nil) != (tt.want != "") {
			t.Errorf("%d of the requestor, %d characters: %v, want %q", len(tt.own), tt.size, err, tt.want)
		}
	}
}

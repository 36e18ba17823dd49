package auth_test

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
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// TestCriticalExtensions: one that the directory's configuration names passes in
// every direction, another is 202 (VG-14, MC-52).
func TestCriticalExtensions(t *testing.T) {
	critical := func(id string) []object {
		return []object{{"name": "Extension", "id": id, "criticalityIndicator": true, "data": object{"a": "b"}}}
	}
	for _, id := range []string{"A000000003-known", "A000000003-other"} {
		known := id == "A000000003-known"
		w := newWorld()
		e := w.engine(0)
		e.Peers[0].CriticalExtensions = []string{"A000000003-known"}
		_, err := try(t, e, shop, object{"messageExtension": critical(id)})
		if got := codeOf(err); known != (got == "") || !known && told(err) != "202 messageExtension" {
			t.Errorf("%s in a request: %v", id, err)
		}
		w.reply = func(_ string, areq object) ([]byte, error) {
			return with(aresObject(areq, "Y"), "messageExtension", critical(id)).json(), nil
		}
		_, err = try(t, e, shop)
		if got := codeOf(err); known != (got == "") || !known && got != "202" {
			t.Errorf("%s in an ARes: %v", id, err)
		}
		sent := challenged(t, w, e)
		got := parse(t, e.Receive(t.Context(), []string{"visa"}, with(rreq(sent, "Y", 1), "messageExtension", critical(id)).json()).Body)
		if known != (got.text("messageType") == "RRes") || !known && got.text("errorCode") != "202" {
			t.Errorf("%s in an RReq: %v", id, got)
		}
	}
}

// TestD112IDOfAnExtensionGoesToTheDirectoryAlone: the id of an unknown critical extension, which may be
// any text, goes to the directory server. The requestor, the log and the record of the request get the
// name of the element.
func TestD112IDOfAnExtensionGoesToTheDirectoryAlone(t *testing.T) {
	const id = "4000 0000 0000 0002, said somebody"
	extension := []object{{"name": "Extension", "id": id, "criticalityIndicator": true, "data": object{"a": "b"}}}
	w := newWorld()
	e := w.engine(0)
	var log bytes.Buffer
	e.Log = slog.New(slog.NewJSONHandler(&log, nil))

	_, err := try(t, e, shop, object{"messageExtension": extension})
	if told(err) != "202 messageExtension" {
		t.Errorf("a request: %v", err)
	}
	w.reply = func(_ string, areq object) ([]byte, error) {
		return with(aresObject(areq, "Y"), "messageExtension", extension).json(), nil
	}
	if _, err = try(t, e, shop); told(err) != "202 messageExtension" {
		t.Errorf("an ARes, to the requestor: %v", err)
	}
	if got := w.reported(); len(got) != 1 || got[0].Detail != id {
		t.Errorf("an ARes, to the directory server: %v", got)
	}
	if bad, ok := errors.AsType[message.Error](err); !ok || !slices.Equal(check.Elements(bad), []string{"messageExtension"}) {
		t.Errorf("elements of %v: %v", err, check.Elements(bad))
	}
	sent := challenged(t, w, e)
	got := e.Receive(t.Context(), []string{"visa"}, with(rreq(sent, "Y", 1), "messageExtension", extension).json())
	if detail := parse(t, got.Body).text("errorDetail"); detail != id {
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
func sendWith(t *testing.T, acc *account.Account, more object) (sent []byte, notes auth.Notes, err error) {
	t.Helper()
	w := newWorld()
	e := w.engine(0)
	w.sent = func(areq []byte) { sent = areq }
	req := areq("2.2.0", preauth(t, e, acc))
	maps.Copy(req, more)
	_, notes, err = e.Authenticate(t.Context(), acc, req.json())
	return sent, notes, err
}

// TestR8aPlainFieldsBecomeMessageExtensions: what a requestor writes in "extensions" is sent as
// messageExtension to the directory that takes it, and is left out for others.
func TestR8aPlainFieldsBecomeMessageExtensions(t *testing.T) {
	sent, notes, err := sendWith(t, shop, object{"extensions": object{
		"TravelIndustry":         object{"agencyIndicator": "N", "air": object{"airlineTicketInfo": object{"ticketCount": "02"}}},
		"visaAcquirerCountry":    object{"acquirerCountryCode": "250"},
		"mastercardMerchantData": object{"acquirerCountryCode": "250"},
		"bridging":               object{"addData": object{"transChar": []string{"01"}}},
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
		extensions object
		want       string
	}{
		"code":    {object{"travelIndustry": object{"agencyIndicator": "maybe"}}, "203 extensions.travelIndustry.agencyIndicator"},
		"member":  {object{"travelIndustry": object{"agent": "Y"}}, "203 extensions.travelIndustry.agent"},
		"word":    {object{"travel": object{"agencyIndicator": "Y"}}, "203 extensions.travel"},
		"missing": {object{"visaAcquirerCountry": object{"version": "1.0"}}, "201 extensions.visaAcquirerCountry.acquirerCountryCode"},
		"country": {object{"visaAcquirerCountry": object{"acquirerCountryCode": "901"}}, "304 extensions.visaAcquirerCountry.acquirerCountryCode"},
	} {
		sent, _, err := sendWith(t, shop, object{"extensions": tt.extensions})
		if told(err) != tt.want || sent != nil {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// TestR8bKnownExtensionsAreChecked: an extension whose content is public is refused with the path into it
// if a value in it is wrong. What is missing is a fault for strict keys only. All others leave byte for
// byte.
func TestR8bKnownExtensionsAreChecked(t *testing.T) {
	strict := &account.Account{Merchant: shop.Merchant, Strict: true}
	raw := func(id, data string) object {
		return object{"name": "Extension", "id": id, "criticalityIndicator": false, "data": json.RawMessage(data)}
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
		{"A000000802-004", `{"version":"2.0","addData":{"threeRIInd":"77"}}`, "203 messageExtension[1].data.addData.threeRIInd", "203 messageExtension[1].data.addData.threeRIInd"},
		{"A000000802-004", `{"version":"7.0","addData":{"threeRIInd":"77"}}`, "", ""},
		{"A000000802-004", `{"addData":{"transChar":["01"]}}`, "", "201 messageExtension[1].data.version"},
		{"A000000998-x", `{"agencyIndicator":7}`, "", ""},
	} {
		for acc, want := range map[*account.Account]string{shop: tt.want, strict: tt.strict} {
			sent, _, err := sendWith(t, acc, object{"messageExtension": []object{unknown, raw(tt.id, tt.data)}})
			if want != "" {
				if told(err) != want || sent != nil {
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
	w := newWorld()
	e := w.engine(0)
	bad := []object{{"name": "Bridging", "id": "A000000802-004", "criticalityIndicator": false, "data": object{"version": "2.0", "addData": 7}}}
	var sent []byte
	w.reply = func(_ string, areq object) ([]byte, error) {
		sent = with(aresObject(areq, "Y"), "messageExtension", bad).json()
		return sent, nil
	}
	got, _, err := e.Authenticate(t.Context(), shop, areq("2.2.0", preauth(t, e, shop)).json())
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%v: %s", err, got)
	}
}

// TestR8aLimitsHoldForWhatIsBuilt: the number and the size of extensions are those of the version, with what
// was built.
func TestR8aLimitsHoldForWhatIsBuilt(t *testing.T) {
	own := make([]object, 10)
	for i := range own {
		own[i] = object{"name": "x", "id": "A000000999-x", "criticalityIndicator": false, "data": object{"n": i}}
	}
	travel := func(size int) object {
		return object{"travelIndustry": object{"hotel": object{"name": strings.Repeat("x", size)}}}
	}
	for _, tt := range []struct {
		own  []object
		size int
		want string
	}{
		{own[:9], 1, ""},
		{own, 1, "203 messageExtension"},
		{nil, 8059 - len(`{"hotel":{"name":""}}`), ""},
		{nil, 8060 - len(`{"hotel":{"name":""}}`), "203 messageExtension.data"},
	} {
		more := object{"extensions": travel(tt.size)}
		if tt.own != nil {
			more["messageExtension"] = tt.own
		}
		sent, _, err := sendWith(t, shop, more)
		if tt.want == "" && err != nil || tt.want != "" && told(err) != tt.want || (sent == nil) != (tt.want != "") {
			t.Errorf("%d of the requestor, %d characters: %v, want %q", len(tt.own), tt.size, err, tt.want)
		}
	}
}

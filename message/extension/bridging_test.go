package extension_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// listed is a target of 2.2.0 whose range lists a version of Bridging.
func listed(version string) extension.Target {
	return extension.Target{Version: message.V220, Channel: message.BRW, Listed: []extension.Supported{{ID: extension.BridgingID, Version: version}}}
}

// bridge reads members of a request, bridges it and returns the AReq, what was changed and what was
// refused.
func bridge(t *testing.T, members string, to extension.Target) (*message.Message, []message.Change, message.Problems) {
	t.Helper()
	r, err := message.ReadRequest(
		[]byte(`{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01",`+members+`}`), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	changes, found := extension.Bridge(r, to)
	m, _ := r.Build(message.Context{})
	return m, changes, found
}

// TestBridgingCarriesEachElement: each element that Bridging has a row for in an AReq goes into the
// extension with an equal value, by itself and with all others, in each version of the extension. A
// cardSecurityCode never does.
func TestBridgingCarriesEachElement(t *testing.T) {
	elements := map[string]struct{ request, value string }{
		"recurringData.recurringAmount":             {`"recurringAmount":"999"`, `"999"`},
		"recurringData.recurringCurrency":           {`"recurringAmount":"999","recurringCurrency":"978"`, `"978"`},
		"recurringData.recurringExponent":           {`"recurringAmount":"999","recurringExponent":"2"`, `"2"`},
		"recurringData.recurringDate":               {`"recurringDate":"20270101"`, `"20270101"`},
		"recurringData.recurringInd":                {`"recurringInd":{"amountInd":"01","frequencyInd":"02"}`, `{"amountInd":"01","frequencyInd":"02"}`},
		"addData.threeDSRequestorAuthenticationInd": {`"threeDSRequestorAuthenticationInd":"08"`, `"08"`},
		"addData.threeRIInd":                        {`"threeRIInd":"15"`, `"15"`},
		"addData.transChar":                         {`"merchantRiskIndicator":{"transChar":["02","01"]}`, `["02","01"]`},
	}
	rows := map[string]bool{}
	for _, part := range []string{"recurringData", "addData"} {
		for _, f := range extension.ByID(extension.BridgingID).Table(message.AReq).Field(part).Of.Fields {
			rows[part+"."+f.Name] = true
		}
	}
	delete(rows, "addData.cardSecurityCode")
	all := []string{`"recurringAmount":"999"`}
	for path, x := range elements {
		if !rows[path] {
			t.Errorf("%s has no row", path)
		}
		delete(rows, path)
		if rest := strings.TrimPrefix(strings.TrimPrefix(x.request, all[0]), ","); rest != "" {
			all = append(all, rest)
		}
	}
	if len(rows) > 0 {
		t.Errorf("rows without a test: %v", rows)
	}
	for _, version := range []string{"1.0", "2.0"} {
		for path, x := range elements {
			for _, members := range []string{x.request, strings.Join(all, ",") + `,"cardSecurityCode":"123"`} {
				m, changes, found := bridge(t, members, listed(version))
				data := "messageExtension[0].data."
				if len(found) > 0 || string(m.Raw(data+path)) != x.value || m.Text(data+"version") != version || m.Has(data+"addData.cardSecurityCode") {
					t.Errorf("%s, %s: %v: %s", path, version, found, m.Raw("messageExtension"))
				}
				if faults := extension.Check(m); len(faults) > 0 {
					t.Errorf("%s: %v", path, faults)
				}
				if !slices.ContainsFunc(changes, func(c message.Change) bool { return c.Path == "messageExtension" }) {
					t.Errorf("%s: %v", path, changes)
				}
			}
		}
	}
}

// TestBridgingCarriesSplitShipment: 06 has another meaning in 2.2.0.
func TestBridgingCarriesSplitShipment(t *testing.T) {
	for code, want := range map[string]string{"06": "06", "01": "", "11": "", "85": "", "77": ""} {
		m, _, _ := bridge(t, `"threeRIInd":"`+code+`"`, listed("2.0"))
		if got := m.Text("messageExtension[0].data.addData.threeRIInd"); got != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
}

// TestBridgingIsNotSentUnlessListed: a range that lists nothing, another extension or an unknown version
// gets no extension, and another version of the protocol neither (MC-53).
func TestBridgingIsNotSentUnlessListed(t *testing.T) {
	const members = `"recurringAmount":"999","threeRIInd":"15","merchantRiskIndicator":{"transChar":["01"]}`
	other := extension.Target{Version: message.V220, Listed: []extension.Supported{{ID: "A000000802-001", Version: "2.0"}}}
	newer := listed("2.0")
	newer.Version = message.V231
	older := listed("2.0")
	older.Version = message.V210
	for name, to := range map[string]extension.Target{"nothing": {Version: message.V220}, "another": other, "3.0": listed("3.0"), "2.3.1": newer, "2.1.0": older} {
		m, changes, found := bridge(t, members, to)
		if len(found) > 0 || m.Has("messageExtension") || slices.ContainsFunc(changes, func(c message.Change) bool { return c.Path == "messageExtension" }) {
			t.Errorf("%s: %v %v %s", name, changes, found, m.Raw("messageExtension"))
		}
	}
	m, changes, _ := bridge(t,
		`"recurringCurrency":"978","recurringExponent":"2","threeDSRequestorAuthenticationInd":"02","merchantRiskIndicator":{"shipIndicator":"01"}`, listed("2.0"))
	if m.Has("messageExtension") || len(changes) > 0 {
		t.Errorf("nothing to carry: %v %s", changes, m.Raw("messageExtension"))
	}
}

// TestBridgingLeavesRoom: the requestor's own extensions win.
func TestBridgingLeavesRoom(t *testing.T) {
	own := func(n int, id string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf(`{"criticalityIndicator":false,"data":{"n":%d},"id":%q,"name":"x"}`, i, id)
		}
		return `"recurringAmount":"999","messageExtension":[` + strings.Join(items, ",") + `]`
	}
	for n, want := range map[int]int{9: 10, 10: 10} {
		m, _, _ := bridge(t, own(n, "A000000999-x"), listed("2.0"))
		var items []json.RawMessage
		if err := json.Unmarshal(m.Raw("messageExtension"), &items); err != nil || len(items) != want {
			t.Errorf("%d of the requestor: %d, %v", n, len(items), err)
		}
	}
	large := `"recurringAmount":"999","messageExtension":[` + strings.Repeat(`{"criticalityIndicator":false,"data":{"a":"`+
		strings.Repeat("x", 8000)+`"},"id":"A000000999-x","name":"x"},`, 8) + `{"criticalityIndicator":false,"data":{"a":"`
	for pad, want := range map[int]bool{100: true, 17_400: false} {
		m, _, _ := bridge(t, large+strings.Repeat("x", pad)+`"},"id":"A000000999-x","name":"x"}]`, listed("2.0"))
		if got := m.Text("messageExtension[9].id") == extension.BridgingID; got != want {
			t.Errorf("%d characters of the requestor: %t", len(m.Raw("messageExtension")), got)
		}
	}
	if m, _, _ := bridge(t, own(1, extension.BridgingID), listed("2.0")); m.Has("messageExtension[1]") || string(m.Raw("messageExtension[0].data")) != `{"n":0}` {
		t.Errorf("%s", m.Raw("messageExtension"))
	}
}

// TestBridgingRefusesWithPathOfElement: the path is that of the element in the request of 2.3.1.
func TestBridgingRefusesWithPathOfElement(t *testing.T) {
	for members, want := range map[string]string{
		`"recurringAmount":"9.99"`:                           "203 recurringAmount",
		`"recurringAmount":"999","recurringCurrency":"963"`:  "304 recurringCurrency",
		`"recurringDate":"20271301"`:                         "203 recurringDate",
		`"recurringInd":{"amountInd":"07"}`:                  "203 recurringInd.amountInd",
		`"merchantRiskIndicator":{"transChar":["01","09"]}`:  "203 merchantRiskIndicator.transChar",
		`"merchantRiskIndicator":{"transChar":[{"a":"01"}]}`: "203 merchantRiskIndicator.transChar",
	} {
		m, _, found := bridge(t, members, listed("2.0"))
		if len(found) == 0 || found[0].String() != want || m.Has("messageExtension") {
			t.Errorf("%s: %v, want %s", members, found, want)
		}
	}
}

// TestBridgingLowersForms: elements whose form or codes are those of 2.3.1 get what 2.2.0 has.
func TestBridgingLowersForms(t *testing.T) {
	for members, want := range map[string]string{
		`"threeDSRequestorAuthenticationInd":"08"`:                                               `threeDSRequestorAuthenticationInd "01"`,
		`"threeDSRequestorAuthenticationInd":"02"`:                                               `threeDSRequestorAuthenticationInd "02"`,
		`"threeDSRequestorChallengeInd":["12","04"]`:                                             `threeDSRequestorChallengeInd "04"`,
		`"threeDSRequestorChallengeInd":["12"]`:                                                  `threeDSRequestorChallengeInd `,
		`"threeDSRequestorChallengeInd":"03"`:                                                    `threeDSRequestorChallengeInd "03"`,
		`"threeDSRequestorDecReqInd":"B"`:                                                        `threeDSRequestorDecReqInd "Y"`,
		`"threeDSRequestorDecReqInd":"F"`:                                                        `threeDSRequestorDecReqInd "N"`,
		`"trustListStatus":"Y"`:                                                                  `whiteListStatus "Y"`,
		`"threeDSRequestorAuthenticationInfo":[{"threeDSReqAuthMethod":"02"}]`:                   `threeDSRequestorAuthenticationInfo {"threeDSReqAuthMethod":"02"}`,
		`"threeDSRequestorPriorAuthenticationInfo":[{"threeDSReqPriorAuthMethod":"02"},{"a":1}]`: `threeDSRequestorPriorAuthenticationInfo {"threeDSReqPriorAuthMethod":"02"}`,
	} {
		name, value, _ := strings.Cut(want, " ")
		m, changes, found := bridge(t, members, extension.Target{Version: message.V220})
		isSame := members == `"`+name+`":`+value
		if len(found) > 0 || string(m.Raw(name)) != value || (len(changes) > 0) == isSame {
			t.Errorf("%s: %v %v, %s, want %s", members, changes, found, m.Raw(name), want)
		}
	}
	r, err := message.ReadRequest([]byte(
		`{"messageVersion":"2.2.0","deviceChannel":"01","messageCategory":"01","deviceRenderOptions":{"sdkInterface":"03","sdkUiType":["01","06","07"]}}`),
		message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	extension.Bridge(r, extension.Target{Version: message.V220})
	if m, _ := r.Build(message.Context{}); string(m.Raw("deviceRenderOptions")) != `{"sdkInterface":"03","sdkUiType":["01"]}` {
		t.Errorf("%s", m.Raw("deviceRenderOptions"))
	}
}

package extension_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// FuzzBuildAndBridge holds whatever a requestor sends: nothing panics, what is added is valid, and the data of
// its own extensions stays.
func FuzzBuildAndBridge(f *testing.F) {
	for _, e := range extension.All() {
		if data, ok := samples[e.Word][message.AReq]; ok {
			f.Add([]byte(fmt.Sprintf(`{"messageVersion":"2.2.0","extensions":{%q:%s}}`, e.Word, data)))
		}
	}
	f.Add([]byte(
		`{"messageVersion":"2.2.0","RecurringInd":{"AMOUNTIND":"01"},"merchantRiskIndicator":{"transchar":"01"},"deviceRenderOptions":{"sdkUiType":["06","01"]}}`))
	f.Add([]byte(`{"messageVersion":"2.2.0","threeDSRequestorChallengeInd":["\\u0031\u0034",{}],"messageExtension":{"id":"x"},"recurringAmount":"9"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := message.ReadRequest(body, message.Limits{})
		if err != nil {
			return
		}
		to := listed("2.0")
		to.IDs = map[string]string{"visaDAF": "A000000003-ours"}
		for _, to.Scheme = range []string{"visa", "mastercard", "cb"} {
			_, refused := extension.Bridge(r, to)
			_, found := extension.Build(r, to)
			m, problems := r.Build(message.Context{})
			if m == nil {
				return
			}
			if !json.Valid(m.Bytes()) {
				t.Fatalf("not JSON: %s", m.Bytes())
			}
			extension.Describe(m)
			if len(refused)+len(found)+len(problems) == 0 && r.Extensions() == 0 {
				if faults := extension.Check(m); len(faults) > 0 {
					t.Fatalf("what was built has %v: %s", faults, m.Bytes())
				}
			}
		}
	})
}

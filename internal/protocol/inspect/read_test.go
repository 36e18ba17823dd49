package inspect_test

import (
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/inspect"
)

// TestMessageInALogLineIsFound: behind other JSON of the line, too, and a body of /auth is judged as
// such wherever it stands.
func TestMessageInALogLineIsFound(t *testing.T) {
	const body = `{"messageType":"AReq","messageVersion":"2.2.0","acctNumber":"4000000000000002"}`
	const areq = `{"messageType":"AReq","messageVersion":"2.2.0","threeDSServerURL":"https://a.example","threeDSServerRefNumber":"x"}`
	for _, test := range []struct{ name, line, kind, data string }{
		{"a body", "2026-11-25T10:00:00Z INFO sent " + body, "auth-body", body},
		{"an AReq", "2026-11-25T10:00:00Z INFO sent " + areq, "log-line", areq},
		{"behind other JSON", `INFO sent {"x":1} ` + areq + ` {"y":2}`, "log-line", areq},
		{"behind headers that are no JSON", `INFO sent {Accept: */*} ` + areq, "log-line", areq},
		{"in a line of JSON", `{"msg":"sent","body":` + body + `}`, "auth-body", body},
	} {
		in, ok := inspect.Read([]byte(test.line))
		if !ok || in.Kind != test.kind || string(in.Data) != test.data {
			t.Errorf("%s: %v, kind %s, %s", test.name, ok, in.Kind, in.Data)
		}
	}
	if in, ok := inspect.Read([]byte(`INFO nothing {"x":1} {"y":2}`)); ok {
		t.Errorf("a line without a message: %+v", in)
	}
}

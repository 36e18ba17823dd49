package auth_test

import (
	"errors"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// TestErroForTheAReq: whatever ids and version a directory's Erro names in answer
// to an AReq, the requestor hears of his own transaction, in his own version.
func TestErroForTheAReq(t *testing.T) {
	const foreign = "11111111-1111-4111-8111-111111111111"
	for _, tt := range []object{
		{}, {"threeDSServerTransID": foreign}, {"threeDSServerTransID": "4000001234567890"}, {"threeDSServerTransID": nil},
		{"messageVersion": "2.1.0"}, {"messageVersion": "9.9.9"}, {"messageVersion": nil},
	} {
		w := newWorld()
		e := w.engine(0)
		id := preauth(t, e, shop)
		w.reply = func(_ string, areq object) ([]byte, error) {
			erro := object{"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "403", "errorComponent": "A",
				"errorDescription": "words", "errorDetail": "more", "threeDSServerTransID": id}
			for name, v := range tt {
				erro[name] = v
			}
			return erro.json(), nil
		}
		_, err := e.Authenticate(t.Context(), shop, areq("2.2.0", id).json())
		bad, ok := errors.AsType[message.Error](err)
		if !ok || bad.Code != 403 || bad.Component != "A" || bad.Description != "words" || bad.Detail != "more" {
			t.Fatalf("%v: %#v", tt, err)
		}
		if bad.ServerTransID != id || bad.Version != message.V220 {
			t.Errorf("%v: relayed of %q in %s, want %q in 2.2.0", tt, bad.ServerTransID, bad.Version, id)
		}
	}
}

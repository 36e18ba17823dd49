package auth_test

import "testing"

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
		if got := codeOf(err); known != (got == "") || !known && told(err) != "202 "+id {
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

package auth_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/auth"
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
	if bad, ok := errors.AsType[message.Error](err); !ok || !slices.Equal(auth.Elements(bad), []string{"messageExtension"}) {
		t.Errorf("elements of %v: %v", err, auth.Elements(bad))
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

package auth_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

// TestLargestARes: an ARes of 2.3.1 whose large elements are all as large as possible is valid, and reaches the
// requestor byte for byte.
func TestLargestARes(t *testing.T) {
	image := authtest.Object{"default": "", "dark": strings.Repeat("d", 30000), "monochrome": strings.Repeat("m", 30000)}
	image["default"] = strings.Repeat("i", 90000-len(image.JSON()))
	w := authtest.SPCWorld()
	var sent []byte
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		o := authtest.Parse(t, authtest.AResS(areq))
		data := o["spcTransData"].(map[string]any)
		data["additionalData"] = authtest.Object{"x": strings.Repeat("a", 90000-len(`{"x":""}`))}
		data["issuerImageSpc"], data["psImageSpc"] = image, image
		data["icon"], data["challengeInfoText"] = strings.Repeat("i", 4096), strings.Repeat("c", 350)
		var credentials, extensions []authtest.Object
		for i := range 10 {
			credentials = append(credentials, authtest.Object{"rpID": fmt.Sprintf("%02048d", i), "credentialIds": fmt.Sprintf("%01000d", i)})
		}
		for i := range 10 {
			extensions = append(extensions, authtest.Object{
				"name": strings.Repeat("n", 64), "id": fmt.Sprintf("A%063d", i), "criticalityIndicator": false,
				"data": authtest.Object{"x": strings.Repeat("e", 8059-len(`{"x":""}`))},
			})
		}
		whole := authtest.Object{"messageExtension": extensions}.JSON()
		over := len(whole) - len(`{"messageExtension":}`) - 81920
		extensions[9]["data"] = authtest.Object{"x": strings.Repeat("e", 8059-len(`{"x":""}`)-over)}
		o["webAuthnCredList"], o["messageExtension"] = credentials, extensions
		sent = o.JSON()
		return sent, nil
	}
	e := w.NewEngine(0)
	got, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq231(authtest.Preauth(t, e, authtest.Shop), authtest.Offered).JSON())
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d of %d bytes, %s", len(got), len(sent), authtest.Told(err))
	}
	longest, _ := messagetest.Longest(message.ARes, message.V231, 1, 0)
	if len(sent) < longest*95/100 || len(sent) > longest {
		t.Errorf("%d bytes, and the tables have %d", len(sent), longest)
	}
}

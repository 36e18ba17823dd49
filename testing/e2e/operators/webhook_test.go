package operators

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// setField NAME PREFIX sets a variable to the first word that standard output has with a prefix.
func setField(ts *testscript.TestScript, _ bool, args []string) {
	for word := range strings.FieldsSeq(ts.ReadFile("stdout")) {
		if strings.HasPrefix(word, args[1]) {
			ts.Setenv(args[0], word)
			return
		}
	}
	ts.Fatalf("no word of stdout begins with %q", args[1])
}

// signDelivery ID SECRET-FILE BODY-FILE signs a delivery of now, by the published library: it sets the variables
// timestamp and signature. The newline at the end of the body's file is taken off.
func signDelivery(ts *testscript.TestScript, _ bool, args []string) {
	signer, err := standardwebhooks.NewWebhook(strings.TrimSpace(ts.ReadFile(args[1])))
	ts.Check(err)
	body, now := strings.TrimSpace(ts.ReadFile(args[2])), time.Now()
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(body), 0o600))
	signature, err := signer.Sign(args[0], now, []byte(body))
	ts.Check(err)
	ts.Setenv("timestamp", strconv.FormatInt(now.Unix(), 10))
	ts.Setenv("signature", signature)
}

package rig

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"
)

// TestScan is the control of all that searches with scan: every disguise is
// found amid other bytes, and nothing else is.
func TestScan(t *testing.T) {
	const secret = "4000001234560103"
	for _, planted := range []string{
		secret, "4000 0012 3456 0103", "4000-0012-3456-0103", hex.EncodeToString([]byte(secret)),
		strings.ToUpper(hex.EncodeToString([]byte(secret))), `\u0034\u0030\u0030\u0030\u0030\u0030\u0031\u0032\u0033\u0034\u0035\u0036\u0030\u0031\u0030\u0033`,
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("x" + secret + "y")),
		base64.RawURLEncoding.EncodeToString([]byte("xy" + secret + "?~")), "%34%30%30%30%30%30%31%32%33%34%35%36%30%31%30%33",
		"4 0 0 0 0 0 1 2 3 4 5 6 0 1 0 3", "4-000.0012\u00a03456-0103", "4%30000012345601%303", `40\u003000012345601\u00303`, "4&#48;00001234560103",
		packed(t, `{"acctNumber":"`+secret+`"}`), base64.StdEncoding.EncodeToString([]byte(packed(t, secret))),
		base64.RawURLEncoding.EncodeToString([]byte(`{"acctNumber":"4\u003000001234560103"}`)), hex.EncodeToString([]byte("4%3000001234560103")),
		url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("?>~" + secret + "?>~"))),
	} {
		if FindSecret([]byte("before "+planted+" after"), secret) == "" {
			t.Errorf("not found: %s", planted)
		}
	}
	if in := FindSecret([]byte("Ann <ann@example.com>"), "ann+canary@example.com"); in != "" {
		t.Errorf("found where it is not: %s", in)
	}
	for _, planted := range []string{"ann%2Bcanary%40example.com", "ANN+CANARY@EXAMPLE.COM"} {
		if FindSecret([]byte("before "+planted), "ann+canary@example.com") == "" {
			t.Errorf("not found: %s", planted)
		}
	}
}

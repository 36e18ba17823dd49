package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// scan looks for a secret in all the forms in which it might have been written
// down, and names the first one found.
func scan(data []byte, secret string) string {
	lower := bytes.ToLower(data)
	for name, form := range disguises(secret) {
		in := data
		if strings.HasPrefix(name, "any case") {
			in, form = lower, strings.ToLower(form)
		}
		if bytes.Contains(in, []byte(form)) {
			return name
		}
	}
	return ""
}

// disguises are the forms of a secret.
func disguises(secret string) map[string]string {
	all := map[string]string{
		"any case: raw": secret, "any case: hexadecimal": hex.EncodeToString([]byte(secret)),
		"any case: URL-encoded": url.QueryEscape(secret), "any case: path-escaped": url.PathEscape(secret),
		"any case: without dashes": strings.ReplaceAll(secret, "-", ""),
	}
	var percent, escaped, half strings.Builder
	for i, c := range []byte(secret) {
		fmt.Fprintf(&percent, "%%%02x", c)
		fmt.Fprintf(&escaped, `\u%04x`, c)
		if i%4 == 3 && i < len(secret)-1 {
			half.WriteByte(c)
			half.WriteByte(' ')
		} else {
			half.WriteByte(c)
		}
	}
	all["any case: every byte URL-encoded"], all["any case: every character escaped"] = percent.String(), escaped.String()
	all["in groups"], all["in dashed groups"] = half.String(), strings.ReplaceAll(half.String(), " ", "-")
	quoted, _ := json.Marshal(secret)
	all["any case: as JSON"] = string(quoted[1 : len(quoted)-1])
	for shift := range 3 {
		// What stays the same of the base64 of the secret amid other bytes.
		padded := append(bytes.Repeat([]byte{0}, shift), secret...)
		text := base64.StdEncoding.EncodeToString(padded)
		from, to := (shift*8+5)/6, len(padded)*8/6
		all[fmt.Sprint("base64, ", shift)] = text[from:to]
		all[fmt.Sprint("base64url, ", shift)] = base64.URLEncoding.EncodeToString(padded)[from:to]
	}
	return all
}

// TestScan is the control of all that searches with scan: every disguise is
// found amid other bytes, and nothing else is.
func TestScan(t *testing.T) {
	const secret = "4000001234560103"
	for _, planted := range []string{
		secret, "4000 0012 3456 0103", "4000-0012-3456-0103", hex.EncodeToString([]byte(secret)),
		strings.ToUpper(hex.EncodeToString([]byte(secret))), `\u0034\u0030\u0030\u0030\u0030\u0030\u0031\u0032\u0033\u0034\u0035\u0036\u0030\u0031\u0030\u0033`,
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("x" + secret + "y")),
		base64.RawURLEncoding.EncodeToString([]byte("xy" + secret + "?~")), "%34%30%30%30%30%30%31%32%33%34%35%36%30%31%30%33",
	} {
		if scan([]byte("before "+planted+" after"), secret) == "" {
			t.Errorf("not found: %s", planted)
		}
	}
	if in := scan([]byte("Ann <ann@example.com>"), "ann+canary@example.com"); in != "" {
		t.Errorf("found where it is not: %s", in)
	}
	for _, planted := range []string{"ann%2Bcanary%40example.com", "ANN+CANARY@EXAMPLE.COM"} {
		if scan([]byte("before "+planted), "ann+canary@example.com") == "" {
			t.Errorf("not found: %s", planted)
		}
	}
}

func parseObject(t *testing.T, data []byte) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("answer is not JSON: %v: %.200q", err, data)
	}
	return o
}

package v1_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/v1"
)

func TestXID(t *testing.T) {
	for order, want := range map[string]string{
		"1234567890":           "00000000001234567890", // as in the documentation of the compatible service
		"":                     "00000000000000000000",
		"abcdefghijklmnopqrs":  "0abcdefghijklmnopqrs", // 19
		"abcdefghijklmnopqrst": "abcdefghijklmnopqrst", // 20
		"ordre 7 på Æ":         "000000ordre 7 på Æ",
		"æøåæøåæøåæ":           "æøåæøåæøåæ", // 20 bytes
		// 21 bytes: the beginning of printf %s … | sha256sum
		"æøåæøåæøåæ1": "\x9f\xda\xa9\x7a\x8e\xbd\x30\xd6\x2c\xf9\x97\x8f\xbc\x6b\x54\xf4\x7b\x7b\x93\x42",
	} {
		xid := v1.XID(order)
		raw, err := base64.StdEncoding.Strict().DecodeString(xid)
		if len(xid) != 28 || len(raw) != 20 || err != nil {
			t.Fatalf("XID(%q) = %q: %v", order, xid, err)
		}
		if !strings.HasPrefix(string(raw), want) {
			t.Errorf("XID(%q) is of %q, want %q", order, raw, want)
		}
	}
	if got, want := v1.XID("1234567890"), "MDAwMDAwMDAwMDEyMzQ1Njc4OTA="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if v1.XID("æøåæøåæøåæ1") == v1.XID("æøåæøåæøåæ2") {
		t.Error("long ids have one xid")
	}
}

func TestNewMessageID(t *testing.T) {
	form, digits, seen := regexp.MustCompile(`^[0-9a-f]{30}$`), regexp.MustCompile(`[0-9]{13}`), map[string]bool{}
	for range 1000 {
		id := v1.NewMessageID(rand.Reader)
		if !form.MatchString(id) || seen[id] || digits.MatchString(id) {
			t.Fatalf("id %q, seen before: %v; want no 13 digits in a row, which the log would hide", id, seen[id])
		}
		seen[id] = true
	}
	if got := v1.NewMessageID(strings.NewReader("fifteen bytes!!" + strings.Repeat("\xab", 15))); got != strings.Repeat("ab", 15) {
		t.Error(got)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic without randomness")
		}
	}()
	v1.NewMessageID(iotest.ErrReader(errors.New("dry")))
}

func TestDisplayAmount(t *testing.T) {
	for _, tt := range []struct{ amount, currency, want string }{
		{"21601", "DKK", "216.01 DKK"}, {"100", "EUR", "1.00 EUR"}, {"99", "EUR", "0.99 EUR"}, {"9", "EUR", "0.09 EUR"},
		{"0", "EUR", "0.00 EUR"}, {"000000021601", "DKK", "216.01 DKK"}, {"100", "ISK", "100 ISK"}, {"0", "JPY", "0 JPY"},
		{"1234", "KWD", "1.234 KWD"}, {"1", "KWD", "0.001 KWD"}, {"12345", "CLF", "1.2345 CLF"},
		{"999999999999", "EUR", "9999999999.99 EUR"}, {"999999999999", "JPY", "999999999999 JPY"},
		{"999999999999", "CLF", "99999999.9999 CLF"}, {"99999999999", "EUR", "999999999.99 EUR"},
		{"", "EUR", ""}, {"9999999999999", "EUR", ""}, {"-1", "EUR", ""}, {"1.0", "EUR", ""}, {"1", "eur", ""}, {"1", "XAU", ""},
	} {
		got, ok := v1.DisplayAmount(tt.amount, tt.currency)
		if got != tt.want || ok != (tt.want != "") || len(got) > 20 {
			t.Errorf("DisplayAmount(%q, %q) = %q, %v; want %q", tt.amount, tt.currency, got, ok, tt.want)
		}
	}
}

func TestFormatTime(t *testing.T) {
	if got := v1.FormatTime(time.Date(2026, 12, 31, 23, 59, 59, 999e6, time.FixedZone("", -3600))); got != "20270101 00:59:59" {
		t.Error(got)
	}
	if got := v1.Expiry("08", "2031"); got != "3108" {
		t.Error(got)
	}
}

// TestECI shows the table of indicators of docs/api.md, M3 and M7.
func TestECI(t *testing.T) {
	for _, tt := range []struct {
		scheme                            string
		success, attempt, unable, failure string
	}{
		{"visa", "5", "6", "7", "7"}, {"amex", "5", "6", "7", "7"}, {"jcb", "5", "6", "7", "7"},
		{"protectbuy", "5", "6", "7", "7"}, {"mastercard", "2", "1", "1", "0"},
	} {
		got := [4]string{v1.ECI(tt.scheme, v1.Success), v1.ECI(tt.scheme, v1.Attempt), v1.ECI(tt.scheme, v1.Unavailable), v1.ECI(tt.scheme, v1.Failure)}
		if want := [4]string{tt.success, tt.attempt, tt.unable, tt.failure}; got != want {
			t.Errorf("%s: %v, want %v", tt.scheme, got, want)
		}
	}
}

package cardnumber_test

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
)

// spellings are how a card number may be written.
func spellings(number string) []string {
	grouped := func(separator string) string {
		return strings.Join([]string{number[:4], number[4:8], number[8:12], number[12:]}, separator)
	}
	all := []string{number, number[:4] + " " + number[4:10] + " " + number[10:], strings.Join(strings.Split(number, ""), " ")}
	for _, separator := range []string{" ", "-", ".", "/", "_", "  ", " -", "\u00a0"} {
		all = append(all, grouped(separator))
	}
	return append(all, base64.StdEncoding.EncodeToString([]byte(number)), base64.RawURLEncoding.EncodeToString([]byte(grouped("-"))),
		hex.EncodeToString([]byte(number)), hex.EncodeToString([]byte(grouped(" "))))
}

// TestA4EverySpellingOfACardNumberIsHidden: alone, in a text and in an address.
func TestA4EverySpellingOfACardNumberIsHidden(t *testing.T) {
	for _, number := range []string{"4111111111111111", "5555555555554444", "2223000000000007", "378200000000000",
		"6304000000000000", "6212000000000001", "4222222222222", "6799990100000000019"} {
		for _, spelling := range spellings(number) {
			if len(number) < 16 && strings.Contains(spelling, number[:4]) && spelling != number { // groups of others are alike
				continue
			}
			for _, text := range []string{"X", "card X refused", "https://shop.example/X?a=1", `{"name":"X"}`, "Shop(X)", "X 12/28", "1 X"} {
				text = strings.ReplaceAll(text, "X", spelling)
				if got := cardnumber.Scrub(text); strings.Contains(got, spelling) || !strings.Contains(got, "***") || !cardnumber.IsIn(text) {
					t.Errorf("Scrub(%q) = %q", text, got)
				}
				if got := cardnumber.Mask(text); strings.Contains(got, spelling) || !strings.Contains(got, "***") {
					t.Errorf("Mask(%q) = %q", text, got)
				}
			}
		}
	}
}

// TestA4WhatIsNoCardNumberStays: ids, digests, times, order numbers and merchant ids that no scheme could have.
func TestA4WhatIsNoCardNumberStays(t *testing.T) {
	for _, text := range []string{
		"", "order-17", "4111111111111112", "000000012345678", "1700000000000", "20261111000356", "2026-11-28T12:30:45.123456Z", "2026-11-28",
		"8a880dc0-d2d2-4067-bcb1-b08d1690b26e", "41111111-1111-1111-8111-111111111111", "192.168.100.128/25", "10.0.0.0/8",
		"a4111111111111111bcdef0123456789a4111111111111111bcdef0123456789", "deadbeef4111111111111111abcdef00",
		"411111111111", "41111111111111111111", "token:ci", "MerchantOfNothingAtAll",
	} {
		if got := cardnumber.Scrub(text); got != text {
			t.Errorf("Scrub(%q) = %q, want it as it is", text, got)
		}
	}
}

// TestMayBeTakesWhatSomebodyTypes: with what people put between digits, also with a wrong check digit.
func TestMayBeTakesWhatSomebodyTypes(t *testing.T) {
	for text, want := range map[string]bool{
		"4000000000000103": true, "4000 0000-0000.0103": true, "4000/0000_0000 0103": true, "400000000010": true,
		"40000000001": false, "40000000000001030000": false, "order 4000000000000103": false, "": false,
	} {
		if got := cardnumber.MayBe(text); got != want {
			t.Errorf("MayBe(%q) = %v", text, got)
		}
	}
}

// FuzzScrub: what is left has no card number, and Mask hides whatever Scrub does.
func FuzzScrub(f *testing.F) {
	for _, text := range spellings("4111111111111111") {
		f.Add("a " + text + " b")
	}
	f.Fuzz(func(t *testing.T, text string) {
		if masked := cardnumber.Mask(text); cardnumber.IsIn(masked) {
			t.Errorf("Mask(%q) = %q has a card number", text, masked)
		}
	})
}

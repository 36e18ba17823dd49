package cardnumber_test

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
)

// TestMaskHidesCardNumbersInEveryForm: with any separator, and in hexadecimal as Go prints words and bytes.
func TestMaskHidesCardNumbersInEveryForm(t *testing.T) {
	const number = 4000001234567890
	digits := fmt.Sprint(number)
	for _, separator := range []string{"", " ", "-", ".", "/", "_"} {
		for _, groups := range [][]int{{4, 4, 4, 4}, {4, 6, 6}, {6, 10}, {1, 15}, {15, 1}, {2, 2, 2, 2, 2, 2, 2, 2}} {
			var parts []string
			rest := digits
			for _, n := range groups {
				parts, rest = append(parts, rest[:n]), rest[n:]
			}
			text := "card " + strings.Join(parts, separator) + " refused"
			if got := cardnumber.Mask(text); got != "card *** refused" {
				t.Errorf("Mask(%q) = %q", text, got)
			}
		}
	}
	for _, test := range []struct{ in, want string }{
		{fmt.Sprintf("main.find(0x%x, 0x10)", uint64(number)), "main.find(0x***, 0x10)"},
		{fmt.Sprintf("main.find(0x%x?)", uint64(number)), "main.find(0x***?)"},
		{fmt.Sprintf("%#X", uint64(number)), "0x***"},
		{fmt.Sprintf("rax    0x%016x", uint64(number)), "rax    0x***"},
		{"13 digits " + fmt.Sprintf("%#x", uint64(4000001234567)), "13 digits 0x***"},
		{"19 digits " + fmt.Sprintf("%#x", uint64(4000001234567890123)), "19 digits 0x***"},
		{fmt.Sprintf("%#v", []byte(digits)), "[]byte{0x***}"},
		{fmt.Sprintf("main.find({0x%x, 0x10, 0x10})", []byte("4")) + ", 0x1", "main.find({0x34, 0x10, 0x10}), 0x1"},
		{"main.find({0x34, 0x30, 0x30, 0x30, 0x30, 0x30, 0x31, 0x32, 0x33, 0x34, ...})", "main.find({0x***, ...})"},
		{fmt.Sprintf("% #x", digits), "0x***"},
		{fmt.Sprintf("%x", digits), "***"},
		{fmt.Sprintf("% x", digits), "***"},
		{fmt.Sprintf("%v", []byte(digits)), "[***]"},
		{fmt.Sprintf("%v", float64(number)), "***e+15"},
		{"1 0x" + fmt.Sprintf("%x", uint64(number)), "1 0x***"},
	} {
		if got := cardnumber.Mask(test.in); got != test.want {
			t.Errorf("Mask(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

// TestMaskLeavesIdsTimesAndAddresses: what operators search the log for stays.
func TestMaskLeavesIdsTimesAndAddresses(t *testing.T) {
	at := time.Date(2026, 11, 25, 17, 7, 49, 123456789, time.UTC)
	west := at.In(time.FixedZone("", -3*3600))
	for _, text := range []string{
		"id 01a1fa01-36cc-465e-ab5f-50d051286852", "id 01010101-3636-4650-8050-500051286852",
		"trace 0af7651916cd43dd8448eb211c80319c span b7ad6b7169203331",
		at.Format(time.RFC3339Nano), west.Format(time.RFC3339Nano), at.String(), west.String(),
		at.Format("2006/01/02 15:04:05.000000"), at.Format("2006-01-02_15-04-05"), at.Format("threeds-20060102_150405.tar"),
		fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond()),
		"10.200.100.128/25", "192.168.100.128/25 is not 192.168.100.200", "192.168.100.100-192.168.100.200", "127.0.0.1:54321",
		"goroutine 123 gp=0xc000002380 m=0 [running]:", "main.find({0x46e2a1, 0x10}, 0xffffffffffffffff)",
		"/usr/local/go/src/net/http/server.go:2294 +0x1a5", "postgres 17.2.1", "{0x34, 0x30, 0x30}",
	} {
		if got := cardnumber.Mask(text); got != text {
			t.Errorf("Mask(%q) = %q, want it as it is", text, got)
		}
	}
}

// panicWith ends in a stack that has its arguments.
//
//go:noinline
func panicWith(cards [2]uint64, text [16]byte) (stack string) {
	defer func() {
		recover()
		stack = string(debug.Stack())
	}()
	panic(cards[0] + uint64(text[0]))
}

// TestStackOfAPanicShowsNoCardNumber: a real stack, which has the number as a word and as bytes.
func TestStackOfAPanicShowsNoCardNumber(t *testing.T) {
	const number = 4000001234567890
	var text [16]byte
	copy(text[:], fmt.Sprint(number))
	stack := panicWith([2]uint64{number, 1}, text)
	word, bytes := fmt.Sprintf("%#x", uint64(number)), "0x34, 0x30, 0x30, 0x30, 0x30, 0x30, 0x31"
	if !strings.Contains(stack, word) || !strings.Contains(stack, bytes) {
		t.Fatalf("the stack has no card number, so the test shows nothing: %s", stack)
	}
	masked := cardnumber.Mask(stack)
	if strings.Contains(masked, word) || strings.Contains(masked, bytes) {
		t.Errorf("a card number is in %s", masked)
	}
	if !strings.Contains(masked, "mask_test.go:") || !strings.Contains(masked, "panicWith({0x***, 0x1}, {0x***") {
		t.Errorf("more than the card number is hidden in %s", masked)
	}
}

// TestMasked: of the shortest card number not more is shown than of the longest.
func TestMasked(t *testing.T) {
	for in, want := range map[string]string{
		"400000112233": "400000112233", "4000001122334": "400000***2334", "4000001122334455667": "400000*********5667", "400000112233x": "400000112233x",
	} {
		if got := cardnumber.MaskDigits(in); got != want {
			t.Errorf("masked(%s) = %s, want %s", in, got, want)
		}
	}
}

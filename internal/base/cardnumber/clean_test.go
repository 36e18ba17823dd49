package cardnumber

import "testing"

// TestOrdinaryTextsAreClean: ids, times and what messages are made of are not looked at a second time, and no memory is
// needed to find out.
func TestOrdinaryTextsAreClean(t *testing.T) {
	for _, text := range []string{
		"", "8a880dc0-d2d2-4067-bcb1-b08d1690b26e", "12345678-1234-1234-1234-123456789012", "41111111-1111-1111-8111-111111111111",
		"https://acs.example/challenge/41111111-1111-1111-8111-111111111111/x", "20261129074550", "2026-11-29T07:45:50.123Z",
		`{"messageType":"AReq","purchaseDate":"20261129074550","dsTransID":"3b3d7d3e-1234-4234-9234-123456789012"}`,
		"4111111111111112", "Mozilla/5.0", "merchantName Merchant", "[withheld, 28 bytes] hash 1f3a5b7c",
	} {
		if !isClean(text) || !isClean([]byte(text)) {
			t.Errorf("%q is looked at a second time", text)
		}
	}
	text := []byte(`{"threeDSServerTransID":"41111111-1111-1111-8111-111111111111","purchaseDate":"20261129074550"}`)
	if n := testing.AllocsPerRun(10, func() { _ = IsIn(text) || Has(text, "4000000000000002") }); n != 0 {
		t.Errorf("a clean text takes %v allocations", n)
	}
}

// FuzzCleanTexts: the slow way leaves every text as it is that is called clean, and every text without a number.
func FuzzCleanTexts(f *testing.F) {
	for _, text := range []string{
		"4111111111111111", "4111 1111-1111.1111", "41111111-1111-1111-8111-111111111111", "1 4111\u00a01111\u00a01111\u00a01111",
		"NDExMTExMTExMTExMTExMQ==", "a1NDExMTExMTExMTExMTExMQ", "34313131313131313131313131313131", "5f34313131313131313131313131313131",
		"12 34313131313131313131313131313131 4", "20261129074550", "0000004111111111111111", "1700000000.4111111111", "4111\xa01111111111111111",
	} {
		f.Add(text, "4111111111111111")
	}
	f.Fuzz(func(t *testing.T, text, number string) {
		if isClean(text) && scrub(text) != text {
			t.Errorf("%q is called clean and becomes %q", text, scrub(text))
		}
		if isClean(text) != isClean([]byte(text)) || IsIn(text) != IsIn([]byte(text)) {
			t.Errorf("%q is one thing as a text and another as bytes", text)
		}
		if len(number) < minCardDigits || onlyDigits(number) != number {
			return
		}
		if got := without(text, number); Has(text, number) != (got != text) || Has(text, number) != Has([]byte(text), number) {
			t.Errorf("Has(%q, %q) is %v, and without it the text is %q", text, number, Has(text, number), got)
		}
	})
}

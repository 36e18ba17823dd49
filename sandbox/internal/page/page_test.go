package page

import "testing"

func TestAmount(t *testing.T) {
	for _, test := range []struct{ minor, exponent, currency, want string }{
		{"123450", "2", "978", "1,234.50 EUR"},
		{"5", "2", "208", "0.05 DKK"},
		{"000", "2", "840", "0.00 USD"},
		{"1500", "0", "392", "1,500 JPY"},
		{"1234567", "3", "414", "1,234.567 KWD"},
		{"999", "0", "963", "999 963"},
		{"100", "2", "", "1.00 "},
		{"", "2", "978", ""},
		{"12x", "2", "978", ""},
	} {
		if got := Amount(test.minor, test.exponent, test.currency); got != test.want {
			t.Errorf("Amount(%s, %s, %s) = %q, want %q", test.minor, test.exponent, test.currency, got, test.want)
		}
	}
}

package iso_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/base/iso"
)

func TestCurrencyByNumber(t *testing.T) {
	for _, test := range []struct {
		numeric  string
		exponent int
		ok       bool
	}{
		{"978", 2, true}, {"840", 2, true}, {"392", 0, true}, {"048", 3, true}, {"990", 4, true},
		{"901", 2, true}, // the New Taiwan dollar; 901 is excluded as a country only
		{"994", 0, true}, // has no minor unit
		{"954", 0, false}, {"955", 0, false}, {"960", 0, false}, {"964", 0, false}, {"965", 0, true}, {"999", 0, false},
		{"000", 0, false}, {"191", 0, false}, {"", 0, false}, {"97", 0, false}, {"9780", 0, false},
		{"97x", 0, false}, {"EUR", 0, false}, {"+78", 0, false}, {"٩٧٨", 0, false},
	} {
		if e, ok := iso.Currency(test.numeric); e != test.exponent || ok != test.ok {
			t.Errorf("Currency(%q) = %d, %v; want %d, %v", test.numeric, e, ok, test.exponent, test.ok)
		}
		if e, ok := iso.Currency([]byte(test.numeric)); e != test.exponent || ok != test.ok {
			t.Errorf("Currency([]byte(%q)) = %d, %v; want %d, %v", test.numeric, e, ok, test.exponent, test.ok)
		}
	}
}

// TestCurrencyLettersGoThereAndBack goes there and back with every code there may be.
func TestCurrencyLettersGoThereAndBack(t *testing.T) {
	n := 0
	for i := range 1000 {
		numeric := fmt.Sprintf("%03d", i)
		_, known := iso.Currency(numeric)
		alpha, ok := iso.CurrencyLetters(numeric)
		if ok != known {
			t.Errorf("CurrencyLetters(%q) = %q, %v; Currency knows it: %v", numeric, alpha, ok, known)
		}
		if !ok {
			continue
		}
		n++
		if back, _, ok := iso.CurrencyAlpha(alpha); back != numeric || !ok {
			t.Errorf("CurrencyAlpha(%q) = %q, %v, want %q", alpha, back, ok, numeric)
		}
	}
	if n < 150 {
		t.Errorf("%d currencies", n)
	}
	for _, bad := range []string{"", "20", "0208", "DKK", "2 8"} {
		if alpha, ok := iso.CurrencyLetters(bad); ok {
			t.Errorf("CurrencyLetters(%q) = %q", bad, alpha)
		}
	}
}

func TestCurrencyByLetters(t *testing.T) {
	for _, test := range []struct {
		alpha, numeric string
		exponent       int
		ok             bool
	}{
		{"EUR", "978", 2, true}, {"JPY", "392", 0, true}, {"AED", "784", 2, true}, {"ZWG", "924", 2, true}, {"BHD", "048", 3, true},
		{"XCG", "532", 2, true}, {"ANG", "", 0, false}, {"HRK", "", 0, false},
		{"eur", "", 0, false}, {"EU", "", 0, false}, {"EURO", "", 0, false}, {"", "", 0, false}, {"\xff\xff\xff", "", 0, false},
	} {
		if n, e, ok := iso.CurrencyAlpha(test.alpha); n != test.numeric || e != test.exponent || ok != test.ok {
			t.Errorf("CurrencyAlpha(%q) = %q, %d, %v; want %q, %d, %v", test.alpha, n, e, ok, test.numeric, test.exponent, test.ok)
		}
		if n, _, ok := iso.CurrencyAlpha([]byte(test.alpha)); n != test.numeric || ok != test.ok {
			t.Errorf("CurrencyAlpha([]byte(%q)) = %q, %v; want %q, %v", test.alpha, n, ok, test.numeric, test.ok)
		}
	}
	for _, alpha := range []string{"XBA", "XBB", "XBC", "XBD", "XAU", "XDR", "XAG", "XPT", "XTS", "XPD", "XXX"} {
		if _, _, ok := iso.CurrencyAlpha(alpha); ok {
			t.Errorf("CurrencyAlpha(%q) is ok, want excluded", alpha)
		}
	}
}

func TestCountryByNumber(t *testing.T) {
	for numeric, want := range map[string]bool{
		"208": true, "840": true, "004": true, "894": true, "158": true,
		"901": false, "950": false, "999": false, "000": false, "280": false, "4": false, "04": false, "0004": false, "DNK": false, "": false,
	} {
		if got := iso.Country(numeric); got != want {
			t.Errorf("Country(%q) = %v, want %v", numeric, got, want)
		}
		if got := iso.Country([]byte(numeric)); got != want {
			t.Errorf("Country([]byte(%q)) = %v, want %v", numeric, got, want)
		}
	}
}

func TestCountryByLetters(t *testing.T) {
	for alpha, want := range map[string]string{"DK": "208", "AD": "020", "ZW": "716", "UK": "", "dk": "", "D": "", "DNK": "", "": "", "XX": ""} {
		if got, ok := iso.CountryAlpha2(alpha); got != want || ok != (want != "") {
			t.Errorf("CountryAlpha2(%q) = %q, %v; want %q", alpha, got, ok, want)
		}
	}
}

// TestCountriesInAllForms goes from the digits to the letters and back.
func TestCountriesInAllForms(t *testing.T) {
	n := 0
	for i := range 1000 {
		numeric := fmt.Sprintf("%03d", i)
		letters, ok := iso.CountryLetters(numeric)
		if back, _ := iso.CountryAlpha2(letters); ok != iso.Country(numeric) || ok && back != numeric {
			t.Errorf("CountryLetters(%q) = %q, %t", numeric, letters, ok)
		}
		if ok {
			n++
		}
	}
	if n != 249 {
		t.Errorf("%d countries", n)
	}
	for alpha, want := range map[string]string{"DNK": "208", "ABW": "533", "ZWE": "716", "dnk": "", "DK": "", "": "", "XXX": "", "DNKK": ""} {
		if got, ok := iso.CountryAlpha3(alpha); got != want || ok != (want != "") {
			t.Errorf("CountryAlpha3(%q) = %q, %v; want %q", alpha, got, ok, want)
		}
	}
}

// TestTablesAreComplete counts what the standards hold: 249 countries, and of 178 current
// entries of ISO 4217 the 167 that are not excluded.
func TestTablesAreComplete(t *testing.T) {
	countries, currencies := 0, 0
	for n := range 1000 {
		code := []byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)}
		if iso.Country(code) {
			countries++
		}
		if _, ok := iso.Currency(code); ok {
			currencies++
		}
	}
	if countries != 249 || currencies != 167 {
		t.Errorf("%d countries and %d currencies, want 249 and 167", countries, currencies)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	currency, alpha, country := []byte("978"), []byte("SEK"), []byte("208")
	if n := testing.AllocsPerRun(100, func() {
		iso.Currency(currency)
		iso.CurrencyAlpha(alpha)
		iso.Country(country)
		iso.CountryAlpha2(country)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// TestTablesNameNoCodeTwice reads the tables as the package does: of two rows with
// the same code, the later would hide the earlier.
func TestTablesNameNoCodeTwice(t *testing.T) {
	for table, header := range map[string][]string{
		"currencies.csv": {"alpha", "numeric", "exponent"}, "countries.csv": {"alpha2", "alpha3", "numeric"},
	} {
		text, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil || !slices.Equal(rows[0], header) {
			t.Fatalf("%s: %v, header %q, want %q", table, err, rows[0], header)
		}
		seen := map[string]bool{}
		for _, row := range rows[1:] {
			for column, code := range row {
				if header[column] == "exponent" {
					continue
				}
				if seen[code] {
					t.Errorf("%s: %s is given twice", table, code)
				}
				seen[code] = true
				if header[column] == "numeric" && len(code) != 3 {
					t.Errorf("%s: number %q has not three digits", table, code)
				}
			}
		}
	}
}

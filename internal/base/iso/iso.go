// Package iso has the codes of the currencies of ISO 4217 and the countries of ISO 3166-1 that
// a 3-D Secure message may use. Use [Currency] and [Country] to look up codes of three
// digits, [CurrencyAlpha], [CountryAlpha2] and [CountryAlpha3] to look up codes of letters.
//
// It has no names, no history and no formatting of amounts. Codes that the
// protocol excludes are not in its tables: currencies 955-964 and 999 with their
// letters, countries 901-999. Withdrawn codes are not in them either.
//
// The tables are currencies.csv and countries.csv. To follow an amendment of a
// standard, edit the CSV file.
package iso

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
)

//go:embed currencies.csv
var currencyRows string

//go:embed countries.csv
var countryRows string

// A currency is a row of currencies.csv.
type currency struct {
	alpha, numeric string
	exponent       int
}

// The tables by each form of a code.
var (
	currencyByNumber  = make(map[string]currency)
	currencyByLetters = make(map[string]currency)
	countryByNumber   = make(map[string]string) // its two letters
	countryByAlpha2   = make(map[string]string) // its number
	countryByAlpha3   = make(map[string]string) // its number
)

// init reads the tables. A bad row is an error of this package, and panics.
func init() {
	for _, row := range readRows(currencyRows) {
		c := currency{alpha: row[0], numeric: row[1]}
		if IsExcludedCurrency(c.numeric) {
			continue
		}
		if row[2] != "" {
			var err error
			if c.exponent, err = strconv.Atoi(row[2]); err != nil {
				panic(fmt.Sprintf("iso: exponent of %s: %v", c.alpha, err))
			}
		}
		currencyByNumber[c.numeric], currencyByLetters[c.alpha] = c, c
	}
	for _, row := range readRows(countryRows) {
		alpha2, alpha3, numeric := row[0], row[1], row[2]
		countryByNumber[numeric] = alpha2
		countryByAlpha2[alpha2], countryByAlpha3[alpha3] = numeric, numeric
	}
}

// readRows returns the rows of a table below its header.
func readRows(table string) [][]string {
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		panic("iso: " + err.Error())
	}
	return rows[1:]
}

// IsExcludedCurrency reports whether EMV 3-D Secure, table A.5, excludes a code of
// ISO 4217: metals, bond market units, special drawing rights, tests, none.
func IsExcludedCurrency(numeric string) bool {
	return "955" <= numeric && numeric <= "964" || numeric == "999"
}

// A text is a code as a string or as the bytes of a message.
type text interface{ ~string | ~[]byte }

// Currency returns the number of decimal places of the currency with the given
// three-digit code, and whether there is such a currency. A currency without
// a minor unit has 0.
func Currency[T text](numeric T) (exponent int, ok bool) {
	c, ok := currencyByNumber[string(numeric)]
	return c.exponent, ok
}

// CurrencyAlpha returns the three-digit code and the number of decimal places of
// the currency with the given three capital letters, and whether there is such a
// currency.
func CurrencyAlpha[T text](alpha T) (numeric string, exponent int, ok bool) {
	c, ok := currencyByLetters[string(alpha)]
	return c.numeric, c.exponent, ok
}

// CurrencyLetters returns the three capital letters of the currency with the
// given three-digit code, and whether there is such a currency.
func CurrencyLetters[T text](numeric T) (alpha string, ok bool) {
	c, ok := currencyByNumber[string(numeric)]
	return c.alpha, ok
}

// Country reports whether there is a country with the given three-digit code.
func Country[T text](numeric T) bool {
	_, ok := countryByNumber[string(numeric)]
	return ok
}

// CountryAlpha2 returns the three-digit code of the country with the given two
// capital letters, and whether there is such a country.
func CountryAlpha2[T text](alpha T) (numeric string, ok bool) {
	numeric, ok = countryByAlpha2[string(alpha)]
	return numeric, ok
}

// CountryAlpha3 returns the three-digit code of the country with the given three
// capital letters, and whether there is such a country.
func CountryAlpha3[T text](alpha T) (numeric string, ok bool) {
	numeric, ok = countryByAlpha3[string(alpha)]
	return numeric, ok
}

// CountryLetters returns the two capital letters of the country with the given
// three-digit code, and whether there is such a country.
func CountryLetters[T text](numeric T) (alpha2 string, ok bool) {
	alpha2, ok = countryByNumber[string(numeric)]
	return alpha2, ok
}

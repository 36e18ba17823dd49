// Package iso has the codes of the currencies of ISO 4217 and the countries of ISO 3166-1 that
// a 3-D Secure message may use. Use [Currency] and [Country] to look up codes of three
// digits, [CurrencyAlpha], [CountryAlpha2] and [CountryAlpha3] to look up codes of letters.
//
// It has no names, no history and no formatting of amounts. Codes that the
// protocol excludes are not in its tables: currencies 955-964 and 999 with their
// letters, countries 901-999. Withdrawn codes are not in them either.
//
// The tables are generated from currencies.csv and countries.csv. To follow an
// amendment of a standard, edit the CSV file and run go generate.
package iso

//go:generate go run gen/gen.go -o tables.go

// A text is a code as a string or as the bytes of a message.
type text interface{ ~string | ~[]byte }

// Currency returns the number of decimal places of the currency with the given
// three-digit code, and whether there is such a currency. A currency without
// a minor unit has 0.
func Currency[T text](numeric T) (exponent int, ok bool) {
	n, ok := number(numeric)
	if !ok || exponents[n] == 0 {
		return 0, false
	}
	return int(exponents[n]) - 1, true
}

// CurrencyAlpha returns the three-digit code and the number of decimal places of
// the currency with the given three capital letters, and whether there is such a
// currency.
func CurrencyAlpha[T text](alpha T) (numeric string, exponent int, ok bool) {
	c, ok := find(currencies[:], alpha)
	if !ok {
		return "", 0, false
	}
	exponent, ok = Currency(c.numeric)
	return c.numeric, exponent, ok
}

// CurrencyLetters returns the three capital letters of the currency with the
// given three-digit code, and whether there is such a currency.
func CurrencyLetters[T text](numeric T) (alpha string, ok bool) {
	for _, c := range currencies {
		if c.numeric == string(numeric) {
			return c.alpha, true
		}
	}
	return "", false
}

// Country reports whether there is a country with the given three-digit code.
func Country[T text](numeric T) bool {
	n, ok := number(numeric)
	return ok && countrySet[n/64]&(1<<(n%64)) != 0
}

// CountryAlpha2 returns the three-digit code of the country with the given two
// capital letters, and whether there is such a country.
func CountryAlpha2[T text](alpha T) (numeric string, ok bool) {
	c, ok := find(countries[:], alpha)
	return c.numeric, ok
}

// CountryAlpha3 returns the three-digit code of the country with the given three
// capital letters, and whether there is such a country.
func CountryAlpha3[T text](alpha T) (numeric string, ok bool) {
	c, ok := find(countries3[:], alpha)
	return c.numeric, ok
}

// CountryLetters returns the two capital letters of the country with the given
// three-digit code, and whether there is such a country.
func CountryLetters[T text](numeric T) (alpha2 string, ok bool) {
	for _, c := range countries {
		if c.numeric == string(numeric) {
			return c.alpha, true
		}
	}
	return "", false
}

// An entry pairs the letters of a code with its digits.
type entry struct{ alpha, numeric string }

// find looks up alpha in a table that is sorted by it.
func find[T text](table []entry, alpha T) (entry, bool) {
	low, high := 0, len(table)
	for low < high {
		switch mid := (low + high) / 2; compare(alpha, table[mid].alpha) {
		case 0:
			return table[mid], true
		case -1:
			high = mid
		default:
			low = mid + 1
		}
	}
	return entry{}, false
}

// compare compares two texts as strings.Compare does, for strings and byte slices. It does not
// allocate.
func compare[T text](a T, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] < b[i] {
			return -1
		}
		if a[i] > b[i] {
			return 1
		}
	}
	return max(-1, min(1, len(a)-len(b)))
}

// number returns the number that exactly three decimal digits stand for.
func number[T text](s T) (int, bool) {
	if len(s) != 3 {
		return 0, false
	}
	n := 0
	for i := range 3 {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n, true
}

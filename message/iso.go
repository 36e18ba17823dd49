package message

import "github.com/openthreeds/threeds/internal/iso"

func validCountry(b []byte) bool { return iso.Country(b) }

func validCurrency(b []byte) bool {
	_, ok := iso.Currency(b)
	return ok
}

func validCurrencyAlpha(b []byte) bool {
	_, _, ok := iso.CurrencyAlpha(b)
	return ok
}

package message

import (
	"fmt"
	"strconv"

	"github.com/openthreeds/threeds/internal/iso"
)

func validCountry(b []byte) bool { return iso.Country(b) }

func validCurrency(b []byte) bool {
	_, ok := iso.Currency(b)
	return ok
}

func validCurrencyAlpha(b []byte) bool {
	_, _, ok := iso.CurrencyAlpha(b)
	return ok
}

// Exponents returns an ISOCode problem for each currency that stands with an exponent
// other than that of ISO 4217, and one for the exponent: an amount may then mean
// another one. Check does not look at that, for not everybody keeps to ISO there.
func (m *Message) Exponents() Problems {
	var p Problems
	pair := func(prefix string) {
		currency, exponent := Path(prefix+"Currency"), Path(prefix+"Exponent")
		number, given := m.Text(string(currency)), m.Text(string(exponent))
		want, ok := iso.Currency(number)
		if ok && given != "" && given != strconv.Itoa(want) && !unitless[number] {
			p = append(p, Problem{Code: ISOCode, Path: currency}, Problem{Code: ISOCode, Path: exponent})
		}
	}
	pair("purchase")
	pair("recurring")
	for i := 0; ; i++ {
		item := fmt.Sprintf("multiTransaction.merchantList[%d]", i)
		if m.find(item) < 0 {
			return p
		}
		pair(item + ".merchant")
	}
}

// unitless are the currencies for which ISO 4217 has no exponent: XUA and XSU.
var unitless = map[string]bool{"965": true, "994": true}

package message_test

import (
	"slices"
	"testing"

	"github.com/openthreeds/threeds/message"
)

func TestExponentsOtherThanISO4217AreReported(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string
	}{
		{`{"purchaseCurrency":"978","purchaseExponent":"2"}`, nil},
		{`{"purchaseCurrency":"978","purchaseExponent":"0"}`, []string{"304 purchaseCurrency", "304 purchaseExponent"}},
		{`{"purchaseCurrency":"978","purchaseExponent":"02"}`, []string{"304 purchaseCurrency", "304 purchaseExponent"}},
		{`{"purchaseCurrency":"978","purchaseExponent":2}`, nil}, // no text, which is another fault
		{`{"purchaseCurrency":"978"}`, nil},
		{`{"purchaseExponent":"7"}`, nil},
		{`{"purchaseCurrency":"999","purchaseExponent":"7"}`, nil}, // no currency, which is another fault
		{`{"purchaseCurrency":"965","purchaseExponent":"7"}`, nil}, // ISO 4217 says none
		{`{"recurringCurrency":"392","recurringExponent":"2"}`, []string{"304 recurringCurrency", "304 recurringExponent"}},
		{`{"multiTransaction":{"merchantList":[{"merchantCurrency":"048","merchantExponent":"3"},{},null,{"merchantCurrency":"048","merchantExponent":"2"}]}}`,
			[]string{"304 multiTransaction.merchantList.merchantCurrency", "304 multiTransaction.merchantList.merchantExponent"}},
		{`{"multiTransaction":{"merchantList":{"merchantCurrency":"048"}}}`, nil},
		{`{"multiTransaction":[1]}`, nil},
	} {
		m, err := message.Parse([]byte(test.text), message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := faults(m.CheckExponents()); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.text, got, test.want)
		}
	}
}

package auth_test

import (
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/account"
)

// BenchmarkPreauth is the engine's part of a /preauth. bench/ has the whole, with
// HTTP around it and millions of ranges.
func BenchmarkPreauth(b *testing.B) {
	var builder ranges.Builder
	if err := builder.Add("4000000000000000", "4000009999999999", authtest.AllVersions("https://acs0001.issuers.example/3ds/method")); err != nil {
		b.Fatal(err)
	}
	table, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	cards := ranges.NewSchemes("visa", "mastercard")
	cards.Swap("visa", table)
	e := authtest.NewWorld().NewEngine(0)
	e.Cards, e.Rand, e.Now = cards, nil, time.Now
	acc := &account.Account{Merchant: &account.Merchant{Name: "Shop"}}
	for name, body := range map[string]string{
		"card":   `{"acctNumber":"4000001234567890"}`,
		"scheme": `{"acctNumber": "4000001234567890", "ds": "visa"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := e.Preauth(b.Context(), acc, []byte(body)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

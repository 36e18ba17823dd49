package playground

import (
	"github.com/openthreeds/threeds/internal/state/account"
)

// The logos of the two merchants.
const (
	shopLogo = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">` +
		`<rect width="32" height="32" rx="8" fill="#0a5c36"/><path d="M9 12h14l-2 11H11z" fill="#fff"/></svg>`
	otherLogo = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">` +
		`<circle cx="16" cy="16" r="16" fill="#4a2a7a"/><path d="M8 16h16" stroke="#fff" stroke-width="4"/></svg>`
)

// merchants are the two merchants of a playground, whose profiles are complete for every scheme. The other one writes
// all requests in the form of 2.3.1 (docs/api.md, "Bridging"). Pages of any origin may call, for every developer has
// their own.
func (p *Playground) merchants() []account.Merchant {
	shop := account.Merchant{
		Name: shopMerchant, MerchantName: shopMerchant, MCC: "5411", MerchantCountry: "208",
		RequestorURL: "https://shop.example",
		Page:         account.Page{Logo: []byte(shopLogo), LogoType: "image/svg+xml", Colour: "#0a5c36", Accent: "#ffb000"},
	}
	other := account.Merchant{
		Name: otherMerchant, MerchantName: otherMerchant, MCC: "5732", MerchantCountry: "250", Bridging: true,
		RequestorURL: "https://other.example",
		Page:         account.Page{Logo: []byte(otherLogo), LogoType: "image/svg+xml", Colour: "#4a2a7a", Accent: "#e0457b"},
	}
	for _, m := range []*account.Merchant{&shop, &other} {
		m.PerDirectory = make(map[string]account.Requestor)
	}
	for _, d := range p.Sandbox.Directories() {
		shop.PerDirectory[d.Scheme] = account.Requestor{AcquirerBIN: "400551", AcquirerMerchantID: "SHOP-1"}
		other.PerDirectory[d.Scheme] = account.Requestor{AcquirerBIN: "526567", AcquirerMerchantID: "OTHER-1"}
	}
	return []account.Merchant{shop, other}
}

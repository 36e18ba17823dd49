package shop

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The one product.
const (
	productName     = "Fjord Over-Ear"
	productAmount   = "12900" // in minor units
	productCurrency = "978"   // EUR
	productExponent = "2"

	productCurrencyName = "EUR" // as 1.0.2's API wants it
	productPrice        = "€129.00"

	monthlyAmount = "1290"
	monthlyPrice  = "€12.90"
)

// An order is what the page sends when the shopper pays.
type order struct {
	Card    string  `json:"card"`
	Expiry  string  `json:"expiry"` // MM/YY
	Name    string  `json:"name"`
	Plan    string  `json:"plan"`    // "once" or "monthly"
	Version string  `json:"version"` // "" for the highest one possible
	Window  string  `json:"window"`  // 01-05
	Confirm bool    `json:"confirm"` // the browser has Secure Payment Confirmation
	Trouble string  `json:"trouble"` // merchant id with which something goes wrong in 3-D Secure 2; "" for the shop's own
	Browser browser `json:"browser"`
}

// browser is what only JavaScript in the page can tell.
type browser struct {
	JavaEnabled  bool   `json:"javaEnabled"`
	Language     string `json:"language"`
	ColorDepth   int    `json:"colorDepth"`
	ScreenHeight int    `json:"screenHeight"`
	ScreenWidth  int    `json:"screenWidth"`
	TZ           int    `json:"tz"` // minutes, as getTimezoneOffset gives them
	UserAgent    string `json:"userAgent"`

	// What the back end sees of the request.
	Accept    string   `json:"-"`
	Languages []string `json:"-"`
	IP        string   `json:"-"`
}

var expiry = regexp.MustCompile(`^(0[1-9]|1[0-2])\s*/?\s*([0-9]{2})$`)

// normalise brings an order into the form that messages want and returns what the
// shopper has to correct, by the name of the field.
func (o *order) normalise() map[string]string {
	faults := make(map[string]string)
	o.Card = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.Is(unicode.Pd, r) { // as numbers are printed, and pasted
			return -1
		}
		return r
	}, o.Card)
	if strings.Trim(o.Card, "0123456789") != "" || len(o.Card) < 13 || len(o.Card) > 19 {
		faults["card"] = "A card number has 13 to 19 digits."
	}
	if m := expiry.FindStringSubmatch(strings.TrimSpace(o.Expiry)); m != nil {
		o.Expiry = m[2] + m[1]
	} else {
		faults["expiry"] = "Month and year, such as 12/29."
	}
	o.Name = strings.TrimSpace(o.Name)
	if n := utf8.RuneCountInString(o.Name); n < 2 || n > 45 {
		faults["name"] = "2 to 45 characters, as printed on the card."
	}
	if o.Plan != "once" && o.Plan != "monthly" {
		faults["plan"] = "Once or monthly."
	}
	if _, known := windows[o.Window]; !known {
		faults["window"] = "One of the five window sizes."
	}
	if o.Version != "" && !isVersion(o.Version) {
		faults["version"] = "2.1.0, 2.2.0 or 2.3.1."
	}
	if o.Trouble != "" && !slices.ContainsFunc(troubles, func(t trouble) bool { return t.Merchant == o.Trouble }) {
		faults["trouble"] = "One of those in the list."
	}
	return faults
}

// merchant is the shop's id at its acquirer, as in the AReq.
func (o *order) merchant() string { return cmp.Or(o.Trouble, acquirerID) }

// A size of the challenge window in CSS pixels; zero is all there is.
type size struct {
	Width  int `json:"width"`
	Height int `json:"height"`
}

var windows = map[string]size{"01": {250, 400}, "02": {390, 400}, "03": {500, 600}, "04": {600, 400}, "05": {}}

// versions are those that the shop can speak, ascending.
var versions = []string{"2.1.0", "2.2.0", "2.3.1"}

func isVersion(v string) bool { return slices.Contains(versions, v) }

// highest returns the highest version that directory server, ACS, 3DS server
// and shop have in common, "" when there is none.
func highest(crd *message) string {
	for _, v := range slices.Backward(versions) {
		_, atACS := methodURL(crd, v)
		if atACS && slices.Contains(crd.DSVersions, v) && slices.Contains(crd.ServerVersions, v) {
			return v
		}
	}
	return ""
}

// methodURL returns where the ACS wants the 3DS Method in one version, "" for nowhere, and whether the ACS has that
// version at all. The URL next to the list belongs to the highest version and is not looked at.
func methodURL(crd *message, version string) (string, bool) {
	for _, v := range crd.ACSVersions {
		if v.Version == version {
			return v.ThreeDSMethodURL, true
		}
	}
	return "", false
}

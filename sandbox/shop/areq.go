package shop

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The merchant, as its acquirer knows it.
const (
	merchantName    = "Fjord Audio (demo)"
	merchantCountry = "208"
	merchantMCC     = "5732" // electronics
	acquirerBIN     = "400000"
	acquirerID      = "demo-merchant-1"
	shopperEmail    = "shopper@shop.example"

	merchantCountryName = "DK" // as 1.0.2's API wants it
)

// decoupledMinutes is how long an approval outside the page may take, in the
// five digits of threeDSRequestorDecMaxTime.
const decoupledMinutes = "00005"

// A member of a message. Messages of the shop have their members in the order
// in which a reader wants them.
type member struct {
	name  string
	value any
}

func compose(members []member) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(marshal(m.name))
		b.WriteByte(':')
		b.Write(marshal(m.value))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// marshal is json.Marshal without its escapes for HTML, which double the
// length of a URL with a query.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only values of ours come here
	}
	return bytes.TrimSpace(b.Bytes())
}

// areq is what an authentication request is made of.
type areq struct {
	version string
	transID string
	compInd string
	base    string // the shop's URL
	at      time.Time
	order   order

	second *secondRequest // of Secure Payment Confirmation; nil for the first
}

// json is the AReq as the API wants it: what the merchant knows. The server
// adds its own name, its URL and the requestor's id.
func (a *areq) json() []byte {
	return compose(slices.Concat(a.frame(), a.card(), a.purchase(), a.browser(), a.requestor()))
}

// since reports whether the request's version is v or a later one.
func (a *areq) since(v string) bool { return a.version >= v }

func (a *areq) frame() []member {
	return []member{
		{"messageType", "AReq"},
		{"messageVersion", a.version},
		{"threeDSServerTransID", a.transID},
		{"deviceChannel", "02"},
		{"messageCategory", "01"},
		{"threeDSCompInd", a.compInd},
		{"notificationURL", a.base + "/notify/challenge"},
	}
}

func (a *areq) card() []member {
	return []member{
		{"acctNumber", a.order.Card},
		{"cardExpiryDate", a.order.Expiry},
		{"cardholderName", a.order.Name},
		{"email", shopperEmail},
	}
}

func (a *areq) purchase() []member {
	amount := productAmount
	if a.order.Plan == "monthly" {
		amount = monthlyAmount
	}
	members := []member{
		{"purchaseAmount", amount},
		{"purchaseCurrency", productCurrency},
		{"purchaseExponent", productExponent},
		{"purchaseDate", a.at.UTC().Format("20060102150405")},
		{"mcc", merchantMCC},
		{"merchantName", merchantName},
		{"merchantCountryCode", merchantCountry},
		{"acquirerBIN", acquirerBIN},
		{"acquirerMerchantID", a.order.merchant()},
	}
	if a.since("2.3.1") {
		members = append(members, member{"acquirerCountryCode", merchantCountry}, member{"acquirerCountryCodeSource", "01"})
	}
	if a.order.Plan == "monthly" {
		members = append(members, a.recurring()...)
	}
	return members
}

// recurring describes twelve monthly payments. Since 2.3.1 it also says that
// amount and frequency are fixed, and then names them.
func (a *areq) recurring() []member {
	members := []member{
		{"recurringExpiry", a.at.UTC().AddDate(1, 0, 0).Format("20060102")},
		{"recurringFrequency", "28"}, // days; 28 stands for a month
	}
	if a.since("2.3.1") {
		members = append(members,
			member{"recurringInd", map[string]string{"amountInd": "01", "frequencyInd": "01"}},
			member{"recurringAmount", monthlyAmount},
			member{"recurringCurrency", productCurrency},
			member{"recurringExponent", productExponent},
			member{"recurringDate", a.at.UTC().AddDate(0, 0, 28).Format("20060102")},
		)
	}
	return members
}

func (a *areq) browser() []member {
	b := a.order.Browser
	members := []member{
		{"browserAcceptHeader", b.Accept},
		{"browserIP", a.ip()},
		{"browserLanguage", a.language()},
		{"browserUserAgent", b.UserAgent},
		{"browserJavaEnabled", b.JavaEnabled},
		{"browserColorDepth", a.colorDepth()},
		{"browserScreenHeight", strconv.Itoa(b.ScreenHeight)},
		{"browserScreenWidth", strconv.Itoa(b.ScreenWidth)},
		{"browserTZ", strconv.Itoa(b.TZ)},
	}
	if a.since("2.2.0") {
		members = append(members, member{"browserJavascriptEnabled", true})
	}
	if a.since("2.3.1") {
		languages := b.Languages
		if len(languages) == 0 {
			languages = []string{a.language()}
		}
		members = append(members, member{"acceptLanguage", languages})
	}
	return members
}

// requestor says how the shop knows the shopper (a guest) and what it would
// like. What was one value before 2.3.1 is a list since.
func (a *areq) requestor() []member {
	known := map[string]string{"threeDSReqAuthMethod": "01", "threeDSReqAuthTimestamp": a.at.UTC().Format("200601021504")}
	var challenge, how any = "01", known
	if a.since("2.3.1") {
		challenge, how = []string{"01"}, []any{known}
	}
	if a.second != nil {
		how = a.second.authentication(known)
	}
	why := "01" // a payment
	if a.order.Plan == "monthly" {
		why = "02"
	}
	members := []member{
		{"threeDSRequestorURL", a.base + "/"},
		{"threeDSRequestorAuthenticationInd", why},
	}
	if how != nil {
		members = append(members, member{"threeDSRequestorAuthenticationInfo", how})
	}
	members = append(members, member{"threeDSRequestorChallengeInd", challenge})
	members = append(members, a.confirmation()...)
	if a.since("2.2.0") {
		members = append(members, member{"threeDSRequestorDecReqInd", "Y"},
			member{"threeDSRequestorDecMaxTime", decoupledMinutes})
	}
	return members
}

// ip is the browser's address. Before 2.3.1 an IPv6 address has all its eight
// groups.
func (a *areq) ip() string {
	addr, err := netip.ParseAddr(a.order.Browser.IP)
	if err != nil {
		return a.order.Browser.IP
	}
	addr = addr.Unmap().WithZone("")
	if a.since("2.3.1") {
		return addr.String()
	}
	return addr.StringExpanded()
}

// language is the browser's language, of 35 characters at the most and before
// 2.3.1 of eight. A longer one is cut where a subtag ends, and not behind one of
// a single character, which says what kind the next one is.
func (a *areq) language() string {
	limit := 35
	if !a.since("2.3.1") {
		limit = 8
	}
	tag := a.order.Browser.Language
	if len(tag) <= limit {
		return tag
	}
	for len(tag) > limit || len(tag) > 2 && tag[len(tag)-2] == '-' {
		i := strings.LastIndexByte(tag, '-')
		if i < 0 {
			return tag[:limit]
		}
		tag = tag[:i]
	}
	return tag
}

// colorDepth is the screen's; before 2.3.1 there is a list of depths, and a
// screen between two of them (30 bits are common) has the lower one.
func (a *areq) colorDepth() string {
	depth := a.order.Browser.ColorDepth
	if a.since("2.3.1") {
		return strconv.Itoa(depth)
	}
	lower := 1
	for _, listed := range []int{4, 8, 15, 16, 24, 32, 48} {
		if listed <= depth {
			lower = listed
		}
	}
	return strconv.Itoa(lower)
}

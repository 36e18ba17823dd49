package check

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/browserurl"
	"github.com/openthreeds/threeds/internal/base/iso"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/message"
)

// maxReturnURL is the length of the longest returnUrl, in characters.
const maxReturnURL = 2048

// addProtocolDefaults fills in what the protocol lets the server choose.
func (k *Checker) addProtocolDefaults(req *Request, msg *message.Request) {
	msg.Set("messageType", "AReq")
	for _, name := range []string{
		"threeDSServerTransID", "threeDSCompInd", "notificationURL", "threeDSMethodNotificationURL", "threeDSMethodData",
		"threeDSMethodId",
	} {
		msg.Set(name, "")
	}
	req.setDefault(msg, "deviceChannel", Browser)
	req.setDefault(msg, "messageCategory", "01")
	if msg.Text("messageCategory") == "01" && msg.Text("deviceChannel") != "03" {
		req.setDefault(msg, "threeDSRequestorAuthenticationInd", "01")
	}
	if !msg.Has("purchaseAmount") && msg.Text("messageCategory") != "01" {
		return // a payment without its amount lacks that alone
	}
	currency := msg.Text("purchaseCurrency")
	exponent, ok := iso.Currency(currency)
	if !ok {
		_, exponent, ok = iso.CurrencyAlpha(strings.ToUpper(currency))
	}
	if !ok {
		exponent = 2 // the currency is the fault that is reported, not this
	}
	req.setDefault(msg, "purchaseExponent", string(rune('0'+exponent)))
	req.setDefault(msg, "purchaseDate", req.Start.UTC().Format("20060102150405"))
}

// addProfileDefaults fills in what the merchant's profile says, first that for the scheme. The page of a browser sends
// its members later: placeholders stand for them until then, and req.awaited names them.
func (k *Checker) addProfileDefaults(req *Request, to Target, msg *message.Request) {
	table, merchant := message.TableOf(message.AReq, req.Version), req.Account.Merchant
	requestor := merchant.Requestor(to.Scheme())
	if to.Peer == nil { // nothing will be sent, so any of the merchant's acquirers is as good as another
		for _, name := range slices.Sorted(maps.Keys(merchant.PerDirectory)) {
			requestor = merchant.Requestor(name)
		}
	}
	for _, member := range [][2]string{
		{"acquirerBIN", requestor.AcquirerBIN}, {"acquirerMerchantID", requestor.AcquirerMerchantID},
		{"threeDSRequestorID", requestor.ID}, {"threeDSRequestorName", requestor.Name},
		{"threeDSRequestorURL", merchant.RequestorURL}, {"merchantName", merchant.MerchantName},
		{"mcc", merchant.MCC}, {"merchantCountryCode", merchant.MerchantCountry},
	} {
		if table.Field(member[0]) != nil {
			req.setDefault(msg, member[0], member[1])
		}
	}
	if msg.Text("deviceChannel") != Browser {
		return
	}
	for _, p := range browserMembers {
		if table.Field(p.name) != nil && !msg.Has(p.name) {
			req.await(msg, p.name, p.placeholder)
		}
	}
}

// browserMembers are the members that the browser sends, each with a valid value as JSON. With these values a request
// is checked before the browser has sent anything. It is never sent: see [message.Request.SetPlaceholder].
var browserMembers = []struct{ name, placeholder string }{
	{"threeDSCompInd", `"U"`},
	{"browserAcceptHeader", `"*/*"`},
	{"browserUserAgent", `"unknown"`},
	{"browserIP", `"192.0.2.1"`},
	{"browserLanguage", `"en"`},
	{"acceptLanguage", `["en"]`},
	{"browserJavascriptEnabled", `true`},
	{"browserJavaEnabled", `false`},
	{"browserColorDepth", `"24"`},
	{"browserScreenHeight", `"1080"`},
	{"browserScreenWidth", `"1920"`},
	{"browserTZ", `"0"`},
}

// IsBrowserMember reports whether the browser tells a member.
func IsBrowserMember(name string) bool {
	for _, b := range browserMembers {
		if b.name == name {
			return true
		}
	}
	return false
}

// checkOwnMembers checks the members of a request for an authentication that are not of EMV 3DS.
func (k *Checker) checkOwnMembers(msg *message.Request) []api.Fault {
	var wrong []api.Fault
	add := func(name message.Path, rule, cure string) *api.Fault {
		wrong = append(wrong, faults.New(message.Format, name, rule, cure))
		return &wrong[len(wrong)-1]
	}
	isText := func(name message.Path) bool {
		if !msg.Has(string(name)) {
			return false
		}
		raw := msg.RawAt(name)
		if len(raw) > 0 && raw[0] != '"' {
			add(name, "type", "Send "+string(name)+" as a string.").Found = faults.TypeOf(raw)
			return false
		}
		return true
	}
	if text := msg.Text("reference"); isText("reference") && text != "" && !transid.IsReference(text) {
		least, most := 1, transid.MaxReference
		if n := utf8.RuneCountInString(text); n > transid.MaxReference {
			entry := add("reference", "length", "Send 1 to 64 printable characters.")
			entry.Limit, entry.Found = &api.Limit{Min: &least, Max: &most}, &api.Found{Type: "string", Length: &n}
		} else {
			add("reference", "control-character", "Send only printable characters.")
		}
	}
	if isText("returnUrl") && !k.isReturnURL(msg.Text("returnUrl")) {
		add("returnUrl", "address", "Send a URL of at most 2048 characters that begins with https:// and has no user.")
	}
	return wrong
}

// isReturnURL reports whether a shopper may be sent to a URL at the end: https, and in a sandbox also http to the
// browser's own machine or to the origin of the sandbox.
func (k *Checker) isReturnURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxReturnURL || u.User != nil {
		return false
	}
	isLab := k.Loopback || slices.ContainsFunc(k.Peers, func(d Directory) bool { return d.Lab })
	if err := (browserurl.Policy{Lab: isLab}).Check(text); err != nil {
		return false
	}
	rest, isHTTP := strings.CutPrefix(text, "http:")
	if !isHTTP {
		return u.Scheme == "https"
	}
	isOwnMachine := browserurl.Policy{}.Check("https:"+rest) != nil
	return isOwnMachine || k.BrowserURL != "" && strings.HasPrefix(text, k.BrowserURL+"/")
}

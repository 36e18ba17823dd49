package runs

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/message"
)

// members are what our own answers, requests and events say, by their paths. Elements of EMV 3DS are not in it.
var members = map[string]string{
	"id":                               "our id of the authentication, the threeDSServerTransID",
	"status":                           "how far it has come",
	"reference":                        "the shop's own number of the order",
	"created":                          "when it began",
	"card.last4":                       "the last digits of the card",
	"card.scheme":                      "whose directory server is asked",
	"card.schemes":                     "who holds the card, the preferred one first",
	"messageVersion":                   "version of the protocol",
	"browser.url":                      "where threeds.js finds the authentication; the end of it is secret",
	"browser.token":                    "what lets a browser go on; told once",
	"browser.script":                   "the address of threeds.js that is pinned to this release",
	"browser.integrity":                "what that script hashes to, for the page to check",
	"browser.expires":                  "until when a browser may begin",
	"outcome.result":                   "how it ended, in a word",
	"outcome.transStatus":              "what the issuer said, in a letter",
	"outcome.transStatusReason":        "why, as a code",
	"outcome.reason":                   "why, in words",
	"outcome.challenged":               "whether the issuer asked the shopper",
	"outcome.authorisation.eci":        "how strong the authentication was: for the authorisation",
	"outcome.liability.shifts":         "whether the issuer bears the loss of fraud",
	"outcome.liability.because":        "by which rule",
	"outcome.liability.source":         "where that rule is published",
	"outcome.next.action":              "what the shop does next",
	"outcome.next.because":             "why",
	"outcome.cardholderInfo":           "what the issuer wants the shopper to read",
	"outcome.authorisation.expired":    "whether the values were kept too long ago to be told",
	"outcome.authorisation.dsTransID":  "the directory server's id, for the authorisation",
	"outcome.authorisation.acsTransID": "the issuer's id, for the authorisation",
	"amount":                           "null: nothing is bought",
	"amount.value":                     "purchaseAmount of the AReq",
	"amount.currency":                  "purchaseCurrency of the AReq",
	"amount.exponent":                  "purchaseExponent of the AReq",
	"merchant.name":                    "whose authentication it is",
	"merchant.acquirerMerchantID":      "the merchant, as its acquirer knows it",
	"resultRefused":                    "null: no result was refused",
	"resultRefused.at":                 "when a result came that was not valid",
	"resultRefused.code":               "errorCode of the answer to it",
	"resultRefused.description":        "errorDescription of the answer to it",
	"resultRefused.detail":             "errorDetail of the answer to it",
	"outcome.error":                    "null: it did not fail with an Erro",
	"outcome.error.component":          "who found the fault: C, S, D or A",
	"outcome.error.code":               "errorCode of the Erro",
	"outcome.error.description":        "errorDescription of the Erro",
	"outcome.error.detail":             "errorDetail of the Erro",
	"defaulted":                        "what the server filled in",
	"normalised":                       "what the server put right",
	"schemeFindings":                   "what the scheme asks for, too",
	"outcome.authorisation":            "null: there is nothing to bring along",
	"outcome":                          "null: it is not over",
	"browser":                          "null: no browser is waited for",
	"ares":                             "the ARes, which is shown above",
	"rreq":                             "the RReq, which is shown above",
	"returnUrl":                        "where the hosted page sends the shopper at the end",
	"type":                             "which event it is",
	"timestamp":                        "when the event was made",
	"card":                             "the card number, as the shopper typed it",
	"expiry":                           "the end of the card, year and month",
	"step":                             "what the page is to do",
	"end":                              "how it ended for the browser, which never learns the result",
	"method.url":                       "the page of the issuer's 3DS Method",
	"challenge.url":                    "the page where the issuer asks the shopper",
	"outcome.authorisation.threeDSServerTransID": "our id, for the authorisation",
	"outcome.authorisation.messageVersion":       "version of the protocol, for the authorisation",
	"outcome.authorisation.authenticationValue":  "proof of the authentication, for the authorisation: CAVV, AAV",
}

// secrets are the members that are never shown.
var secrets = []string{"browser.token", "outcome.authorisation.authenticationValue", "expiry"}

// tables are where elements of EMV 3DS in our own requests are looked up.
func tables() []*message.Table {
	var all []*message.Table
	for _, v := range []message.Version{message.V231, message.V220} {
		all = append(all, message.TableOf(message.AReq, v), message.TableOf(message.CReq, v),
			message.ObjectTable("threeDSMethodData", v))
	}
	return all
}

// explain says what a member is, and which page of the documentation describes it. Both are "" for one that is not
// known.
func explain(path string) (meaning, page string) {
	path = strings.TrimPrefix(path, "data.") // of an event
	if text := members[path]; text != "" {
		return text, "authentications.html"
	}
	for _, t := range tables() {
		if f := t.Field(path); f != nil {
			page := strings.ToLower(t.Name) + ".html#" + strings.ReplaceAll(t.Version.String(), ".", "")
			if t.Name == "threeDSMethodData" {
				page = "objects.html#threedsmethoddata"
			}
			return f.Doc, "reference/" + page + "-" + strings.ToLower(path)
		}
	}
	return "", ""
}

// mask returns a request, an answer or an event masked. What has no explanation is left out. It is nil for what is no
// object of JSON.
func mask(raw []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var all map[string]any
	if d.Decode(&all) != nil {
		return nil
	}
	text, err := json.Marshal(maskMembers("", all))
	if err != nil {
		return nil
	}
	return text
}

// maskMembers masks the members of the object at a path.
func maskMembers(path string, all map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range all {
		at := strings.TrimPrefix(path+"."+name, ".")
		switch value := value.(type) {
		case map[string]any:
			if name == "ares" || name == "rreq" {
				out[name] = "as it came"
			} else if inner := maskMembers(at, value); len(inner) > 0 {
				out[name] = inner
			}
		case []any:
			var items []any
			for _, item := range value {
				if shown, ok := maskScalar(at, item); ok {
					items = append(items, shown)
				}
			}
			if len(items) > 0 {
				out[name] = items
			}
		default:
			if shown, ok := maskScalar(at, value); ok {
				out[name] = shown
			}
		}
	}
	return out
}

// maskScalar returns as much of a value as may be shown; not ok if nothing is known of it.
func maskScalar(path string, value any) (shown any, ok bool) {
	path = strings.TrimPrefix(path, "data.")
	if meaning, _ := explain(path); meaning == "" {
		return nil, false
	}
	text, isText := value.(string)
	switch {
	case value == nil:
		return nil, true
	case slices.Contains(secrets, path):
		return "***", true
	case path == "card":
		return cardnumber.MaskNumber(strings.ReplaceAll(text, " ", "")), true
	case path == "browser.url":
		return text[:strings.LastIndexByte(text, '/')+1] + "***", true
	}
	for _, t := range tables() {
		f := t.Field(path)
		switch {
		case f == nil:
		case f.Mask == message.PAN:
			return cardnumber.MaskNumber(strings.ReplaceAll(text, " ", "")), true
		case f.Mask == message.Secret:
			return "***", true
		}
	}
	_, isObject := value.(map[string]any)
	_, isArray := value.([]any)
	if isText && len(text) > maxText {
		text = text[:maxText] + "…"
		return text, true
	}
	return value, !isObject && !isArray
}

// maxText is how much of a text is shown.
const maxText = 400

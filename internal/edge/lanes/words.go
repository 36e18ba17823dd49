package lanes

import (
	"slices"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// sentences say what a step is.
var sentences = map[string]string{
	"request":   "The shop asked for an authentication. Its request is not kept; what left for the directory is in the AReq.",
	"areq":      "What we asked the directory server, as it left.",
	"ares":      "What the directory server answered.",
	"rreq":      "The result of the challenge.",
	"rres":      "We told the directory server that the result is here.",
	"answered":  "The shop has its answer.",
	"erro":      "There was no answer that could be used.",
	"expired":   "Nobody came back in time.",
	"cancelled": "It was ended before there was a result.",
	"lookup":    "The card range says which directory the card is of, and which versions its issuer speaks.",
	"postauth":  "The shop has fetched the result.",
	"created":   "The authentication waits for the shopper's browser.",

	"method":        "In a hidden frame, the browser opens the page on which the issuer gets to know the device.",
	"method.asked":  "The browser is told where the issuer's 3DS Method is.",
	"method.done":   "The issuer has seen the device, and sends the frame back to us.",
	"method.notice": "The frame came back in time, so threeDSCompInd is Y.",
	"spc":           "The browser is to show its own dialog, in which the cardholder confirms the payment with a key that the issuer knows.",
	"spc.answer":    "The dialog is over. What came of it goes to the issuer in a second AReq, which has an id of its own.",
	"challenge":     "The browser gets the CReq, which opens the bank's page.",
	"creq":          "The bank's page opens with this message. The browser carries it; it can be read by the shopper.",
	"cres":          "The bank's page is over. What it says is never the result: the shopper could have changed it.",
	"cres.notice":   "The browser is back from the bank. The result came by the RReq, or is on its way.",
	"begin":         "The page tells what the issuer wants to know of the browser. With the 3DS Method over, the AReq leaves.",
	"end":           "The browser is told that it is over. It never learns the result.",
	"pay":           "The page sends the card to the shop's back end.",
	"handed":        "The page gets the id, and the address for threeds.js.",
	"order":         "The browser asks the shop how it ended.",
	"asked":         "The back end asks for the result. Only the merchant that began the authentication gets it.",
	"told":          "The result, for the back end alone.",
	"webhook":       "We told the shop's back end that there is a result.",
	"hosted":        "The browser opens the hosted page, which does what threeds.js does.",
	"cancel":        "The shopper has closed the dialog.",
	"complaint":     "We told the directory server what is wrong with its message.",
}

// byStatus say what the transStatus of an ARes or of an RReq means.
var byStatus = map[string]map[string]string{
	"ares": {
		"Y": "The bank knows the shopper without asking.", "A": "The bank takes no part; the attempt counts.",
		"C": "The bank wants to ask the shopper.", "D": "The bank asks the shopper apart from the shop.",
		"N": "The bank says no.", "U": "The bank cannot say at the moment.",
		"R": "The bank refuses, and asks not to be asked again.", "I": "For information only.",
		"S": "The shop's page is to ask the shopper.",
	},
	"rreq": {
		"Y": "The result of the challenge: the shopper passed.", "A": "The result of the challenge: the attempt counts.",
		"N": "The result of the challenge: the shopper did not pass.",
		"U": "The result of the challenge: the bank cannot say.",
		"R": "The result of the challenge: the bank refuses.",
	},
}

// Plain says in a sentence what a step with a masked message says; "" for a step that is not known.
func Plain(step string, masked []byte) string {
	if len(masked) > 0 {
		if m, err := message.Parse(masked, message.Limits{}); err == nil {
			if text := byStatus[step][m.Text("transStatus")]; text != "" {
				return text
			}
		}
	}
	return sentences[step]
}

// groupNames are the questions that elements answer, in the order of the page.
var groupNames = []string{
	"What decides", "Where the challenge is", "What is bought", "Card and cardholder", "The shopper's device",
	"Who takes part", "Ids, for a ticket", "Everything else",
}

// groupOf returns the question that an element answers.
func groupOf(path string) string {
	name, _, _ := strings.Cut(strings.ToLower(path), ".")
	name, _, _ = strings.Cut(name, "[")
	for i, prefixes := range [][]string{
		{
			"transstatus", "eci", "authenticationvalue", "authenticationtype", "acschallengemandated", "acsdecconind",
			"challengecancel", "whiteliststatus", "trustliststatus", "errorcode", "errordescription", "errordetail",
			"errorcomponent", "cardholderinfo", "interactioncounter", "authenticationmethod", "threedsrequestorchallengeind",
			"threedscompind", "resultsstatus",
		},
		{"acsurl", "acsrenderingtype", "acssignedcontent", "threedsrequestorappurl", "notificationurl",
			"threedsrequestordec"},
		{"purchase", "recurring", "mcc", "merchant", "messagecategory", "transtype", "installment", "paytoken"},
		{"acctnumber", "cardexpiry", "cardholder", "email", "billaddr", "shipaddr", "homephone", "mobilephone", "workphone",
			"acct", "addrmatch"},
		{"browser", "devicechannel", "deviceinfo", "devicerender", "sdk"},
		{"acquirer", "threedsrequestorid", "threedsrequestorname", "threedsrequestorurl", "threedsserverrefnumber",
			"threedsserveroperator", "threedsserverurl", "acsoperator", "acsreference", "dsreference",
			"threedsrequestorauthentication"},
		{"threedsservertransid", "dstransid", "acstransid", "messageversion", "messagetype"},
	} {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			return groupNames[i]
		}
	}
	return groupNames[len(groupNames)-1]
}

package extension

import (
	"strconv"

	"github.com/openthreeds/threeds/message"
)

// indexPath returns the path of an item of an array.
func indexPath(name string, i int) message.Path {
	return message.Path(name + "[" + strconv.Itoa(i) + "]")
}

// all are the extensions, in the order of their ids.
var all = []*Extension{
	{
		Word: "visaAcquirerCountry", ID: "A000000003-001", Name: "Acquirer Country Code Extension",
		Doc:  "country of the acquirer, for payments with one leg outside the region",
		From: message.V210, Until: message.V220, Schemes: []string{"visa"},
		// The form of the data has no source. The name of the field is that of 2.3.1.
		Source: "public source of a merchant SDK (class MessageExtension)",
		tables: newTables(map[message.Type][]message.Field{
			message.AReq: {
				{Need: required, Name: "acquirerCountryCode", Kind: message.Country, Doc: "country of the acquirer"},
				{Name: "version", Max: 5, Doc: "version of the extension"},
			},
		}),
	},
	{
		Word: "visaDAF", Name: "Digital Authentication Framework", RID: "A000000003",
		Members: []string{"authPayProcessReqInd", "authPayCredStatus", "dafAdvice"},
		Doc:     "Visa's framework for credentials that the issuer has authenticated",
		// The members are public. The id is not: an operator who knows it configures it.
		Versions: []string{"1.0"}, From: message.V210, Until: message.V231, Schemes: []string{"visa"},
		Source: "Cardinal, reference of DAFExtension; GPayments", Sure: true,
		tables: newTables(map[message.Type][]message.Field{
			message.AReq: {
				newVersionRow("1.0"),
				{Name: "authPayProcessReqInd", Kind: message.OneOf, Codes: authPayProcess, Doc: "what is asked for"},
			},
			message.ARes: dafAnswerRows,
			message.RReq: dafAnswerRows,
		}),
	},
	{
		Word: "mastercardAcsRBA", ID: "A000000004-acsRBA", Name: "ACS RBA", Keyed: true,
		Doc:  "how the risk of the transaction was judged",
		From: message.V210, Until: message.V231, Schemes: []string{"mastercard"},
		Source: "Cybersource, payer authentication, test case 5b", Sure: true,
		tables: newTables(map[message.Type][]message.Field{
			message.ARes: acsRBARows,
			message.RReq: acsRBARows,
		}),
	},
	{
		Word: "mastercardMerchantData", ID: "A000000004-merchantData", Name: "Merchant Data", Keyed: true,
		Doc:  "acquirer, exemptions and fraud rate of the merchant",
		From: message.V210, Until: message.V231, Schemes: []string{"mastercard"},
		Source: "Cardinal, page 1619492953", Sure: true,
		tables: newTables(map[message.Type][]message.Field{
			message.AReq: {
				{Name: "acquirerCountryCode", Kind: message.Country, Doc: "country of the acquirer"},
				{Name: "secureCorporatePayment", Kind: message.OneOf, Codes: yesNo,
					Doc: "a secure corporate payment exemption may apply"},
				{Name: "merchantFraudRate", Kind: message.Digits, Max: 2, Range: &message.Span{Min: 1, Max: 99},
					Doc: "fraud rate of the merchant in the EEA, as a class"},
			},
		}),
	},
	newCartesBancaires("cbAvAlgo", "CB-AVALGO", "algorithm of the authentication value", map[message.Type]message.Field{
		message.ARes: {Kind: message.OneOf, Codes: avAlgorithms}, message.RReq: {Kind: message.OneOf, Codes: avAlgorithms},
	}),
	newCartesBancaires("cbExemption", "CB-EXEMPTION", "exemptions that apply, a bitmap of three bytes",
		map[message.Type]message.Field{
			message.ARes: {Kind: message.Base64, Min: 4, Max: 4}, message.RReq: {Kind: message.Base64, Min: 4, Max: 4},
		}),
	newCartesBancaires("cbItems", "CB-ITEMS", "number of articles bought", map[message.Type]message.Field{
		message.AReq: {Kind: message.Digits, Min: 2, Max: 2},
	}),
	newCartesBancaires("cbScore", "CB-SCORE", "score of the risk", map[message.Type]message.Field{
		message.AReq: {Kind: message.Alnum, Max: 20},
		message.ARes: {Kind: message.Digits, Max: 2}, message.RReq: {Kind: message.Digits, Max: 2},
	}),
	newCartesBancaires("cbUseCase", "CB-USECASE", "kind of payment", map[message.Type]message.Field{
		message.AReq: {Kind: message.OneOf, Codes: paymentUseCases},
	}),
	{
		Word: "mirRbaScoring", ID: "A00000065801", Name: "rbaScoring",
		Doc:  "how the risk of the transaction was judged",
		From: message.V210, Until: message.V220,
		Source: "github.com/rbkmoney, fixtures of its 3-D Secure messages", Sure: true,
		tables: newTables(map[message.Type][]message.Field{
			message.ARes: {
				{Name: "totalScore", Kind: message.Number, Doc: "score of all rules"},
				{Name: "ruleSets", Kind: message.Object, Of: rbaRuleSet, Array: true, Doc: "rules that contributed to the score"},
			},
		}),
	},
	{
		Word: "deviceAcknowledgement", ID: "A000000802-001", Name: "Device Acknowledgement",
		Doc:      "the app uses a Split-SDK; which device data the issuer reads",
		Versions: []string{"1.0", "2.0"}, From: message.V220, Until: message.V220, Channels: []message.Channel{message.APP},
		Source: "EMVCo white paper on 3-D Secure, chapter Device Acknowledgement, table 6.1", Sure: true,
		tables: newTables(map[message.Type][]message.Field{
			message.AReq: {
				newVersionRow("1.0", "2.0"),
				copyRow(message.AReq, "sdkType"), copyRow(message.AReq, "defaultSdkType"), copyRow(message.AReq, "splitSdkType"),
				{Name: "splitSdkServerID", Max: 32, Doc: "Split-SDK server, assigned by the DS"},
				{Name: "sdkSignatureTimestamp", Kind: message.DateTime, Doc: "when the signed content was made, UTC"},
				copyRow(message.AReq, "sdkServerSignedContent"),
				copyAsArray(copyRow(message.AReq, "deviceRenderOptions").Of, "sdkAuthenticationType"),
			},
			message.ARes: {
				newVersionRow("1.0", "2.0"),
				copyAsArray(message.TableOf(message.ARes, message.V231), "authenticationMethod"),
				copyRow(message.ARes, "deviceInfoRecognisedVersion"),
				copyField(message.ObjectTable("acsRenderingType", message.V231), "deviceUserInterfaceMode"),
			},
		}),
	},
	{
		Word: "travelIndustry", ID: "A000000802-002", Name: "Travel Industry",
		Doc:  "what is booked: flights, cars, hotels, and for whom",
		From: message.V210, Until: message.V220,
		// The members of car, hotel and travellers are public in part only, so they pass as they are.
		Source: "Elavon, travel extension; Cardinal, page 1622409577", Sure: true,
		tables: newTables(map[message.Type][]message.Field{
			message.AReq: {
				{Name: "agencyIndicator", Kind: message.OneOf, Codes: yesNo, Doc: "a travel agency buys for the customer"},
				{Name: "air", Kind: message.Object, Of: airTravel, Doc: "flights"},
				{Name: "car", Kind: message.JSON, Mask: message.Secret, Doc: "cars that are hired"},
				{Name: "hotel", Kind: message.JSON, Mask: message.Secret, Doc: "hotels"},
				{Name: "travellers", Kind: message.JSON, Array: true, Mask: message.Secret, Doc: "the travellers"},
			},
		}),
	},
	{
		Word: "bridging", ID: BridgingID, Name: "Bridging", OnlyListed: true,
		Doc:      "elements and values of 2.3.1 in messages of 2.2.0",
		Versions: []string{"1.0", "2.0"}, From: message.V220, Until: message.V220,
		// Names and shape of recurringData: the white paper. addData: Placetopay for the AReq; samples
		// of ARes and RReq in public sources (authenticationMethod, transChallengeExemption).
		// challengeData: the public source of a merchant SDK (oobContinue).
		Source: "EMVCo white paper on 3-D Secure, chapter Bridging, table 6.2; Placetopay, session BME", Sure: true,
		tables: newTables(map[message.Type][]message.Field{
			message.AReq: {
				newVersionRow("1.0", "2.0"),
				{Name: "recurringData", Kind: message.Object, Of: recurringData, Doc: "what is recurring"},
				{Name: "addData", Kind: message.Object, Of: addDataOfAReq, Doc: "further data of 2.3.1"},
			},
			message.ARes: {
				newVersionRow("1.0", "2.0"),
				{Name: "addData", Kind: message.Object, Of: addDataOfAnswers, Doc: "further data of 2.3.1"},
			},
			message.RReq: {
				newVersionRow("1.0", "2.0"),
				{Name: "addData", Kind: message.Object, Of: addDataOfAnswers, Doc: "further data of 2.3.1"},
			},
			message.CReq: {
				newVersionRow("1.0", "2.0"),
				{Name: "challengeData", Kind: message.Object, Of: challengeDataOfCReq, Doc: "how the out-of-band step went on"},
			},
			message.CRes: {
				newVersionRow("1.0", "2.0"),
				{Name: "challengeData", Kind: message.JSON, Doc: "how the SDK reaches the app of the bank"},
			},
		}),
	},
}

const required = "RR RR RR"

var yesNo = &message.Codes{Name: "yesNo", Values: []message.CodeValue{{Value: "Y", Meaning: "yes"},
	{Value: "N", Meaning: "no"}}}

var authPayProcess = &message.Codes{Name: "authPayProcessReqInd", Values: []message.CodeValue{
	{Value: "01", Meaning: "process as a transaction of the framework"},
	{Value: "02", Meaning: "tell the status of the credential"},
}}

// dafAnswerRows are the fields that the directory server adds to an answer.
var dafAnswerRows = []message.Field{
	newVersionRow("1.0"),
	{Name: "authPayCredStatus", Kind: message.OneOf,
		Codes: &message.Codes{Name: "authPayCredStatus", Values: []message.CodeValue{
			{Value: "Y", Meaning: "authenticated"}, {Value: "N", Meaning: "not authenticated"}, {Value: "U", Meaning: "unknown"},
			{Value: "B", Meaning: "blocked by the issuer"}, {Value: "I", Meaning: "invalid"},
		}}, Doc: "status of the credential"},
	{Name: "authPayProcessReqInd", Kind: message.OneOf, Codes: authPayProcess, Doc: "what was asked for"},
	{Name: "dafAdvice", Kind: message.OneOf, Codes: &message.Codes{Name: "dafAdvice", Values: []message.CodeValue{
		{Value: "01", Meaning: "must be approved"}, {Value: "02", Meaning: "the issuer decides"},
	}}, Doc: "advice to the issuer"},
}

// acsRBARows are the fields of acsRBA. Their values are the issuer's.
var acsRBARows = []message.Field{
	{Name: "status", Max: 40, Doc: "whether the risk was judged"},
	{Name: "decision", Max: 40, Doc: "class of the risk"},
	{Name: "score", Kind: message.Digits, Max: 4, Doc: "score of the risk"},
	{Name: "reasonCode1", Max: 40, Doc: "first reason"},
	{Name: "reasonCode2", Max: 40, Doc: "second reason"},
}

var rbaRuleSet = message.NewTable("ruleSet",
	message.Field{Name: "ruleSetId", Kind: message.Number, Doc: "number of the rules"},
	message.Field{Name: "score", Kind: message.Number, Doc: "what they contributed"},
	message.Field{Name: "description", Doc: "what they are about"},
)

var airTravel = message.NewTable("air",
	message.Field{Name: "airlineTicketInfo", Kind: message.Object, Of: airlineTicketInfo, Doc: "tickets"},
	message.Field{Name: "itineraryInfo", Kind: message.Object, Of: itineraryInfo, Doc: "journey"},
)

var airlineTicketInfo = message.NewTable("airlineTicketInfo",
	message.Field{Name: "currencyMismatchIndicator", Kind: message.OneOf, Codes: yesNo,
		Doc: "the authorisation may be in another currency"},
	message.Field{Name: "ticketAmount", Kind: message.Digits, Max: 48, Doc: "price of all tickets in minor units"},
	message.Field{Name: "ticketCount", Kind: message.Digits, Max: 2, Doc: "number of tickets"},
	message.Field{Name: "ticketCurrency", Kind: message.Digits, Min: 3, Max: 3,
		Doc: "currency of the tickets, ISO 4217 numeric"},
)

var itineraryInfo = message.NewTable("itineraryInfo",
	message.Field{Name: "flightIndicator", Kind: message.OneOf,
		Codes: &message.Codes{Name: "flightIndicator", Values: []message.CodeValue{
			{Value: "01", Meaning: "one way"}, {Value: "02", Meaning: "there and back"},
			{Value: "03", Meaning: "several cities"},
		}}, Doc: "kind of journey"},
	message.Field{Name: "segments", Kind: message.Object, Of: flightSegment, Array: true, Doc: "flights"},
)

var flightSegment = message.NewTable("segment",
	message.Field{Name: "departureAirport", Kind: message.Alnum, Min: 3, Max: 3, Doc: "airport of departure, IATA"},
	message.Field{Name: "departureDate", Kind: message.Date, Doc: "day of departure, local"},
	message.Field{Name: "departureTime", Kind: message.Digits, Min: 4, Max: 4, Range: &message.Span{Min: 0, Max: 2359},
		Doc: "time of departure, local, HHMM"},
	message.Field{Name: "arrivalAirport", Kind: message.Alnum, Min: 3, Max: 3, Doc: "airport of arrival, IATA"},
	message.Field{Name: "arrivalDate", Kind: message.Date, Doc: "day of arrival, local"},
	message.Field{Name: "arrivalTime", Kind: message.Digits, Min: 4, Max: 4, Range: &message.Span{Min: 0, Max: 2359},
		Doc: "time of arrival, local, HHMM"},
	message.Field{Name: "operatingCarrier", Kind: message.Alnum, Min: 2, Max: 3, Doc: "airline that flies, IATA"},
)

var recurringInd = message.NewTable("recurringInd",
	copyField(message.ObjectTable("recurringInd", message.V231), "amountInd"),
	copyField(message.ObjectTable("recurringInd", message.V231), "frequencyInd"),
)

// recurringData are elements of 2.3.1 that 2.2.0 lacks.
var recurringData = message.NewTable("recurringData",
	copyRow(message.AReq, "recurringAmount"), copyRow(message.AReq, "recurringCurrency"),
	copyRow(message.AReq, "recurringExponent"),
	copyRow(message.AReq, "recurringDate"),
	message.Field{Name: "recurringInd", Kind: message.Object, Of: recurringInd,
		Doc: "fixed or variable amount and frequency"},
)

// addDataOfAReq are elements that 2.2.0 lacks, and elements with values that it lacks. A
// cardSecurityCode is read and never written.
var addDataOfAReq = message.NewTable("addData",
	copyRow(message.AReq, "cardSecurityCode"),
	copyRow(message.AReq, "threeDSRequestorAuthenticationInd"),
	copyRow(message.AReq, "threeRIInd"),
	copyField(message.ObjectTable("merchantRiskIndicator", message.V231), "transChar"),
)

var addDataOfAnswers = message.NewTable("addData",
	copyRow(message.ARes, "authenticationMethod"),
	copyRow(message.ARes, "transChallengeExemption"),
)

var challengeDataOfCReq = message.NewTable("challengeData", copyRow(message.CReq, "oobContinue"))

// avAlgorithms, CB-AVALGO: Stripe's API reference, cb_avalgo.
var avAlgorithms = &message.Codes{Name: "avAlgorithm", Values: []message.CodeValue{
	{Value: "0", Meaning: "HMAC"}, {Value: "1", Meaning: "CVV"}, {Value: "2", Meaning: "CVV with ATN"},
	{Value: "3", Meaning: "Mastercard SPA"}, {Value: "4", Meaning: "American Express SafeKey"},
	{Value: "A", Meaning: "AV of CB"},
}}

// paymentUseCases, CB-USECASE: Cardinal, page 1620770863.
var paymentUseCases = &message.Codes{Name: "paymentUseCase", Values: []message.CodeValue{
	{Value: "01", Meaning: "single payment"}, {Value: "02", Meaning: "subscription of fixed amount and term"},
	{Value: "03", Meaning: "payment by instalments"}, {Value: "04", Meaning: "payment by shipment"},
	{Value: "05", Meaning: "other recurring payments"},
}}

// newCartesBancaires returns an extension of Cartes Bancaires, which has one value. The names and
// values are public. That an id begins with the RID and an underscore is how public code reads
// them (github.com/juspay/hyperswitch); the form of the data has no source.
func newCartesBancaires(word, name, doc string, values map[message.Type]message.Field) *Extension {
	e := &Extension{
		Word: word, ID: "A000000042_" + name, Name: name, Doc: doc, Single: true,
		From: message.V210, Until: message.V231, Schemes: []string{"cb"},
		Source: "Cardinal, page 1620770863; Stripe, API reference",
		tables: make(map[message.Type]*message.Table),
	}
	for t, f := range values {
		f.Name, f.Doc = e.ID, doc
		e.tables[t] = message.NewTable(word, f)
	}
	return e
}

// newTables makes the tables of an extension from their rows.
func newTables(rows map[message.Type][]message.Field) map[message.Type]*message.Table {
	tables := make(map[message.Type]*message.Table)
	for t, list := range rows {
		tables[t] = message.NewTable(t.String(), list...)
	}
	return tables
}

// newVersionRow returns the row of the version of an extension.
func newVersionRow(versions ...string) message.Field {
	codes := &message.Codes{Name: "extensionVersion"}
	for _, v := range versions {
		codes.Values = append(codes.Values, message.CodeValue{Value: v})
	}
	return message.Field{
		Need: required, Name: "version", Kind: message.OneOf, Codes: codes, Doc: "version of the extension",
	}
}

// copyRow returns the row of an element of 2.3.1 as one that is always optional.
func copyRow(t message.Type, name string) message.Field {
	return copyField(message.TableOf(t, message.V231), name)
}

// copyField returns a row of a table as one that is always optional.
func copyField(t *message.Table, name string) message.Field {
	f := *t.Field(name)
	f.Need, f.When, f.Forbid, f.PAOnly, f.Partial = "", "", "", false, false
	f.Else, f.Leg, f.DS = message.Optional, message.EveryLeg, false
	return f
}

// copyAsArray returns a row for an array of codes, or one of them in place of the array.
func copyAsArray(t *message.Table, name string) message.Field {
	f := copyField(t, name)
	return message.Field{Name: f.Name, Kind: f.Kind, Codes: f.Codes, List: f.List, AltArray: true, Doc: f.Doc}
}

package api

import (
	"encoding/json"
	"time"
)

// A Status says where an authentication is. The last four are final.
type Status string

// The statuses.
const (
	StatusRequiresBrowser Status = "requires_browser" // The page of the shopper has to run threeds.js.
	StatusInProgress      Status = "in_progress"      // The AReq is on its way.
	StatusChallenge       Status = "challenge"        // The issuer challenges the shopper.
	StatusDecoupled       Status = "decoupled"        // The issuer asks the shopper outside of the shop.
	StatusCompleted       Status = "completed"        // The issuer has answered, whatever it said.
	StatusFailed          Status = "failed"           // No answer came, or the directory server refused the request.
	StatusCancelled       Status = "cancelled"        // The merchant or the shopper has ended it.
	StatusExpired         Status = "expired"          // The time for the page or for the challenge is over.
)

// Statuses returns all statuses, in the order in which they may follow each other.
func Statuses() []Status {
	return []Status{
		StatusRequiresBrowser, StatusInProgress, StatusChallenge, StatusDecoupled,
		StatusCompleted, StatusFailed, StatusCancelled, StatusExpired,
	}
}

// IsFinal reports whether a status never changes any more.
func (s Status) IsFinal() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusCancelled || s == StatusExpired
}

// An AuthenticationSummary is one run of 3-D Secure without its messages, as lists and events tell it.
type AuthenticationSummary struct {
	ID             string           `json:"id" schema:"format=uuid"` // The threeDSServerTransID.
	Status         Status           `json:"status"`
	Reference      Text             `json:"reference"` // X-Reference of the /auth, or reference of the request.
	Created        time.Time        `json:"created"`   // To a second.
	Amount         *PurchaseAmount  `json:"amount"`    // What is bought, as the AReq says it; null without a payment.
	Merchant       PurchaseMerchant `json:"merchant"`
	Card           Card             `json:"card"`
	MessageVersion Text             `json:"messageVersion"`
	// The first result that came and was not valid; null if there was none.
	ResultRefused *ResultRefused `json:"resultRefused"`
	Outcome       *Outcome       `json:"outcome"` // Null before the end.
	// What was put right in the request. Of one that began with /auth, without values.
	Normalised     []Correction    `json:"normalised"`
	Defaulted      []string        `json:"defaulted"`      // Members of the request that the server filled in.
	SchemeFindings []SchemeFinding `json:"schemeFindings"` // What the scheme asks for and the request lacked.
}

// IsFinal reports whether the status will not change any more.
func (a *AuthenticationSummary) IsFinal() bool { return a.Status.IsFinal() }

// An Authentication is one run of 3-D Secure with its messages.
type Authentication struct {
	AuthenticationSummary
	Browser   *Browser        `json:"browser,omitempty"`          // While the authentication waits for its browser.
	Challenge *AppChallenge   `json:"challenge,omitempty"`        // In an app while status is challenge.
	ARes      json.RawMessage `json:"ares" schema:"type=object?"` // The ARes as it came; null if none has come.
	RReq      json.RawMessage `json:"rreq" schema:"type=object?"` // The RReq as it came; null if none has come.
}

// A PurchaseAmount is what is bought, as the AReq says it.
type PurchaseAmount struct {
	Value    string `json:"value"`    // The purchaseAmount, in the smallest unit of the currency.
	Currency string `json:"currency"` // The purchaseCurrency by ISO 4217, in digits.
	Exponent Text   `json:"exponent"` // The purchaseExponent: how many digits of value stand behind the point.
}

// A PurchaseMerchant says whose authentication it is.
type PurchaseMerchant struct {
	Name               string `json:"name"`               // The merchant that owns the authentication.
	AcquirerMerchantID Text   `json:"acquirerMerchantID"` // As the AReq says it.
}

// A Card is what may be shown of a card.
type Card struct {
	Last4   string   `json:"last4"`
	Scheme  Text     `json:"scheme"`  // Null if no directory server has the card.
	Schemes []string `json:"schemes"` // All that hold the card, the preferred one first.
}

// A Browser is what the page of a shopper needs. The URL and the token are given once, in the answer of POST
// /authentications.
type Browser struct {
	URL       string    `json:"url,omitempty"` // For threeds.js, or to send the shopper to.
	Token     string    `json:"token,omitempty"`
	Script    string    `json:"script"`    // The URL of threeds.js.
	Integrity string    `json:"integrity"` // The subresource integrity of threeds.js.
	Expires   time.Time `json:"expires"`   // To a second.
}

// An AppChallenge is what the SDK of an app wants of the ARes.
type AppChallenge struct {
	ACSTransID         string          `json:"acsTransID,omitempty"`
	ACSReferenceNumber string          `json:"acsReferenceNumber,omitempty"`
	ACSSignedContent   string          `json:"acsSignedContent,omitempty"`
	ACSRenderingType   json.RawMessage `json:"acsRenderingType,omitempty" schema:"type=object"`
	DSTransID          string          `json:"dsTransID,omitempty"`
	MessageVersion     string          `json:"messageVersion,omitempty"`
}

// A ResultRefused is a result that came and was not valid, and the answer to the directory server.
type ResultRefused struct {
	At          time.Time `json:"at"`                               // To a second.
	Code        string    `json:"code" schema:"pattern=^[0-9]{3}$"` // Of the Erro that answered the RReq.
	Description string    `json:"description"`
	Detail      string    `json:"detail"`
}

// An AuthenticationRequest begins an authentication. It has members of an AReq, and some of our own. What the server
// can fill in need not be sent. The other elements of an AReq may be sent as well.
type AuthenticationRequest struct {
	_ struct{} `schema:"additionalProperties=true"`

	AcctNumber       string `json:"acctNumber" schema:"pattern=^[0-9]{13,19}$"`
	CardExpiryDate   string `json:"cardExpiryDate,omitempty"`   // YYMM.
	PurchaseAmount   string `json:"purchaseAmount,omitempty"`   // In the smallest unit of the currency.
	PurchaseCurrency string `json:"purchaseCurrency,omitempty"` // By ISO 4217, in digits or letters.
	// Else 02, a browser.
	DeviceChannel   string `json:"deviceChannel,omitempty" schema:"enum=01|02|03"`
	MessageCategory string `json:"messageCategory,omitempty"` // Else 01, a payment.
	// Else the highest that card, directory server and this server share.
	MessageVersion string `json:"messageVersion,omitempty"`
	// The merchant's own number of the order.
	Reference string `json:"reference,omitempty" schema:"maxLength=64"`
	ReturnURL string `json:"returnUrl,omitempty"` // Where the hosted page sends the shopper at the end.
	DS        string `json:"ds,omitempty"`        // The scheme of a co-badged card.
}

// An AuthenticationSearch says which authentications are wanted. Members that are absent do not count.
type AuthenticationSearch struct {
	_ struct{} `schema:"additionalProperties=false"`

	// The whole card number; it is searched by a hash.
	AcctNumber string    `json:"acctNumber,omitempty" schema:"pattern=^[0-9]{13,19}$"`
	Reference  string    `json:"reference,omitempty" schema:"minLength=1 maxLength=64"`
	Last4      string    `json:"last4,omitempty" schema:"pattern=^[0-9]{4}$"`
	Scheme     string    `json:"scheme,omitempty"`
	Status     Status    `json:"status,omitempty"`
	Result     Result    `json:"result,omitempty"`
	From       time.Time `json:"from,omitzero"` // The beginning, which is in it.
	To         time.Time `json:"to,omitzero"`   // The end, which is not in it.
	// Else 50.
	Limit  int    `json:"limit,omitempty" schema:"minimum=1 maximum=100"`
	Cursor string `json:"cursor,omitempty"` // What the page before has as next; the rest must be as there.
}

// A TransIDRequest is the body of POST /outcome and of /postauth.
type TransIDRequest struct {
	ThreeDSServerTransID string `json:"threeDSServerTransID" schema:"format=uuid"`
}

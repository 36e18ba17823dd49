package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// An Authentication is one run of 3-D Secure as the server tells of it.
type Authentication struct {
	Answer `json:"-"`

	ID             string           `json:"id"`
	Status         string           `json:"status"` // requires_browser, in_progress, challenge, decoupled, completed, failed, cancelled or expired
	Reference      string           `json:"reference"`
	Created        time.Time        `json:"created"`
	Amount         *Amount          `json:"amount"` // what is bought; nil without a payment
	Merchant       PurchaseMerchant `json:"merchant"`
	Card           CardSummary      `json:"card"`
	MessageVersion string           `json:"messageVersion"`
	Browser        *Browser         `json:"browser"`        // nil unless the authentication waits for a browser
	ResultRefused  *Refusal         `json:"resultRefused"`  // the first result that came and was not valid; nil if there was none
	Outcome        *Outcome         `json:"outcome"`        // nil before the end
	Defaulted      []string         `json:"defaulted"`      // members of the request that the server filled in
	SchemeFindings []SchemeFinding  `json:"schemeFindings"` // what the scheme asks for and the request lacked
	ARes           *ARes            `json:"ares"`           // nil when none has come
	RReq           *RReq            `json:"rreq"`           // nil when none has come
}

// IsFinal reports whether the status will not change any more.
func (a *Authentication) IsFinal() bool { return a.Outcome != nil }

// An Amount is what is bought, as the AReq says it.
type Amount struct {
	Value    string `json:"value"`    // in the smallest unit of the currency
	Currency string `json:"currency"` // by ISO 4217, in digits
	Exponent string `json:"exponent"`
}

// A PurchaseMerchant is whose authentication it is.
type PurchaseMerchant struct {
	Name               string `json:"name"`               // of the merchant that owns it
	AcquirerMerchantID string `json:"acquirerMerchantID"` // as the AReq says it
}

// A Refusal is a result that came and was not valid, and what the directory server was told.
type Refusal struct {
	At          time.Time `json:"at"`
	Code        string    `json:"code"` // three digits, as in an Erro
	Description string    `json:"description"`
	Detail      string    `json:"detail"`
}

// A CardSummary is what may be shown of a card.
type CardSummary struct {
	Last4   string   `json:"last4"`
	Scheme  string   `json:"scheme"`  // empty if no directory server has the card
	Schemes []string `json:"schemes"` // that hold the card, the preferred one first
}

// A Browser is what the page of a shopper needs. URL and Token are told once, by Authenticate.
type Browser struct {
	URL       string    `json:"url"` // for threeds.js, or to send the shopper to
	Token     string    `json:"token"`
	Script    string    `json:"script"` // the URL of threeds.js, and its subresource integrity
	Integrity string    `json:"integrity"`
	Expires   time.Time `json:"expires"`
}

// An Outcome says how an authentication ended, who is liable, and what to do next.
type Outcome struct {
	Result            string         `json:"result"` // authenticated, attempted, not_authenticated, …
	TransStatus       string         `json:"transStatus"`
	TransStatusReason string         `json:"transStatusReason"`
	Reason            string         `json:"reason"` // the meaning of TransStatusReason in words
	Challenged        bool           `json:"challenged"`
	Authorisation     *Authorisation `json:"authorisation"` // nil when there is nothing to bring along
	Liability         Liability      `json:"liability"`
	Next              Next           `json:"next"`
	Error             *OutcomeError  `json:"error"`          // with which it failed; nil if there was none
	CardholderInfo    string         `json:"cardholderInfo"` // a text that the issuer wants the shopper to see
}

// An Authorisation has the values that belong into the authorisation of the payment.
type Authorisation struct {
	ECI                  string `json:"eci"`
	AuthenticationValue  string `json:"authenticationValue"`
	DSTransID            string `json:"dsTransID"`
	MessageVersion       string `json:"messageVersion"`
	ThreeDSServerTransID string `json:"threeDSServerTransID"`
	ACSTransID           string `json:"acsTransID"`
	Expired              bool   `json:"expired"`
}

// An OutcomeError is the Erro with which an authentication failed.
type OutcomeError struct {
	Component   string `json:"component"` // that found the fault: C (SDK), S (this server), D (directory server) or A (issuer)
	Code        string `json:"code"`      // three digits
	Description string `json:"description"`
	Detail      string `json:"detail"`
}

// A Liability says whether liability for fraud goes to the issuer: yes, no or unknown.
type Liability struct {
	Shifts  string `json:"shifts"`
	Because string `json:"because"`
	Source  string `json:"source"`
}

// A Next says what to do after an authentication.
type Next struct {
	Action  string `json:"action"` // authorise, do_not_authorise, retry_later, …
	Because string `json:"because"`
}

// A Problem is the error of an operation that answers with problem+json.
type Problem struct {
	Answer `json:"-"`

	Type   string         `json:"type"` // "urn:threeds:problem:not-found"
	Title  string         `json:"title"`
	Detail string         `json:"detail"`
	Faults []ProblemFault `json:"errors"`
}

// A ProblemFault is one fault of a request.
type ProblemFault struct {
	Pointer   string `json:"pointer"` // RFC 6901, into the body
	Parameter string `json:"parameter"`
	Header    string `json:"header"`
	Code      string `json:"code"` // three digits, as in an Erro
	Rule      string `json:"rule"`
	Cure      string `json:"cure"`

	Limit *FaultLimit `json:"limit"` // what would be right
}

// A FaultLimit is what would be right in the place of a fault: numbers, a form, or a list of codes.
type FaultLimit struct {
	Min     *int     `json:"min"`
	Max     *int     `json:"max"`
	Pattern string   `json:"pattern"`
	Allowed []string `json:"allowed"`
}

func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

var (
	create         = operation{"/authentications", longTimeout}
	authentication = operation{"/authentications/", shortTimeout}
	outcome        = operation{"/outcome", shortTimeout}
	search         = operation{"/authentications/search", shortTimeout}
)

// Authenticate begins an authentication. The request is a JSON object with the names of EMV 3DS; a browser payment needs
// acctNumber, cardExpiryDate, purchaseAmount and purchaseCurrency. With an idempotency key, the same request may be made
// again and has one effect; "" means none. The error is a [Problem] that has all faults of the request.
func (c *Client) Authenticate(ctx context.Context, request any, idempotencyKey string) (*Authentication, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	header := c.jsonHeader()
	if idempotencyKey != "" {
		header.Set("Idempotency-Key", idempotencyKey)
	}
	a := new(Authentication)
	return orNil(a, c.ask(ctx, http.MethodPost, create, header, body, a))
}

// Cancel ends an authentication that Authenticate has begun and that is not final. The error is a [Problem] with status
// 409 for one that is over.
func (c *Client) Cancel(ctx context.Context, threeDSServerTransID string) (*Authentication, error) {
	o := operation{authentication.path + url.PathEscape(threeDSServerTransID) + "/cancel", shortTimeout}
	a := new(Authentication)
	return orNil(a, c.ask(ctx, http.MethodPost, o, c.jsonHeader(), nil, a))
}

// Authentication fetches an authentication, and its outcome once there is one. A wait of up to 60 s returns as soon as
// the status is final. The error is a [Problem] with status 404 for an id that is unknown, or another merchant's.
func (c *Client) Authentication(ctx context.Context, threeDSServerTransID string, wait time.Duration) (*Authentication, error) {
	o := operation{authentication.path + url.PathEscape(threeDSServerTransID), shortTimeout + wait}
	if seconds := int(wait / time.Second); seconds > 0 {
		o.path += "?wait=" + strconv.Itoa(seconds)
	}
	a := new(Authentication)
	return orNil(a, c.ask(ctx, http.MethodGet, o, c.jsonHeader(), nil, a))
}

// Outcome fetches the authentication that an /auth has begun, with its outcome once there is one.
func (c *Client) Outcome(ctx context.Context, threeDSServerTransID string) (*Authentication, error) {
	a := new(Authentication)
	return orNil(a, c.post(ctx, outcome, map[string]string{"threeDSServerTransID": threeDSServerTransID}, a))
}

// A Search says which authentications are wanted. Members that are empty do not count.
type Search struct {
	AcctNumber string    `json:"acctNumber,omitempty"` // the whole card number; the server searches by a hash of it
	Reference  string    `json:"reference,omitempty"`
	Last4      string    `json:"last4,omitempty"`
	Scheme     string    `json:"scheme,omitempty"`
	Status     string    `json:"status,omitempty"`
	Result     string    `json:"result,omitempty"`
	From       time.Time `json:"from,omitzero"`
	To         time.Time `json:"to,omitzero"`
	Limit      int       `json:"limit,omitempty"` // 0 means 50, at most 100
	Cursor     string    `json:"cursor,omitempty"`
}

// A Page is part of the authentications that a search has found, newest first.
type Page struct {
	Answer `json:"-"`

	Data []*Authentication `json:"data"`
	Next string            `json:"next"` // the cursor of the next page; empty at the end
}

// Search finds authentications of the merchant, as the server's journal has them: without messages and authentication
// values. The error is a [Problem] with status 404 if the server keeps no journal.
func (c *Client) Search(ctx context.Context, s Search) (*Page, error) {
	p := new(Page)
	return orNil(p, c.post(ctx, search, s, p))
}

// post posts a request as JSON and reads the answer.
func (c *Client) post(ctx context.Context, o operation, request any, into receiver) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return c.ask(ctx, http.MethodPost, o, c.jsonHeader(), body, into)
}

// ask makes a request and reads the answer. The error is a [Problem] or a [RefusedError] if an answer came.
func (c *Client) ask(ctx context.Context, method string, o operation, header http.Header, body []byte, into receiver) error {
	answer, err := c.send(ctx, method, o, header, body)
	if err != nil {
		return err
	}
	into.receive(answer)
	return answer.read(into)
}

// read reads an answer of JSON into a value. The error is a [Problem] or a [RefusedError].
func (a Answer) read(into any) error {
	if a.Header.Get("Content-Type") == "application/problem+json" {
		said := &Problem{Answer: a}
		if json.Unmarshal(a.Raw, said) == nil {
			return said
		}
	}
	if a.Status != http.StatusOK && a.Status != http.StatusCreated || json.Unmarshal(a.Raw, into) != nil {
		return &RefusedError{a}
	}
	return nil
}

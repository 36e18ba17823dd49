package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/openthreeds/threeds/api"
)

// An Authentication is one run of 3-D Secure as the server tells of it.
type Authentication struct {
	api.Authentication
	ARes *ARes `json:"ares"` // nil when none has come
	RReq *RReq `json:"rreq"` // nil when none has come

	Answer Answer `json:"-"`
}

func (a *Authentication) receive(answer Answer) { a.Answer = answer }

// A Problem is the error of an operation that answers with problem+json.
type Problem struct {
	api.Problem
	Answer Answer `json:"-"`
}

func (p *Problem) answer() *Answer { return &p.Answer }

var (
	create         = operation{"/authentications", longTimeout}
	authentication = operation{"/authentications/", shortTimeout}
	outcome        = operation{"/outcome", shortTimeout}
	search         = operation{"/authentications/search", shortTimeout}
)

// Authenticate begins an authentication. The request is an [api.AuthenticationRequest], or any JSON object with the
// names of EMV 3DS; a browser payment needs acctNumber, cardExpiryDate, purchaseAmount and purchaseCurrency. With an
// idempotency key, the same request may be made again and has one effect; "" means none. The error is a [Problem] that
// has all faults of the request.
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
func (c *Client) Authentication(ctx context.Context, threeDSServerTransID string,
	wait time.Duration) (*Authentication, error) {
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
	return orNil(a, c.post(ctx, outcome, api.TransIDRequest{ThreeDSServerTransID: threeDSServerTransID}, a))
}

// A Page is part of the authentications that a search has found, newest first.
type Page struct {
	api.List[api.AuthenticationSummary]
	Answer Answer `json:"-"`
}

func (p *Page) receive(answer Answer) { p.Answer = answer }

// Search finds authentications of the merchant, as the server's journal has them: without messages and authentication
// values. The error is a [Problem] with status 404 if the server keeps no journal.
func (c *Client) Search(ctx context.Context, s api.AuthenticationSearch) (*Page, error) {
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
func (c *Client) ask(ctx context.Context, method string, o operation, header http.Header, body []byte,
	into receiver) error {
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

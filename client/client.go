// Package client calls the API of a 3DS Server.
//
// Call [New] with the URL of the server and an API key. For a payment, call [Client.Preauth] with the card number
// first: it returns an id, the protocol versions of the card, and where the 3DS Method runs. Then call [Client.Auth]
// with the AReq that carries the id. If the ARes asks for a challenge, call [Client.PostAuth] until the result is
// there. [Client.Authentication] says in words how it ended, who is liable, and what to do next. For a card that is not
// enrolled in EMV 3-D Secure, [Client.Enrolled] and [Client.Check] do the same in 3-D Secure 1.0.2.
//
// The server refuses in two ways, and each has a type for [errors.As]: an [Erro] is a message of the protocol, and a
// [RefusedError] is any other answer, such as that to a wrong API key. The operations of 1.0.2 have a
// [ParameterError] in place of an Erro. Every other error means that no answer came: the request may have arrived.
//
// A request is never sent twice, since a repeated AReq is another authentication.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
)

// A Client calls the API of one server with one API key. It is safe for concurrent use.
type Client struct {
	url, key string
	http     *http.Client
}

// New returns a client for the server at a URL such as https://3ds.example. The URL may have a path, to which the
// paths of the operations are added.
func New(url, key string, options ...Option) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.IdleConnTimeout = idleTimeout
	c := &Client{url: strings.TrimRight(url, "/"), key: key, http: &http.Client{Transport: transport}}
	for _, set := range options {
		set(c)
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

const (
	// idleTimeout is how long an idle connection is kept. The server closes one after 60 s at the earliest, so that a
	// request does not meet the end of its connection.
	idleTimeout = 30 * time.Second

	shortTimeout = 15 * time.Second // of operations that the server answers by itself
	longTimeout  = 35 * time.Second // of those that wait for a directory server: 10 s in /auth, 30 s in /enrolled

	maxAnswer = 1 << 20 // bytes
)

// An operation is one path of the API.
type operation struct {
	path    string
	timeout time.Duration
}

var (
	preauth  = operation{"/preauth", shortTimeout}
	auth     = operation{"/auth", longTimeout}
	postAuth = operation{"/postauth", shortTimeout}
	enrolled = operation{"/enrolled", longTimeout}
	check    = operation{"/check", shortTimeout}
)

// An Option changes how a [Client] works.
type Option func(*Client)

// WithHTTPClient makes calls with a copy of an HTTP client: for certificates, proxies or tracing of your own. Its
// Timeout, if it has one, takes the place of the timeouts of this package. Redirects are not followed, whatever it
// says: they would carry the API key to another address.
func WithHTTPClient(c *http.Client) Option {
	return func(to *Client) {
		to.http = new(*c)
	}
}

// CloseIdleConnections closes the connections that are not in use.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Preauth looks a card number up. The error is an [Erro] for which [Erro.IsNotEnrolled] returns true if no directory
// server has the card. The call takes 15 s at most.
func (c *Client) Preauth(ctx context.Context, request PreauthRequest) (*CRD, error) {
	crd := new(CRD)
	return orNil(crd, c.exchange(ctx, preauth, request, "CRD", crd))
}

// Auth sends an AReq and returns the ARes as the issuer made it, whatever its transStatus. The areq is whatever
// [json.Marshal] makes an object of, such as a map or a struct; a []byte is sent as it is. The call takes 35 s at most.
//
// After an error that is no [Erro] it is not known whether the issuer has seen the AReq. The same id is refused with
// code 301 if it has.
func (c *Client) Auth(ctx context.Context, areq any) (*ARes, error) {
	ares := new(ARes)
	return orNil(ares, c.exchange(ctx, auth, areq, "ARes", ares))
}

// PostAuth fetches the result of a challenge, as often as you like. The error is an [Erro] for which [Erro.IsPending]
// returns true while there is none yet. The call takes 15 s at most.
func (c *Client) PostAuth(ctx context.Context, threeDSServerTransID string) (*RReq, error) {
	rreq := new(RReq)
	request := map[string]string{"threeDSServerTransID": threeDSServerTransID}
	return orNil(rreq, c.exchange(ctx, postAuth, request, "RReq", rreq))
}

// orNil returns no message together with an error.
func orNil[M any](message *M, err error) (*M, error) {
	if err != nil {
		return nil, err
	}
	return message, nil
}

// exchange sends a message and reads the answer, a message of the type want, into a CRD, ARes or RReq.
func (c *Client) exchange(ctx context.Context, o operation, message any, want string, into receiver) error {
	body, isEncoded := message.([]byte)
	if !isEncoded {
		var err error
		if body, err = json.Marshal(message); err != nil {
			return fmt.Errorf("%s: %w", o.path, err)
		}
	}
	answer, err := c.send(ctx, http.MethodPost, o, c.jsonHeader(), body)
	if err != nil {
		return err
	}
	var head struct {
		MessageType string `json:"messageType"`
	}
	if json.Unmarshal(answer.Raw, &head) == nil {
		if head.MessageType == "Erro" {
			erro := &Erro{Answer: answer}
			if json.Unmarshal(answer.Raw, erro) == nil {
				return erro
			}
		}
		if head.MessageType == want && answer.Status == http.StatusOK && json.Unmarshal(answer.Raw, into) == nil {
			into.receive(answer)
			return nil
		}
	}
	return &RefusedError{answer}
}

// jsonHeader returns the header of a request with the API key whose body is JSON.
func (c *Client) jsonHeader() http.Header {
	return http.Header{"Apikey": {c.key}, "Content-Type": {"application/json; charset=utf-8"}}
}

// send makes a request and reads the whole answer.
func (c *Client) send(ctx context.Context, method string, o operation, header http.Header,
	body []byte) (Answer, error) {
	if c.http.Timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+o.path, bytes.NewReader(body))
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", o.path, err)
	}
	req.Header = header
	req.GetBody = nil // so that net/http cannot send the body a second time
	res, err := c.http.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", o.path, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(raw) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("%s: status %d: %w", o.path, res.StatusCode, err)
	}
	return Answer{Operation: o.path, Status: res.StatusCode, Header: res.Header, Raw: raw}, nil
}

// An Answer is the HTTP response that a message or an error was read from.
type Answer struct {
	Operation string // "/auth"
	Status    int    // of HTTP
	Header    http.Header
	Raw       []byte // the body, byte for byte
}

// AnswerOf returns the answer that an error was made from, for a log. It is nil if no answer came.
func AnswerOf(err error) *Answer {
	var of interface{ answer() *Answer }
	if errors.As(err, &of) {
		return of.answer()
	}
	return nil
}

func (a *Answer) answer() *Answer { return a }

// receiver is implemented by the messages that embed an Answer.
type receiver interface{ receive(Answer) }

func (a *Answer) receive(answer Answer) { *a = answer }

// Normalised names the elements of the AReq that the server put right or filled in before it sent the AReq on.
func (a *Answer) Normalised() []string { return a.list("X-Normalised") }

// SchemeRules names the elements that the rules of the card's scheme require and that the AReq did not have.
func (a *Answer) SchemeRules() []string { return a.list("X-Scheme-Rules") }

// Schemes returns the schemes of a co-badged card, the preferred one first. It is nil for a card of one scheme, and in
// answers of other operations than [Client.Preauth].
func (a *Answer) Schemes() []string { return a.list("X-Schemes") }

func (a *Answer) list(name string) []string {
	value := a.Header.Get(name)
	if value == "" {
		return nil
	}
	return strings.Split(value, ", ")
}

// RetryAfter is how long the server asks to wait before the next request, zero if it does not ask.
func (a *Answer) RetryAfter() time.Duration {
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// An Erro is the message with which the server, or a directory server behind it, refuses a message.
type Erro struct {
	Answer `json:"-"`

	MessageVersion       string `json:"messageVersion"`
	ThreeDSServerTransID string `json:"threeDSServerTransID"`
	ErrorCode            string `json:"errorCode"`
	ErrorComponent       string `json:"errorComponent"` // who found the error: S the server, D the directory server
	ErrorDescription     string `json:"errorDescription"`
	ErrorDetail          string `json:"errorDetail"` // often names of elements, separated by commas
	ErrorMessageType     string `json:"errorMessageType"`
}

func (e *Erro) Error() string {
	return fmt.Sprintf("%s: Erro %s of %s: %s: %s",
		e.Operation, e.ErrorCode, e.ErrorComponent, e.ErrorDescription, e.ErrorDetail)
}

// Faults returns what is wrong with the request, element by element. It is nil when the Erro is not about the content
// of the request. Faults that found no room in the header are not among them; more is their number.
func (e *Erro) Faults() (faults []api.Fault, more int) {
	var entries []struct {
		api.Fault
		More int `json:"more"`
	}
	if json.Unmarshal([]byte(e.Header.Get("X-Errors")), &entries) != nil {
		return nil, 0
	}
	for _, entry := range entries {
		if entry.More > 0 {
			more = entry.More
			continue
		}
		faults = append(faults, entry.Fault)
	}
	return faults, more
}

// IsNotEnrolled reports whether an Erro of [Client.Preauth] says that no directory server has the card.
func (e *Erro) IsNotEnrolled() bool { return e.Operation == "/preauth" && e.ErrorCode == "305" }

// IsPending reports whether an Erro of [Client.PostAuth] says only that there is no result at the moment: none has
// come (305), there were too many requests (103), or the server is busy (403). Ask again in a second, or after
// [Answer.RetryAfter]. Any other Erro is the end of the authentication.
func (e *Erro) IsPending() bool {
	isTemporary := e.ErrorCode == "103" || e.ErrorCode == "305" || e.ErrorCode == "403"
	return e.Operation == "/postauth" && e.ErrorComponent == "S" && isTemporary
}

// A RefusedError is an answer that is neither the message that was expected nor an Erro: a wrong API key (status 401),
// a page of a proxy, or another server.
type RefusedError struct{ Answer }

// Error does not quote the answer, since a peer may repeat what it was sent.
func (e *RefusedError) Error() string {
	if e.Status == http.StatusUnauthorized {
		return fmt.Sprintf("%s: status 401: the server does not know the API key", e.Operation)
	}
	return fmt.Sprintf("%s: status %d: the answer is not a message of the API", e.Operation, e.Status)
}

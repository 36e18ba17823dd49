package shop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxAnswer bounds what is read of an answer of the API.
const maxAnswer = 1 << 20

// client calls the API of the 3DS server. It alone has the key.
type client struct {
	base, key string
	http      *http.Client
	own       bool // http is ours to close
}

func newClient(base, key string, c *http.Client) *client {
	own := c == nil
	if own {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.IdleConnTimeout = 30 * time.Second // before the API closes it, after a minute
		c = &http.Client{
			Timeout:   35 * time.Second, // the API ends /auth after 10.25 s, /enrolled after 30 s
			Transport: transport,
		}
	}
	// A redirect would carry the key to somewhere else.
	copied := *c
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{strings.TrimSuffix(base, "/"), key, &copied, own}
}

// An answer is what the API said: a message, or an Erro.
type answer struct {
	raw     []byte
	message message
	note    string // what its headers say of the request, for the wire panel
}

// errNotMessage is an answer that is no JSON object, such as a refused key's.
var errNotMessage = errors.New("the answer is not a message")

// call posts body to one operation. The error is about the call itself; an
// Erro is an answer like any other. When the answer is no message, both are
// returned: the answer for the wire panel, errNotMessage for the flow.
func (c *client) call(ctx context.Context, operation string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+operation, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", operation, err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("APIKey", c.key)
	res, raw, err := c.exchange(req)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", operation, err)
	}
	a := answer{raw: raw, note: noteOf(res.Header)}
	if json.Unmarshal(raw, &a.message) != nil {
		return a, fmt.Errorf("%s: status %d: %w", operation, res.StatusCode, errNotMessage)
	}
	return a, nil
}

// noteOf says in words what the headers of an answer to an AReq tell of it.
func noteOf(header http.Header) string {
	var notes []string
	if names := header.Get("X-Normalised"); names != "" {
		notes = append(notes, "put right or filled in: "+names)
	}
	if names := header.Get("X-Scheme-Rules"); names != "" {
		notes = append(notes, "the card's scheme requires, too: "+names)
	}
	return strings.Join(notes, "; ")
}

// exchange sends a request and reads all of its answer.
func (c *client) exchange(req *http.Request) (res *http.Response, raw []byte, err error) {
	res, err = c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(raw) > maxAnswer {
		err = fmt.Errorf("answer of more than %d bytes", maxAnswer)
	}
	return res, raw, err
}

// at is the same client for another address.
func (c *client) at(base string) *client {
	other := *c
	other.base, other.own = strings.TrimSuffix(base, "/"), false
	return &other
}

func (c *client) close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}

// message is what a merchant reads of the messages of the flow. CRD, ARes,
// RReq, CRes and Erro have their members' names in common.
type message struct {
	MessageType    string `json:"messageType"`
	MessageVersion string `json:"messageVersion"`
	ServerTransID  string `json:"threeDSServerTransID"`
	ACSTransID     string `json:"acsTransID"`

	// CRD
	Scheme         string       `json:"scheme"`
	DSVersions     []string     `json:"dsProtocolVersions"`
	ACSVersions    []acsVersion `json:"acsProtocolVersions"`
	ServerVersions []string     `json:"threeDSServerProtocolVersions"`

	// ARes, RReq, CRes
	TransStatus     string         `json:"transStatus"`
	Reason          string         `json:"transStatusReason"`
	ECI             string         `json:"eci"`
	Value           string         `json:"authenticationValue"`
	ACSURL          string         `json:"acsURL"`
	ChallengeCancel string         `json:"challengeCancel"`
	CardholderInfo  cardholderInfo `json:"cardholderInfo"`

	// Erro
	ErrorCode        string `json:"errorCode"`
	ErrorComponent   string `json:"errorComponent"`
	ErrorDescription string `json:"errorDescription"`
	ErrorDetail      string `json:"errorDetail"`
}

// passing reports whether an Erro of /postauth says no more than that there is no
// result at the moment: none yet (305), too many requests (103), a server that is
// busy (403). The same codes of others are the end of the authentication.
func (m *message) passing() bool {
	return m.ErrorComponent == "S" && slices.Contains([]string{"103", "305", "403"}, m.ErrorCode)
}

type acsVersion struct {
	Version   string `json:"version"`
	MethodURL string `json:"threeDSMethodURL"`
}

// cardholderInfo is a text before 2.3.1, and since then an object with the text
// and addresses of images; the shop shows the text.
type cardholderInfo string

func (c *cardholderInfo) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = cardholderInfo(text)
		return nil
	}
	var rich struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &rich); err != nil {
		return err
	}
	*c = cardholderInfo(rich.Text)
	return nil
}

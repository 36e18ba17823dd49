package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/client"
)

// newClient returns a client of the API, which alone has the key.
func newClient(url, key string, c *http.Client) *client.Client {
	if c == nil {
		return client.New(url, key)
	}
	return client.New(url, key, client.WithHTTPClient(c))
}

// An answer is what the API said, as the flow and the wire panel want it: the wire panel shows every answer, and the
// flow goes by what a message says, an Erro like any other.
type answer struct {
	raw     []byte
	message message
	note    string // what its headers say of the request, for the wire panel
}

// errNotMessage is wrapped by the error of an answer that is no JSON object, such as a refused key's.
var errNotMessage = errors.New("the answer is not a message")

func (s *Shop) callPreauth(ctx context.Context, card string) (answer, error) {
	crd, err := s.api.Preauth(ctx, client.PreauthRequest{AcctNumber: card})
	if err != nil {
		return readError(err)
	}
	return readAnswer(&crd.Answer)
}

func (s *Shop) callAuth(ctx context.Context, areq []byte) (answer, error) {
	ares, err := s.api.Auth(ctx, areq)
	if err != nil {
		return readError(err)
	}
	return readAnswer(&ares.Answer)
}

func (s *Shop) callPostAuth(ctx context.Context, transID string) (answer, error) {
	rreq, err := s.api.PostAuth(ctx, transID)
	if err != nil {
		return readError(err)
	}
	return readAnswer(&rreq.Answer)
}

// readError returns the answer that an error of package client was made from. The error that it returns is about the
// call: it is nil if any message came.
func readError(err error) (answer, error) {
	if a := client.AnswerOf(err); a != nil {
		return readAnswer(a)
	}
	return answer{}, err
}

// readAnswer reads a message. When the answer is none, both are returned: the answer for the wire panel,
// errNotMessage for the flow.
func readAnswer(a *client.Answer) (answer, error) {
	got := answer{raw: a.Raw, note: noteOf(a)}
	if json.Unmarshal(a.Raw, &got.message) != nil {
		return got, fmt.Errorf("%s: status %d: %w", a.Operation, a.Status, errNotMessage)
	}
	return got, nil
}

// noteOf explains in words what the headers of an answer to an AReq say.
func noteOf(a *client.Answer) string {
	var notes []string
	if names := a.Normalised(); names != nil {
		notes = append(notes, "put right or filled in: "+strings.Join(names, ", "))
	}
	if names := a.SchemeRules(); names != nil {
		notes = append(notes, "the card's scheme requires, too: "+strings.Join(names, ", "))
	}
	return strings.Join(notes, "; ")
}

// message is what a merchant reads of the messages of the flow. CRD, ARes, RReq, CRes and Erro have their members'
// names in common.
type message struct {
	MessageType    string `json:"messageType"`
	MessageVersion string `json:"messageVersion"`
	ServerTransID  string `json:"threeDSServerTransID"`
	ACSTransID     string `json:"acsTransID"`

	// CRD
	Scheme         string              `json:"scheme"`
	DSVersions     []string            `json:"dsProtocolVersions"`
	ACSVersions    []client.ACSVersion `json:"acsProtocolVersions"`
	ServerVersions []string            `json:"threeDSServerProtocolVersions"`

	// ARes, RReq, CRes
	TransStatus     string                `json:"transStatus"`
	Reason          string                `json:"transStatusReason"`
	ECI             string                `json:"eci"`
	Value           string                `json:"authenticationValue"`
	ACSURL          string                `json:"acsURL"`
	ChallengeCancel string                `json:"challengeCancel"`
	CardholderInfo  client.CardholderInfo `json:"cardholderInfo"`
	Credentials     json.RawMessage       `json:"webAuthnCredList"`
	Confirmation    json.RawMessage       `json:"spcTransData"`

	// Erro
	ErrorCode        string `json:"errorCode"`
	ErrorComponent   string `json:"errorComponent"`
	ErrorDescription string `json:"errorDescription"`
	ErrorDetail      string `json:"errorDetail"`
}

// isPending reports whether an Erro of /postauth says no more than that there is no result at the moment: none yet
// (305), too many requests (103), a server that is busy (403). The same codes of others are the end of the
// authentication.
func (m *message) isPending() bool {
	return m.ErrorComponent == "S" && slices.Contains([]string{"103", "305", "403"}, m.ErrorCode)
}

// Package acp has the words of Delegate Authentication of the Agentic Commerce Protocol, version 2026-04-17. Use
// [ReadCreate] and [ReadAuthenticate] to turn a request into members of an AReq, [SessionOf] for the answer, and
// [Signature.Check] for the signature of a request.
//
// The package knows neither HTTP nor the engine's state: package api serves the three endpoints, and package auth does
// the work.
package acp

import (
	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
	"github.com/openthreeds/threeds/message"
)

// Version is the one version of the protocol that is served, as the header API-Version has it.
const Version = "2026-04-17"

// A Status is where a session is. The list is closed.
type Status string

// The statuses.
const (
	ActionRequired     Status = "action_required"
	Pending            Status = "pending"
	NotSupported       Status = "not_supported"
	Authenticated      Status = "authenticated"
	Attempted          Status = "attempted"
	NotAuthenticated   Status = "not_authenticated"
	Rejected           Status = "rejected"
	Unavailable        Status = "unavailable"
	Expired            Status = "expired"
	ChallengeAbandoned Status = "challenge_abandoned"
)

// A Session is an authentication as the protocol shows it.
type Session struct {
	ID     string  `json:"authentication_session_id"`
	Status Status  `json:"status"`
	Action *Action `json:"action,omitempty"`
	Result *Result `json:"authentication_result,omitempty"` // in the answer to GET alone
}

// An Action is what the agent is to have the browser do.
type Action struct {
	Type        string       `json:"type"` // fingerprint or challenge
	Fingerprint *Fingerprint `json:"fingerprint,omitempty"`
	Challenge   *Challenge   `json:"challenge,omitempty"`
}

// A Fingerprint is where the 3DS Method runs.
type Fingerprint struct {
	MethodURL string `json:"three_ds_method_url"`
	ServerID  string `json:"three_ds_server_trans_id"`
}

// A Challenge is what a CReq is made of.
type Challenge struct {
	ACSURL   string `json:"acs_url"`
	ACSID    string `json:"acs_trans_id"`
	ServerID string `json:"three_ds_server_trans_id"`
	Version  string `json:"message_version"`
}

// A Result has the values that an authorisation wants.
type Result struct {
	TransStatus       string `json:"trans_status"`
	ECI               string `json:"electronic_commerce_indicator,omitempty"`
	Cryptogram        string `json:"three_ds_cryptogram,omitempty"`
	DSID              string `json:"transaction_id"`
	ServerID          string `json:"three_ds_server_trans_id"`
	Version           string `json:"version"`
	Value             string `json:"authentication_value,omitempty"` // the same as Cryptogram
	TransStatusReason string `json:"trans_status_reason,omitempty"`
	CardholderInfo    string `json:"cardholder_info,omitempty"`
}

// statuses are the statuses of authentications that have come to their end, by their transStatus.
var statuses = map[string]Status{
	"Y": Authenticated, "A": Attempted, "N": NotAuthenticated, "R": Rejected, "U": Unavailable, "I": Unavailable,
}

// An Authentication is what a session shows of one.
type Authentication struct {
	ID        string
	Status    api.Status
	MethodURL string       // the address of the 3DS Method that the agent is to run; "" if there is none, or it has run
	Outcome   *api.Outcome // nil before the end
	ARes      []byte       // as it came; nil when none has come
	RReq      []byte       // as it came; nil when none has come
}

// SessionOf returns an authentication as a session. With hasResult it has the values for the authorisation, which only
// the answer to GET may have.
func SessionOf(a *Authentication, hasResult bool) (*Session, error) {
	s := &Session{ID: a.ID, Status: Pending}
	var ares, last *message.Message
	for _, text := range [][]byte{a.ARes, a.RReq} {
		if text == nil {
			continue
		}
		m, err := message.Parse(text, message.Limits{})
		if err != nil {
			return nil, err
		}
		if last = m; ares == nil {
			ares = m
		}
	}
	switch {
	case a.Status == api.StatusRequiresBrowser && a.MethodURL != "":
		s.Status = ActionRequired
		s.Action = &Action{Type: "fingerprint", Fingerprint: &Fingerprint{a.MethodURL, a.ID}}
	case a.Status == api.StatusChallenge && ares != nil && ares.Text("transStatus") == "C":
		s.Status = ActionRequired
		s.Action = &Action{Type: "challenge", Challenge: &Challenge{
			ares.Text("acsURL"), ares.Text("acsTransID"), a.ID, ares.Text("messageVersion"),
		}}
	case a.Status.IsFinal():
		s.Status = endOf(a, ares != nil)
	}
	if o := a.Outcome; hasResult && o != nil && o.TransStatus != "" && ares != nil {
		s.Result = &Result{
			TransStatus: string(o.TransStatus), ECI: last.Text("eci"), Cryptogram: last.Text("authenticationValue"),
			DSID: ares.Text("dsTransID"), ServerID: a.ID, Version: ares.Text("messageVersion"),
			Value: last.Text("authenticationValue"), TransStatusReason: last.Text("transStatusReason"),
			CardholderInfo: outcome.CardholderInfo(ares, last),
		}
	}
	return s, nil
}

// endOf returns the status of an authentication that is over.
func endOf(a *Authentication, hasARes bool) Status {
	switch {
	case a.Status == api.StatusExpired, a.Status == api.StatusCancelled && !hasARes:
		return Expired
	case a.Status == api.StatusCancelled:
		return ChallengeAbandoned
	case a.Status == api.StatusFailed || a.Outcome == nil:
		return Unavailable
	case a.Outcome.Result == api.ResultNotEnrolled:
		return NotSupported
	case a.Outcome.Result == api.ResultAbandoned:
		return ChallengeAbandoned
	case a.Outcome.Result == api.ResultBankUnreachable:
		return Unavailable
	case a.Outcome.TransStatus != "":
		if status, ok := statuses[string(a.Outcome.TransStatus)]; ok {
			return status
		}
	}
	return Unavailable
}

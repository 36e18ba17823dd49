package auth

import (
	"errors"

	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/message"
)

// ownDetail returns the errorDetail of an Erro to a directory server in the form for the requestor
// and the log. The id of a critical extension is a text that another party wrote, so only the directory server gets it.
func ownDetail(code message.Code, detail string) string {
	if code == message.CriticalExtension {
		return "messageExtension"
	}
	return detail
}

// blameRequest names the AReq as the message to blame in an Erro about the content of an /auth. Other
// errors, such as that the store cannot be reached, are returned as they are.
func blameRequest(err error) error {
	if refused, ok := errors.AsType[*check.FaultyRequestError](err); ok {
		blamed := *refused
		blamed.Erro.MessageType = message.AReq.String()
		return &blamed
	}
	bad, ok := errors.AsType[message.Error](err)
	if !ok || bad.Code == message.TransientFailure {
		return err
	}
	bad.MessageType = message.AReq.String()
	return bad
}

// erroOf is an Erro that was received, without ids that do not have the form of one.
func erroOf(m *message.Message) message.Error {
	bad := message.ReadError(m)
	bad.ServerTransID, bad.DSTransID = idOf(m, "threeDSServerTransID"), idOf(m, "dsTransID")
	bad.ACSTransID, bad.SDKTransID = idOf(m, "acsTransID"), idOf(m, "sdkTransID")
	return bad
}

// unreachable is the answer when the store does not answer. It is never 203 or 305, for then the caller would give up.
func unreachable(v message.Version, transID string) message.Error {
	return check.NewErro(v, message.TransientFailure, "The server could not reach its own data, try again", transID)
}

// A TooManyError refuses a request because too many AReqs of its merchant are on their way to the same directory
// server. The id of the request is not used up. It wraps the Erro for the requestor, who should wait and try again.
type TooManyError struct{ Erro message.Error }

func (e *TooManyError) Error() string { return e.Erro.Error() }

func (e *TooManyError) Unwrap() error { return e.Erro }

// NewTooManyError returns a TooManyError.
func NewTooManyError(v message.Version, transID string) *TooManyError {
	return &TooManyError{check.NewErro(v, message.TooManyMessages,
		"Too many requests of this merchant wait for the directory server, try again", transID)}
}

// OutcomeOf names how an operation ended, for the metrics: good, unless there is an error.
func OutcomeOf(good string, err error) string {
	bad, ok := errors.AsType[message.Error](err)
	switch {
	case err == nil:
		return good
	case !ok:
		return "internal"
	case bad.Code == message.TransientFailure && bad.Detail == check.RangesNotLoaded:
		return "no_ranges" // the store works, and its alert counts 403
	}
	return bad.Code.String()
}

// unknownBIN is the 305 of /preauth. The BIN is left out. A log may also have the last four digits, which a merchant
// may print, and both together would give away most of the card number.
func unknownBIN() message.Error {
	return message.Error{
		Version: message.V220, Code: message.BadTransactionData, Component: check.Component,
		Description: "Unknown BIN",
		Detail:      "No CRD found, card with BIN ****** is not enrolled with any known DS",
	}
}

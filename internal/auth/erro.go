package auth

import (
	"github.com/openthreeds/threeds/message"
)

// component S: we are the 3DS Server, and these are ours.
const component = "S"

// fault makes the Erro of a request that failed its checks, by the order of
// R12 of the API contract.
func fault(v message.Version, found message.Problems, transID string) message.Error {
	code, detail := found.Pick(message.ForRequestor)
	return message.Error{
		Version: v, Code: code, Component: component,
		Description: Describe(code), Detail: detail, ServerTransID: transID,
	}
}

// Describe is the errorDescription of a code as the requestor's contract has it.
func Describe(code message.Code) string {
	switch code {
	case message.UnsupportedVersion:
		return "Unsupported message version"
	case message.UnknownTransaction:
		return "No transaction found"
	case message.BadTransactionData:
		return "Transaction data not valid"
	case message.ConnectionFailure:
		return "Unable to contact Directory Server"
	case message.TransientFailure:
		return "Transient system failure"
	}
	return code.Description()
}

// erroOf is an Erro that was received, without what stands where its ids belong
// and is none.
func erroOf(m *message.Message) message.Error {
	bad := message.ReadError(m)
	bad.ServerTransID, bad.DSTransID = idOf(m, "threeDSServerTransID"), idOf(m, "dsTransID")
	bad.ACSTransID, bad.SDKTransID = idOf(m, "acsTransID"), idOf(m, "sdkTransID")
	return bad
}

func erro(v message.Version, code message.Code, detail, transID string) message.Error {
	return message.Error{
		Version: v, Code: code, Component: component,
		Description: Describe(code), Detail: detail, ServerTransID: transID,
	}
}

// badJSON answers a body that cannot be read at all.
func badJSON(err error) message.Error {
	return message.Error{
		Version: message.V220, Code: message.Format, Component: component,
		Description: "Invalid JSON", Detail: err.Error(),
	}
}

// unreachable answers when our own store does not: never 203 or 305, which
// would make the caller give up.
func unreachable(v message.Version, transID string) message.Error {
	return erro(v, message.TransientFailure, "The server could not reach its own data, try again", transID)
}

// noRanges answers before any directory has been asked.
func noRanges(v message.Version, transID string) message.Error {
	return erro(v, message.TransientFailure, "Card ranges are not loaded yet, try again", transID)
}

// unknownBIN is the one 305 of /preauth. The BIN stays out of it: six digits
// in a log beside a merchant's last four are more than anybody needs.
func unknownBIN() message.Error {
	return message.Error{
		Version: message.V220, Code: message.BadTransactionData, Component: component,
		Description: "Unknown BIN",
		Detail:      "No CRD found, card with BIN ****** is not enrolled with any known DS",
	}
}

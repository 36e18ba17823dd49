package conformance

import "slices"

// groups are all groups of rows, with their checks, in the order of rows.txt.
var groups = []group{
	{"MC", "message construction: AReq and common rules", areqChecks},
	{"MX", "message construction: other messages", slices.Concat(otherMessageChecks, oresChecks[:1])},
	{"VG", "validation: general rules", generalChecks},
	{"VA", "validation of ARes", aresChecks},
	{"VR", "validation of RReq", rreqChecks},
	{"VP", "validation of PRes", presChecks},
	{"VO", "validation of OReq and Erro", operationValidationChecks},
	{"ID", "transaction ids and state", idChecks},
	{"TM", "3DS Method", methodChecks},
	{"BR", "browser flow", browserChecks},
	{"AP", "app flow", appChecks},
	{"RI", "3RI flow", requestorInitiatedChecks},
	{"DA", "decoupled authentication", decoupledChecks},
	{"SP", "secure payment confirmation", spcChecks},
	{"PR", "card ranges: PReq and PRes", cardRangeChecks},
	{"OP", "operation messages", operationChecks},
	{"TO", "timeouts", slices.Concat(timeoutChecks, oresChecks[1:])},
	{"RT", "retries and failures", retryChecks},
	{"TL", "TLS and certificates", tlsChecks},
	{"HT", "HTTP", httpChecks},
	{"EN", "encoding and sizes", encodingChecks},
	{"VN", "version negotiation", versionChecks},
	{"CF", "confidentiality and storage", confidentialityChecks},
}

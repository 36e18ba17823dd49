package api

import (
	"encoding/json"
	"net/netip"
	"time"
)

// A NewKey is the body of POST keys of the admin API: an API key to be made.
type NewKey struct {
	Merchant string    `json:"merchant,omitempty"` // That of the token if it is absent.
	Label    string    `json:"label,omitempty"`
	Expires  time.Time `json:"expires,omitzero"` // Absent: never.
	// Networks in CIDR notation that may use the key; absent or empty for all.
	Allow  []netip.Prefix `json:"allow,omitempty"`
	Strict bool           `json:"strict,omitempty"` // Requests with this key are not put right.
}

// A MadeKey is a new API key, which is shown once.
type MadeKey struct {
	Key      string `json:"key"`
	Hash     string `json:"hash"` // By which lists and the audit trail name the key, in hexadecimal.
	Merchant string `json:"merchant"`
}

// A NewToken is the body of POST tokens: a token of the admin API to be made.
type NewToken struct {
	Name     string    `json:"name"`
	Role     string    `json:"role" schema:"enum=viewer|operator|admin"`
	Merchant string    `json:"merchant,omitempty"` // The only merchant whose data it may see; absent or empty for all.
	Group    string    `json:"group,omitempty"`    // The group of merchants whose data it may see, in place of a merchant.
	Expires  time.Time `json:"expires,omitzero"`   // Absent: never.
}

// A MadeToken is a new token of the admin API, which is shown once.
type MadeToken struct {
	Token string `json:"token"`
	Name  string `json:"name"`
}

// A NewOperator is the body of POST operators: the person who is invited to the console.
type NewOperator struct {
	Name     string `json:"name,omitempty"` // Absent: one is made.
	Role     string `json:"role" schema:"enum=viewer|operator|admin"`
	Merchant string `json:"merchant,omitempty"` // The only merchant whose data it may see; absent or empty for all.
	Group    string `json:"group,omitempty"`    // The group of merchants whose data it may see, in place of a merchant.
}

// An Invited is an invitation to the console, which is shown once. Who opens its link first is the operator.
type Invited struct {
	Link    string    `json:"link"`
	Name    string    `json:"name"`
	Expires time.Time `json:"expires"`
}

// A RoleChange is the body of PATCH operators/{name}.
type RoleChange struct {
	Role  string  `json:"role" schema:"enum=viewer|operator|admin"`
	Group *string `json:"group,omitempty"` // The group of merchants that they see. Absent: as it was. Empty: all.
}

// An EraseRequest is the body of POST journal/erase: a whole card number, or a merchant.
type EraseRequest struct {
	AcctNumber string `json:"acctNumber,omitempty"`
	Merchant   string `json:"merchant,omitempty"`
}

// A HoldRequest is the body of POST journal/holds: what is held, and why. Members that are absent fit every record.
type HoldRequest struct {
	Name       string `json:"name"`                 // Of the case.
	AcctNumber string `json:"acctNumber,omitempty"` // A whole card number, of which a keyed hash is kept.
	Merchant   string `json:"merchant,omitempty"`
	From       string `json:"from,omitempty"` // The first day, such as 2026-11-28.
	To         string `json:"to,omitempty"`   // The last day; absent: without an end.
	Reason     string `json:"reason"`         // For the audit trail and for those who see the hold in the console.
}

// A DisableRequest is the body of POST merchants/{name}/disable.
type DisableRequest struct {
	Reason string `json:"reason"` // For the audit trail and for those who see the merchant in the console.
}

// An AcceptRequest is the body of POST ranges/{scheme}/accept.
type AcceptRequest struct {
	Held int64 `json:"held,omitempty"` // The number of the generation to use; absent: the one that is held back.
}

// A CertificateRequest is the body of POST certificates/{scheme}/request: which key to make.
type CertificateRequest struct {
	Bits    int    `json:"bits,omitempty"`    // Of an RSA key.
	Curve   string `json:"curve,omitempty"`   // Of an ECDSA key.
	Subject string `json:"subject,omitempty"` // Absent: that of the certificate before.
}

// A CertificateInstallation is the body of POST certificates/{scheme}/install.
type CertificateInstallation struct {
	Certificate string    `json:"certificate"` // In PEM, with those of the CAs behind it.
	At          time.Time `json:"at,omitzero"` // When it is used; absent: when it is activated.
}

// An ExplainedRequest is the answer of POST explain of the admin API to a request.
type ExplainedRequest struct {
	Kind string `json:"kind" schema:"enum=request"`
	Explanation
}

// An ExplainedMessage is the answer of POST explain of the admin API to a message.
type ExplainedMessage struct {
	Kind     string           `json:"kind"`
	Verdict  Verdict          `json:"verdict"`
	Faults   []Fault          `json:"errors"`
	Warnings []MessageWarning `json:"warnings"`
	Lines    []string         `json:"lines,omitempty"`                        // What a line of a log or a PARes says.
	Message  json.RawMessage  `json:"message,omitempty" schema:"type=object"` // Masked.
}

// A MessageWarning is something that is unusual in a message, and no fault.
type MessageWarning struct {
	Text string `json:"text"`
}

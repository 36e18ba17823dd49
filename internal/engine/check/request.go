package check

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// A Request is what is known of one request that is to become an AReq: who sent it, what it is about, and
// what was corrected in it. It does not hold the message, which needs much memory: once a message has been checked,
// only its text is needed.
type Request struct {
	Account *account.Account
	Start   time.Time
	IDLife  time.Duration   // how long an id of /preauth can be used
	NewID   string          // the id of an AReq that brings none; "" means that one is made
	Version message.Version // 2.2.0 until it is known
	PAN     string
	DS      string // the scheme that the request names; "" if it names none, or one that is not known
	hasDS   bool   // it has the member ds
	id      requestedID

	isStrict  bool     // it is taken as it is
	Defaulted []string // members that were filled in
	Awaited   []string // members that the browser or its agent tells later
	Reference string   // of a request for an authentication
	ReturnURL string   // likewise

	// These are set for an explanation only.
	wantedScheme string    // goes before ds and the id; "" if the caller names none
	asOf         time.Time // the time at which the rules of the scheme are applied; its zero value means start

	// What the log says of the request. A value that does not have its form is "".
	LoggedVersion, LoggedChannel, LoggedCategory, LoggedAmount, LoggedCurrency string

	Changes  []message.Change  // what was normalised or filled in
	Findings []*scheme.Finding // rules of the scheme that the request breaks without being refused
}

// NewRequest returns a request that came at a time.
func NewRequest(acc *account.Account, start time.Time, idLife time.Duration) *Request {
	return &Request{Account: acc, Start: start, IDLife: idLife, Version: message.V220}
}

// A requestedID is the threeDSServerTransID of an /auth.
type requestedID struct {
	value   string
	made    bool   // it was made for this request, and the requestor does not know it yet
	err     error  // what is wrong with the id that the requestor sent
	isBound bool   // it came from /preauth, and was made for one scheme
	scheme  string // that scheme; "" if no directory of it is configured any more
}

// read takes from a message what is needed beyond it.
func (req *Request) read(msg *message.Request) {
	if v, ok := message.ParseVersion(msg.Text("messageVersion")); ok {
		req.Version, req.LoggedVersion = v, v.String()
	}
	req.LoggedChannel, req.LoggedCategory = twoDigits(msg.Text("deviceChannel")), twoDigits(msg.Text("messageCategory"))
	if amount := msg.Text("purchaseAmount"); len(amount) <= 48 && hasOnlyDigits(amount) {
		req.LoggedAmount = amount
	}
	if currency := msg.Text("purchaseCurrency"); len(currency) == 3 && hasOnlyDigits(currency) {
		req.LoggedCurrency = currency
	}
	req.PAN = msg.Text("acctNumber")
	req.hasDS = msg.Has("ds")
}

// canGoTo reports whether the AReq may go to the directory of a scheme.
func (req *Request) canGoTo(word string) bool {
	if req.wantedScheme != "" {
		return req.wantedScheme == word
	}
	return (!req.id.isBound || req.id.scheme == word) && (req.DS == "" || req.DS == word)
}

// KnownID is the id to name to the requestor: the one that the requestor sent, if it was
// made for this merchant, even if it has expired or was made for another card; else "".
func (req *Request) KnownID() string {
	err := req.id.err
	isTheirs := err == nil || errors.Is(err, transid.ErrCard) || errors.Is(err, transid.ErrExpired)
	if req.id.made || !isTheirs {
		return ""
	}
	return req.id.value
}

// TransID is the id of the AReq.
func (req *Request) TransID() string { return req.id.value }

// LoggedID is the id by which the server knows the transaction: KnownID, or one that was
// made for the request.
func (req *Request) LoggedID() string {
	if req.id.made {
		return req.id.value
	}
	return req.KnownID()
}

// twoDigits returns s if it has the form of a code of two digits, else "".
func twoDigits(s string) string {
	if len(s) != 2 || !hasOnlyDigits(s) {
		return ""
	}
	return s
}

func (req *Request) addChange(name message.Path, what string) {
	req.Changes = append(req.Changes, message.Change{Path: name, What: what})
}

// IsVersionUsable reports whether the card can be used in the version of the request.
func (req *Request) IsVersionUsable(to Target) bool {
	return slices.Contains(CommonVersions(to.Peer, to.Info), req.Version)
}

// setDefault sets a member that is absent, and notes that.
func (req *Request) setDefault(msg *message.Request, name, text string) {
	if text == "" || msg.Has(name) {
		return
	}
	msg.Set(name, text)
	req.Defaulted = append(req.Defaulted, name)
}

// await records that a member comes later, and lets a placeholder stand for it until then.
func (req *Request) await(msg *message.Request, name, placeholder string) {
	msg.SetPlaceholder(name, []byte(placeholder))
	req.Awaited = append(req.Awaited, name)
}

// WithoutCard returns JSON without the card number of the request, which may stand in other elements than its own.
func WithoutCard(text []byte, pan string) []byte {
	if len(text) == 0 || !IsCardNumber(pan) {
		return text
	}
	return []byte(cardnumber.Without(string(text), pan))
}

// ReferenceWithoutCard returns a reference. If the number of the card is in it, even with something between the digits,
// only asterisks and the last four digits are left. Other card numbers are scrubbed.
func ReferenceWithoutCard(reference, pan string) string {
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, reference)
	if !IsCardNumber(pan) || !strings.Contains(digits, pan) {
		return cardnumber.Scrub(reference)
	}
	return "***" + pan[len(pan)-4:]
}

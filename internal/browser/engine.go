package browser

import (
	"context"
	"errors"
)

// Data are members of an AReq that a browser told, by name.
type Data map[string]string

// A Step is where an authentication stands for the browser.
type Step string

// The steps. Authentication means that the AReq is on its way; Confirm, that a text of the
// issuer waits to be shown.
const (
	StepBegin          Step = "begin"
	StepMethod         Step = "method"
	StepAuthentication Step = "authentication"
	StepChallenge      Step = "challenge"
	StepConfirm        Step = "confirm"
	StepEnd            Step = "end"
)

// A View is what the browser of an authentication may know.
type View struct {
	ID                         string
	Merchant                   string // the name of the account, which Looks of [Settings] gets
	Amount, Currency, Exponent string // in minor units, with the code of ISO 4217 in letters; "" when nothing is paid
	ReturnURL                  string
	Language                   string
	Step                       Step
	Method                     *Method    // while Step is StepMethod
	Challenge                  *Challenge // while Step is StepChallenge
	CardholderInfo             string     // while Step is StepConfirm
	End                        string     // at StepEnd: completed, failed, cancelled, expired, decoupled, pending
	Version                    int        // grows with every change
}

// A Method is the 3DS Method of an issuer: what is posted, and where.
type Method struct{ URL, Data string }

// A Challenge is the page of an issuer: what is posted, and where.
type Challenge struct{ ACSURL, CReq, MessageVersion string }

// Errors of an Engine. ErrNoAuthentication means that a token or tag is unknown, malformed
// or over; ErrOtherBrowser, that the second secret is missing or that of another browser.
var (
	ErrNoAuthentication = errors.New("no authentication of that token")
	ErrOtherBrowser     = errors.New("another browser has begun the authentication")
)

// An Engine knows the authentications that wait for a browser. A token names one; binding
// is the second secret, of the browser that began it; a tag is what the issuer comes back with.
type Engine interface {
	// OpenBrowser binds nothing and changes nothing.
	OpenBrowser(ctx context.Context, token string) (*View, error)
	// BeginBrowser binds the authentication to binding, the first time.
	BeginBrowser(ctx context.Context, token, binding string, data Data) (*View, error)
	// ViewBrowser waits until the version is greater than after, or ctx is done.
	ViewBrowser(ctx context.Context, token, binding string, after int) (*View, error)
	ConfirmBrowser(ctx context.Context, token, binding string) (*View, error)
	CancelBrowser(ctx context.Context, token, binding string) (*View, error)
	// EndBrowserChallenge notes that the issuer sent the browser back. The second call changes nothing.
	EndBrowserChallenge(ctx context.Context, tag string) (*View, error)
	EndBrowserMethod(ctx context.Context, tag, threeDSMethodData string) error
}

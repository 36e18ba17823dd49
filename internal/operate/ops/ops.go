// Package ops has what merchants and operators may do: one function for each act. It checks the right of the
// actor, writes the audit trail, and then does the act. Set the fields of an [Acts] and call its methods.
// [Table] lists all acts.
//
// There are four doors to these functions: the merchants' API, the admin API, the console and the command line. A door
// reads what an actor has sent, calls one function, and shows what came of it.
package ops

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// Acts are what actors may do with a server's store. Set the fields before use. Many goroutines may use it.
type Acts struct {
	Operators *operator.Service // tokens, users of the console, and the audit trail
	Store     interface {
		PutKey(ctx context.Context, k store.Key) error
		Keys(ctx context.Context) ([]store.Key, error)
		RevokeKey(ctx context.Context, hash []byte) error
		store.States
	}
	Ring      func() account.Ring       // the key ring in use
	Merchants func() *merchant.Registry // those of the configuration in use, and of the store
	Hooks     *webhook.Service          // endpoints of merchants, and what was delivered to them
	Now       func() time.Time
	// PasskeyURL returns the origin of the console if operators log in by passkey, else ""; nil means that they do not.
	PasskeyURL func() string
	// Keeper has the state of the card ranges, and Certificates the client certificates of directories that the store has.
	Keeper       directory.Keeper
	Certificates *clientcert.Service
	// TryCertificate makes a handshake with the directory server of a scheme, in which it shows a client certificate.
	TryCertificate func(ctx context.Context, scheme string, cert tls.Certificate) (directory.HandshakeReport, error)
	// Erase removes what belongs to the card or the merchant of a query, from the journal and from all other places
	// that have the same data; nil means that there is no journal.
	Erase func(ctx context.Context, q journal.Query) (Erased, error)
	// LegalHolds are those of the journal; nil means that there is no journal.
	LegalHolds HoldStore
	// FourEyes returns the groups of dangerous acts that a second person has to allow; nil means none, see Danger of
	// [Act].
	FourEyes func() []string
	// IsCommandLine allows keys and endpoints for merchants without settings, and allows the removal of the last admin:
	// commands are used when nothing is set up yet, and can always invite an admin.
	IsCommandLine bool

	operators sync.Mutex // held from the look for another admin to the change
}

// A Reason is why an act is refused.
type Reason int

// The reasons.
const (
	Forbidden Reason = iota + 1 // the role does not suffice
	Missing                     // there is no such thing, or none that the actor may see
	Wrong                       // a value is wrong
	Conflict                    // it does not fit what is there
)

// A Refusal says why an act was not done.
type Refusal struct {
	Why    Reason
	Member string // which value is wrong, as requests call it; "" means that it is none of them
	Text   string // for people: what is wrong, or what would be right
	Cause  error  // the error of the package below; nil means that there is none
}

func (r *Refusal) Error() string {
	if r.Member == "" {
		return r.Text
	}
	return r.Member + ": " + r.Text
}

func (r *Refusal) Unwrap() error { return r.Cause }

func refuse(why Reason, format string, args ...any) *Refusal {
	return &Refusal{Why: why, Text: fmt.Sprintf(format, args...)}
}

// refuseMember refuses a value.
func refuseMember(member, format string, args ...any) *Refusal {
	return &Refusal{Why: Wrong, Member: member, Text: fmt.Sprintf(format, args...)}
}

// translate returns the refusal that has an error as its cause, and any other error as it is.
func translate(err error, refusals ...*Refusal) error {
	for _, r := range refusals {
		if errors.Is(err, r.Cause) {
			return r
		}
	}
	return err
}

// KeyActor returns a merchant's API key as an actor, which sees what is its own. A key of no merchant may do nothing.
func KeyActor(a *account.Account, from string) operator.Actor {
	by := operator.Actor{Who: "key:" + a.KeyID, Merchant: a.Merchant.Name, From: from}
	if by.Merchant != "" {
		by.Role = operator.Operator
	}
	return by
}

// A ConfirmError says that a person has to confirm an act first, see Danger of [Act]. Nothing was done.
type ConfirmError struct{ operator.Intent }

func (e *ConfirmError) Error() string { return "ops: not confirmed: " + e.Act }

// An ApprovalError says that another person has to allow an act first. Nothing was done.
type ApprovalError struct{ operator.Intent }

func (e *ApprovalError) Error() string { return "ops: not allowed by a second person: " + e.Act }

// NeedsTwo reports whether a second person has to allow the acts of a group of dangerous ones. A command needs none:
// who has the machine has everything.
func (a *Acts) NeedsTwo(danger string) bool {
	return danger != "" && !a.IsCommandLine && a.FourEyes != nil && slices.Contains(a.FourEyes(), danger)
}

// checkDanger returns a [ConfirmError] if an act is dangerous and the person has not confirmed it, and an
// [ApprovalError] if another person has to allow it. A token cannot ask another person, and people of one merchant do
// not see what waits, so the act is refused to both.
func (a *Acts) checkDanger(by *operator.Actor, act, object string) error {
	return a.checkIntent(by, operator.Intent{Act: act, Object: object})
}

// checkIntent is checkDanger for an intent.
func (a *Acts) checkIntent(by *operator.Actor, what operator.Intent) error {
	danger := Find(what.Act).Danger
	needsTwo := a.NeedsTwo(danger) && !by.Allowed.IsOf(what)
	switch {
	case by.IsPerson && by.Merchant != "" && needsTwo:
		return refuse(Forbidden, "Two people who see all merchants do this together: console.four_eyes has %s.", danger)
	case by.IsPerson && danger != "" && !by.Confirmed.IsOf(what):
		return &ConfirmError{what}
	case !needsTwo:
		return nil
	case by.IsPerson:
		return &ApprovalError{what}
	}
	return refuse(Forbidden, "Two people do this together: console.four_eyes has %s. Ask for it in the console, where "+
		"another person allows it.", danger)
}

// Record writes to the audit trail that an actor is about to do an act. If the act is dangerous, it may write nothing
// and return a [ConfirmError], an [ApprovalError] or a refusal.
func (a *Acts) Record(ctx context.Context, by operator.Actor, act, object string, before, after any) error {
	if err := a.checkDanger(&by, act, object); err != nil {
		return err
	}
	return a.record(ctx, by, act, object, before, after)
}

// record is Record for an act that was checked.
func (a *Acts) record(ctx context.Context, by operator.Actor, act, object string, before, after any) error {
	err := a.Operators.Record(ctx, by.Entry(Find(act).Action, object, before, after))
	if err != nil {
		return fmt.Errorf("audit trail: %w", err)
	}
	return nil
}

// CheckMerchant refuses a merchant that there is not, or that the actor may not see, in the same words. "" stands for
// all that the actor may see.
func (a *Acts) CheckMerchant(ctx context.Context, by *operator.Actor, name string) error {
	if name == "" || a.IsCommandLine {
		return nil
	}
	err := a.Merchants().CheckKnown(ctx, by.Scope(), name)
	if errors.Is(err, merchant.ErrNotFound) {
		return &Refusal{Wrong, "merchant", err.Error() + ".", err}
	}
	return err
}

// chooseMerchant returns the merchant that something is made for: the named one, or that of the actor if none is named.
func (a *Acts) chooseMerchant(ctx context.Context, by *operator.Actor, name string) (string, error) {
	name = cmp.Or(name, by.Merchant)
	switch {
	case name == "" && by.Group != "":
		return "", refuseMember("merchant", "say for which one.")
	case !by.CanSee(name):
		return "", errNoMerchant
	}
	return name, a.CheckMerchant(ctx, by, name)
}

var errNoMerchant = &Refusal{Missing, "", "There is no merchant of this name.", merchant.ErrNotFound}

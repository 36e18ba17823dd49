package operator

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// The errors of approvals.
var (
	ErrNoApproval  = errors.New("operator: no such act waits")
	ErrOwnApproval = errors.New("operator: a person may not allow what they have asked for")
	ErrNotAllowed  = errors.New("operator: nobody has allowed it yet")
)

// approvalLife is for how long an act waits: until it is allowed, and until it is carried out.
const approvalLife = time.Hour

// An Approval is an act that one person has asked for, and that another one has to allow. Who has asked carries it out.
// A person is known by identity: names are for people who read them, and another person may get one.
type Approval struct {
	ID string `json:"-"`
	Intent
	Confirmed string    `json:"confirmed"` // how who has asked has confirmed it
	AskedBy   string    `json:"askedBy"`
	Asker     string    `json:"asker"`          // the identity of the person who has asked
	Group     string    `json:"group,omitzero"` // of who has asked; only people of it, or of none, may allow it
	AskedAt   time.Time `json:"askedAt"`
	Expires   time.Time `json:"-"`
	// AllowedBy is who has allowed it, and Allower the identity of that person; "" means that no person has yet.
	AllowedBy string `json:"allowedBy,omitzero"`
	Allower   string `json:"allower,omitzero"`
	// Path and Form are the form of the console that asked for it. Nothing else is carried out.
	Path string     `json:"path"`
	Form url.Values `json:"form"`
	// Card is the card number of the form, sealed by the session of who has asked; nil means that it has none. The form
	// has its last digits.
	Card []byte `json:"card,omitempty"`
}

// AskApproval keeps an act until somebody allows it. It sets ID, AskedAt and Expires.
func (s *Service) AskApproval(ctx context.Context, a *Approval) error {
	a.ID, a.AskedAt = idOfSecret(NewSecret())[:approvalIDLen], s.Now().UTC().Truncate(time.Second)
	a.Expires = a.AskedAt.Add(approvalLife)
	row := store.Object{Kind: store.ApprovalObjects, ID: a.ID, Expires: a.Expires}
	row.Data = s.seal(&row, a)
	return s.Store.AddObject(ctx, row)
}

// approvalIDLen is the length of the id of an act that waits, which is no secret.
const approvalIDLen = 16

// openApproval reads the row of an act that waits.
func (s *Service) openApproval(row *store.Object) (a Approval, err error) {
	err = s.open(row, &a)
	a.ID, a.Expires = row.ID, row.Expires
	return a, err
}

// Approvals returns the acts that wait. It leaves out those whose rows were changed.
func (s *Service) Approvals(ctx context.Context) ([]Approval, error) {
	rows, err := s.Store.Objects(ctx, store.ApprovalObjects)
	var all []Approval
	for i := range rows {
		if a, err := s.openApproval(&rows[i]); err == nil {
			all = append(all, a)
		}
	}
	return all, err
}

// FindApproval returns an act that waits, or ErrNoApproval.
func (s *Service) FindApproval(ctx context.Context, id string) (Approval, error) {
	a, _, err := s.findApproval(ctx, id)
	return a, err
}

// findApproval is FindApproval with the row.
func (s *Service) findApproval(ctx context.Context, id string) (Approval, store.Object, error) {
	row, err := s.Store.Object(ctx, store.ApprovalObjects, id)
	if err != nil {
		return Approval{}, row, translateError(err, store.ErrNotFound, ErrNoApproval)
	}
	a, err := s.openApproval(&row)
	if err != nil {
		return Approval{}, row, ErrNoApproval
	}
	return a, row, nil
}

// IsOwn reports whether an actor is the person who has asked for the act.
func (a *Approval) IsOwn(by *Actor) bool { return by.Identity != "" && by.Identity == a.Asker }

// MayAllow reports whether an actor is another person than the one who has asked for the act. One who has got the name
// of that person may not allow it either, for the audit trail would show one name twice.
func (a *Approval) MayAllow(by *Actor) bool {
	return by.Identity != "" && by.Identity != a.Asker && by.Who != a.AskedBy
}

// Allow notes that a person has allowed an act, for as long as it waits. It returns ErrOwnApproval for one who may not,
// see MayAllow.
func (s *Service) Allow(ctx context.Context, id string, by *Actor) error {
	a, row, err := s.findApproval(ctx, id)
	switch {
	case err != nil:
		return err
	case !a.MayAllow(by):
		return ErrOwnApproval
	case a.AllowedBy != "":
		return nil
	}
	was := row.Data
	a.AllowedBy, a.Allower = by.Who, by.Identity
	row.Data = s.seal(&row, a)
	return translateError(s.Store.ChangeObject(ctx, row, was), store.ErrNotFound, ErrNoApproval)
}

// TakeApproval removes an act that was allowed, and returns it to who has asked for it, once.
func (s *Service) TakeApproval(ctx context.Context, id string, by *Actor) (Approval, error) {
	a, err := s.FindApproval(ctx, id)
	switch {
	case err != nil:
		return Approval{}, err
	case !a.IsOwn(by):
		return Approval{}, ErrNoApproval
	case a.AllowedBy == "":
		return Approval{}, ErrNotAllowed
	}
	return a, s.DropApproval(ctx, id)
}

// DropApproval removes an act that waits, or returns ErrNoApproval.
func (s *Service) DropApproval(ctx context.Context, id string) error {
	return translateError(s.Store.RemoveObject(ctx, store.ApprovalObjects, id), store.ErrNotFound, ErrNoApproval)
}

package ops

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/openthreeds/threeds/internal/operate/operator"
)

// approvalActs are the acts on acts that wait for a second person.
func approvalActs() []Act {
	const object = "act, and its object"
	return []Act{
		{Name: "approval list", Least: operator.Operator, IsForGroups: true, Doors: []Door{Console}},
		// It has no door of its own: the form of the act that waits asks for it.
		{Name: "approval ask", Least: operator.Operator, IsForGroups: true, Action: "approval.ask", Object: object},
		{
			Name: "approval allow", Least: operator.Operator, IsForGroups: true, Action: "approval.allow", Object: object,
			Doors: []Door{Console}, Danger: "approvals", Summary: "Allow",
		},
		{
			Name: "approval refuse", Least: operator.Operator, IsForGroups: true, Action: "approval.refuse", Object: object,
			Doors: []Door{Console},
		},
	}
}

// These say why an act that waits is not allowed or carried out.
var (
	errNoApproval = &Refusal{Missing, "",
		"This does not wait any more: its hour is over, or it was carried out, refused or withdrawn.",
		operator.ErrNoApproval}
	errOwnApproval = &Refusal{Forbidden, "",
		"You have asked for this yourself, or a person of your name has. A person of another name has to allow it.",
		operator.ErrOwnApproval}
	errNotAllowed = &Refusal{Conflict, "", "Another person has to allow this first.", operator.ErrNotAllowed}
)

// approvalRefusal returns the refusal that an error of approvals is.
func approvalRefusal(err error) error {
	return translate(err, errNoApproval, errOwnApproval, errNotAllowed)
}

// objectOf names an act that waits in the audit trail.
func objectOf(a *operator.Approval) string {
	if a.Object == "" {
		return a.Act
	}
	return a.Act + ": " + a.Object
}

// Groups returns the groups of dangerous acts that a configuration may want a second person for. The approvals
// themselves are none of them.
func Groups() []string {
	var all []string
	for i := range acts {
		if danger := acts[i].Danger; danger != "" && danger != "approvals" && !slices.Contains(all, danger) {
			all = append(all, danger)
		}
	}
	slices.Sort(all)
	return all
}

// maxWaiting is how many acts of one person wait for another one at most.
const maxWaiting = 20

// AskApproval keeps the form of an act until another person has allowed it. The actor has confirmed the act. card is
// the card number that belongs into the form, sealed by the session; nil means that there is none.
func (a *Acts) AskApproval(ctx context.Context, by operator.Actor, what operator.Intent, path string, form url.Values,
	card []byte) error {
	if err := Find(what.Act).Check(&by); err != nil {
		return err
	}
	waiting, err := a.Operators.Approvals(ctx)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(waiting, func(w operator.Approval) bool { return !w.IsOwn(&by) })
	if len(own) >= maxWaiting {
		return refuse(Conflict, "%d acts that you have asked for wait for another person: withdraw one of them, or wait.",
			len(own))
	}
	asked := operator.Approval{
		Intent: what, Confirmed: by.Confirmed.By, AskedBy: by.Who, Asker: by.Identity, Group: by.Group, Path: path,
		Form: form, Card: card,
	}
	if err := a.Record(ctx, by, "approval ask", objectOf(&asked), nil, nil); err != nil {
		return err
	}
	return a.Operators.AskApproval(ctx, &asked)
}

// mayDecide reports whether the actor may allow and refuse an act that waits: one that the actor may do. People of one
// merchant decide about nothing. People of a group decide about what people of the same group have asked for, and know
// of nothing else.
func mayDecide(by *operator.Actor, w *operator.Approval) bool {
	return Find("approval allow").May(by) && Find(w.Act).May(by) && (by.Group == "" || by.Group == w.Group)
}

// Approvals returns the acts that wait and that the actor may do, so also allow.
func (a *Acts) Approvals(ctx context.Context, by operator.Actor) ([]operator.Approval, error) {
	if err := Find("approval list").Check(&by); err != nil {
		return nil, err
	}
	all, err := a.Operators.Approvals(ctx)
	return slices.DeleteFunc(all, func(w operator.Approval) bool { return !mayDecide(&by, &w) }), err
}

// findApproval returns an act that waits, if the actor may do it.
func (a *Acts) findApproval(ctx context.Context, by *operator.Actor, id string) (operator.Approval, error) {
	if err := Find("approval list").Check(by); err != nil {
		return operator.Approval{}, err
	}
	w, err := a.Operators.FindApproval(ctx, id)
	if err == nil && by.Group != "" && !mayDecide(by, &w) {
		err = operator.ErrNoApproval
	}
	if err != nil {
		return w, approvalRefusal(err)
	}
	return w, Find(w.Act).Check(by)
}

// AllowApproval allows an act that another person has asked for.
func (a *Acts) AllowApproval(ctx context.Context, by operator.Actor, id string) error {
	w, err := a.findApproval(ctx, &by, id)
	switch {
	case err != nil:
		return err
	case !w.MayAllow(&by):
		return errOwnApproval
	}
	if err := a.Record(ctx, by, "approval allow", objectOf(&w), nil, map[string]string{"askedBy": w.AskedBy}); err != nil {
		return err
	}
	return approvalRefusal(a.Operators.Allow(ctx, id, &by))
}

// RefuseApproval ends an act that waits: another person refuses it, or who has asked withdraws it.
func (a *Acts) RefuseApproval(ctx context.Context, by operator.Actor, id string) error {
	w, err := a.findApproval(ctx, &by, id)
	if err != nil {
		return err
	}
	if err := a.Record(ctx, by, "approval refuse", objectOf(&w), nil,
		map[string]string{"askedBy": w.AskedBy}); err != nil {
		return err
	}
	return approvalRefusal(a.Operators.DropApproval(ctx, id))
}

// checkAllower refuses an act that was allowed by a person who may not do it any more, or who is not there any more:
// another person may have the name by now.
func (a *Acts) checkAllower(ctx context.Context, w *operator.Approval) error {
	u, err := a.Operators.FindWho(ctx, w.AllowedBy)
	if err != nil && !errors.Is(err, operator.ErrNoUser) {
		return err
	}
	if err != nil || u.Identity() != w.Allower ||
		!mayDecide(&operator.Actor{Role: u.Role, Merchant: u.Merchant, Group: u.Group}, w) {
		return refuse(Conflict, "%s has allowed this, and may not do so any more. Withdraw it, and ask again.", w.AllowedBy)
	}
	return nil
}

// TakeApproval returns an act that was allowed to who has asked for it, once, and that actor with what was confirmed
// and allowed. Before that it calls prepare with the act: after an error the act goes on waiting.
func (a *Acts) TakeApproval(ctx context.Context, by operator.Actor, id string,
	prepare func(*operator.Approval) error) (operator.Approval, operator.Actor, error) {
	w, err := a.Operators.FindApproval(ctx, id)
	if err == nil && w.Group != by.Group { // who has asked has another group by now
		err = operator.ErrNoApproval
	}
	if err == nil && w.IsOwn(&by) && w.AllowedBy != "" {
		if err = a.checkAllower(ctx, &w); err == nil {
			err = prepare(&w)
		}
	}
	if err == nil {
		w, err = a.Operators.TakeApproval(ctx, id, &by)
	}
	if err != nil {
		return w, by, approvalRefusal(err)
	}
	by.Confirmed = operator.Confirmation{Intent: w.Intent, By: w.Confirmed}
	by.Allowed = operator.Confirmation{Intent: w.Intent, By: w.AllowedBy}
	return w, by, nil
}

package ops

import (
	"context"
	"slices"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/account"
)

// operatorActs are the acts on tokens of the admin API and on operators of the console.
func operatorActs() []Act {
	const object = "name"
	return []Act{
		{Name: "token list", Least: operator.Admin, Doors: byOperators},
		{
			Name: "token create", Least: operator.Admin, Action: "token.create", Object: object, Doors: byOperators,
			Danger: "tokens", Summary: "Make a token",
		},
		{
			Name: "token revoke", Least: operator.Admin, Action: "token.revoke", Object: object, Doors: byOperators,
			Danger: "tokens", Route: "DELETE tokens/{name}", Summary: "Revoke a token",
			Do: func(a *Acts, ctx context.Context, by operator.Actor, name string) (any, error) {
				return nil, a.revokeToken(ctx, by, name)
			},
		},
		{Name: "operator list", Least: operator.Admin, Doors: byOperators},
		{
			Name: "operator invite", Least: operator.Admin, Action: "operator.invite", Object: object, Doors: byOperators,
			Danger: "operators", Summary: "Invite an operator",
		},
		{
			Name: "operator role", Least: operator.Admin, Action: "operator.role", Object: object, Doors: byOperators,
			Danger: "operators", Summary: "Change the role of an operator",
		},
		{
			Name: "operator remove", Least: operator.Admin, Action: "operator.remove", Object: object, Doors: byOperators,
			Danger: "operators", Route: "DELETE operators/{name}", Summary: "Remove an operator",
			Do: func(a *Acts, ctx context.Context, by operator.Actor, name string) (any, error) {
				return nil, a.removeOperator(ctx, by, name)
			},
		},
	}
}

// These say that there is none, or that there is one already.
var (
	errNoToken = &Refusal{Missing, "", "There is no token of this name.", operator.ErrNoToken}
	errTaken   = &Refusal{Conflict, "name", "there is a token of this name. Revoke it, or choose another name.",
		operator.ErrTaken}
	errNoOperator = &Refusal{Missing, "", "There is no operator of this name.", operator.ErrNoUser}
	errUserExists = &Refusal{Conflict, "name", "there is an operator of this name with another role, merchant or group.",
		operator.ErrUserExists}
)

// Tokens returns the tokens of the admin API by name.
func (a *Acts) Tokens(ctx context.Context, by operator.Actor) ([]operator.Token, error) {
	if err := Find("token list").Check(&by); err != nil {
		return nil, err
	}
	return a.Operators.Tokens(ctx)
}

// checkPerson returns the role of a token or an operator. It refuses a merchant that may be a card number, and a group
// that is none.
func checkPerson(role, merchant, group string) (operator.Role, error) {
	parsed, err := operator.ParseRole(role)
	if err != nil {
		return "", refuseMember("role", "%v.", err)
	}
	if err := cardnumber.Check(merchant); err != nil {
		return "", refuseMember("merchant", "%v.", err)
	}
	if err := checkGroup(merchant, group); err != nil {
		return "", err
	}
	return parsed, nil
}

// checkGroup refuses a group that is none, and one in addition to a merchant.
func checkGroup(merchant, group string) error {
	if merchant != "" && group != "" {
		return refuseMember("group", "give a merchant or a group, not both.")
	}
	if err := account.CheckGroup(group); err != nil && group != "" {
		return refuseMember("group", "%v.", err)
	}
	return nil
}

// CreateToken makes a token of the admin API.
func (a *Acts) CreateToken(ctx context.Context, by operator.Actor, t api.NewToken) (api.MadeToken, error) {
	if err := Find("token create").Check(&by); err != nil {
		return api.MadeToken{}, err
	}
	role, err := checkPerson(t.Role, t.Merchant, t.Group)
	if err != nil {
		return api.MadeToken{}, err
	}
	if err := operator.CheckTokenName(t.Name); err != nil {
		return api.MadeToken{}, refuseMember("name", "%v.", err)
	}
	if err := a.checkEnd(t.Expires); err != nil {
		return api.MadeToken{}, err
	}
	isThere, err := a.hasToken(ctx, t.Name)
	if err != nil {
		return api.MadeToken{}, err
	}
	if isThere {
		return api.MadeToken{}, errTaken
	}
	if err := a.Record(ctx, by, "token create", t.Name, nil, t); err != nil {
		return api.MadeToken{}, err
	}
	text, err := a.Operators.CreateToken(ctx,
		operator.Token{Name: t.Name, Role: role, Merchant: t.Merchant, Group: t.Group, Expires: t.Expires})
	return api.MadeToken{Token: text, Name: t.Name}, translate(err, errTaken)
}

// hasToken reports whether there is a token of a name, also one that has ended or that is refused.
func (a *Acts) hasToken(ctx context.Context, name string) (bool, error) {
	all, err := a.Operators.Tokens(ctx)
	return slices.ContainsFunc(all, func(t operator.Token) bool { return t.Name == name }), err
}

func (a *Acts) revokeToken(ctx context.Context, by operator.Actor, name string) error {
	if err := Find("token revoke").Check(&by); err != nil {
		return err
	}
	isThere, err := a.hasToken(ctx, name)
	if err != nil {
		return err
	}
	if !isThere {
		return errNoToken
	}
	if err := a.Record(ctx, by, "token revoke", name, nil, nil); err != nil {
		return err
	}
	return translate(a.Operators.RevokeToken(ctx, name), errNoToken)
}

// ListOperators returns who may log in to the console, by name.
func (a *Acts) ListOperators(ctx context.Context, by operator.Actor) ([]operator.User, error) {
	if err := Find("operator list").Check(&by); err != nil {
		return nil, err
	}
	return a.Operators.Users(ctx)
}

// InviteOperator makes an invitation to the console.
func (a *Acts) InviteOperator(ctx context.Context, by operator.Actor, o api.NewOperator) (api.Invited, error) {
	if err := Find("operator invite").Check(&by); err != nil {
		return api.Invited{}, err
	}
	role, err := checkPerson(o.Role, o.Merchant, o.Group)
	if err != nil {
		return api.Invited{}, err
	}
	if err := operator.CheckTokenName(o.Name); err != nil && o.Name != "" {
		return api.Invited{}, refuseMember("name", "%v.", err)
	}
	address := ""
	if a.PasskeyURL != nil {
		address = a.PasskeyURL()
	}
	if address == "" {
		return api.Invited{},
			refuse(Conflict, "An invitation is for a passkey. The configuration has none: see console.passkeys.")
	}
	if err := a.checkDanger(&by, "operator invite", o.Name); err != nil {
		return api.Invited{}, err
	}
	invitation := operator.Invitation{Name: o.Name, Role: role, Merchant: o.Merchant, Group: o.Group}
	secret, err := a.Operators.Invite(ctx, &invitation)
	if err != nil {
		return api.Invited{}, translate(err, errUserExists)
	}
	after := map[string]any{"role": role, "merchant": o.Merchant, "group": o.Group}
	if err := a.record(ctx, by, "operator invite", invitation.Name, nil, after); err != nil { // nobody has the link
		return api.Invited{}, err
	}
	return api.Invited{
		Link: address + "/invite/" + secret, Name: invitation.Name, Expires: invitation.Expires.Truncate(time.Second),
	}, nil
}

// findOperator returns an operator, if the actor may do the act. If the row was changed in the store, the operator has
// only a name.
func (a *Acts) findOperator(ctx context.Context, by *operator.Actor, act, name string) (operator.User, error) {
	if err := Find(act).Check(by); err != nil {
		return operator.User{}, err
	}
	all, err := a.Operators.Users(ctx)
	if err != nil {
		return operator.User{}, err
	}
	if i := slices.IndexFunc(all, func(u operator.User) bool { return u.Name == name }); i >= 0 {
		return all[i], nil
	}
	return operator.User{}, errNoOperator
}

// ChangeRole gives an operator another role, and another group if there is one in c, which ends their sessions. It
// returns the operator before and after.
func (a *Acts) ChangeRole(ctx context.Context, by operator.Actor, name string,
	c api.RoleChange) (was, now operator.User, err error) {
	if was, err = a.findOperator(ctx, &by, "operator role", name); err != nil {
		return was, now, err
	}
	wanted, err := operator.ParseRole(c.Role)
	if err != nil {
		return was, now, refuseMember("role", "%v.", err)
	}
	group := was.Group
	if c.Group != nil {
		group = *c.Group
	}
	if err := checkGroup(was.Merchant, group); err != nil {
		return was, now, err
	}
	if was.IsOIDC() {
		return was, now,
			refuse(Conflict, "The issuer says the role of this operator: see console.oidc.roles of the configuration.")
	}
	a.operators.Lock()
	defer a.operators.Unlock()
	if wanted != operator.Admin || group != "" {
		if err := a.checkOtherAdmin(ctx, &was); err != nil {
			return was, now, err
		}
	}
	before, after := map[string]any{"role": was.Role}, map[string]any{"role": wanted}
	if group != was.Group {
		before["group"], after["group"] = was.Group, group
	}
	if err := a.Record(ctx, by, "operator role", was.Name, before, after); err != nil {
		return was, now, err
	}
	was, now, err = a.Operators.ChangeUser(ctx, was.Name, func(u *operator.User) error {
		if u.Role = wanted; c.Group != nil { // else the group may have changed meanwhile, and stays as it is now
			u.Group = group
		}
		return nil
	})
	return was, now, translate(err, errNoOperator)
}

// removeOperator removes an operator, which ends their sessions.
func (a *Acts) removeOperator(ctx context.Context, by operator.Actor, name string) error {
	was, err := a.findOperator(ctx, &by, "operator remove", name)
	if err != nil {
		return err
	}
	a.operators.Lock()
	defer a.operators.Unlock()
	if err := a.checkOtherAdmin(ctx, &was); err != nil {
		return err
	}
	if err := a.Record(ctx, by, "operator remove", was.Name, map[string]any{"role": was.Role}, nil); err != nil {
		return err
	}
	return translate(a.Operators.RemoveUser(ctx, was.Name), errNoOperator)
}

// checkOtherAdmin refuses to remove the last admin of all merchants who logs in by passkey: after that, no one could
// invite another. An admin that the issuer knows comes back with the next login. A command may remove the last admin,
// for it can always invite another one.
func (a *Acts) checkOtherAdmin(ctx context.Context, going *operator.User) error {
	isAdmin := func(u *operator.User) bool {
		return u.IsSealed && u.Role == operator.Admin && u.Merchant == "" && u.Group == ""
	}
	if a.IsCommandLine || !isAdmin(going) || going.IsOIDC() {
		return nil
	}
	all, err := a.Operators.Users(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(u operator.User) bool { return u.Name != going.Name && isAdmin(&u) }) {
		return refuse(Conflict, "This is the last admin. Invite another one first.")
	}
	return nil
}

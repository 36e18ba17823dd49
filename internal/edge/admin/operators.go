package admin

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/operate/operator"
)

func listOperators(h *Handler, r *request) (any, error) {
	all, err := h.Operators.Users(r.Context())
	return list[operator.User]{Data: all}, err
}

// inviteOperator makes an invitation to the console. Whoever opens its link first is the operator.
func inviteOperator(h *Handler, r *request) (any, error) {
	var asked struct {
		Name     string `json:"name"`
		Role     string `json:"role"`
		Merchant string `json:"merchant"`
	}
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	role, err := operator.ParseRole(asked.Role)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "role: %v.", err)
	}
	if err := operator.CheckTokenName(asked.Name); err != nil && asked.Name != "" {
		return nil, refuse(http.StatusBadRequest, "name: %v.", err)
	}
	address := ""
	if h.PasskeyURL != nil {
		address = h.PasskeyURL()
	}
	if address == "" {
		return nil, refuse(http.StatusConflict, "An invitation is for a passkey. The configuration has none: see console.passkeys.")
	}
	invitation := operator.Invitation{Name: asked.Name, Role: role, Merchant: asked.Merchant}
	secret, err := h.Operators.Invite(r.Context(), &invitation)
	if errors.Is(err, operator.ErrUserExists) {
		return nil, refuse(http.StatusConflict, "name: there is an operator of this name with another role or merchant.")
	}
	if errors.Is(err, cardnumber.ErrFound) {
		return nil, refuse(http.StatusBadRequest, "%v.", err)
	}
	if err != nil {
		return nil, err
	}
	after := map[string]any{"role": role, "merchant": asked.Merchant}
	if err := h.record(r, "operator.invite", invitation.Name, nil, after); err != nil { // nobody has the link
		return nil, err
	}
	return created{map[string]string{
		"link": address + "/invite/" + secret, "name": invitation.Name, "expires": invitation.Expires.Format(time.RFC3339),
	}}, nil
}

// errNoOperator says that there is no such operator.
var errNoOperator = refuse(http.StatusNotFound, "There is no operator of this name.")

// changeOperator gives an operator another role, which ends their sessions.
func changeOperator(h *Handler, r *request) (any, error) {
	var asked struct {
		Role string `json:"role"`
	}
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	role, err := operator.ParseRole(asked.Role)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "role: %v.", err)
	}
	was, err := h.findOperator(r)
	if err != nil {
		return nil, err
	}
	if was.IsOIDC() {
		return nil, refuse(http.StatusConflict, "The issuer says the role of this operator: see console.oidc.roles of the configuration.")
	}
	h.operators.Lock()
	defer h.operators.Unlock()
	if role != operator.Admin {
		if err := h.checkOtherAdmin(r, &was); err != nil {
			return nil, err
		}
	}
	before, after := map[string]any{"role": was.Role}, map[string]any{"role": role}
	if err := h.record(r, "operator.role", was.Name, before, after); err != nil {
		return nil, err
	}
	_, now, err := h.Operators.ChangeUser(r.Context(), was.Name, func(u *operator.User) error {
		u.Role = role
		return nil
	})
	if errors.Is(err, operator.ErrNoUser) {
		return nil, errNoOperator
	}
	return now, err
}

// removeOperator removes an operator, which ends their sessions.
func removeOperator(h *Handler, r *request) (any, error) {
	was, err := h.findOperator(r)
	if err != nil {
		return nil, err
	}
	h.operators.Lock()
	defer h.operators.Unlock()
	if err := h.checkOtherAdmin(r, &was); err != nil {
		return nil, err
	}
	if err := h.record(r, "operator.remove", was.Name, map[string]any{"role": was.Role}, nil); err != nil {
		return nil, err
	}
	if err := h.Operators.RemoveUser(r.Context(), was.Name); !errors.Is(err, operator.ErrNoUser) {
		return nil, err
	}
	return nil, errNoOperator
}

// checkOtherAdmin refuses that the last admin of all merchants goes, who logs in by passkey: nobody could invite another.
// Whom the issuer knows comes back with the next login. A command can always invite somebody.
func (h *Handler) checkOtherAdmin(r *request, going *operator.User) error {
	isAdmin := func(u *operator.User) bool { return u.IsSealed && u.Role == operator.Admin && u.Merchant == "" }
	if !isAdmin(going) || going.IsOIDC() {
		return nil
	}
	all, err := h.Operators.Users(r.Context())
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(u operator.User) bool { return u.Name != going.Name && isAdmin(&u) }) {
		return refuse(http.StatusConflict, "This is the last admin. Invite another one first.")
	}
	return nil
}

// findOperator returns the operator that a request names. One whose row was changed in the store has a name alone.
func (h *Handler) findOperator(r *request) (operator.User, error) {
	all, err := h.Operators.Users(r.Context())
	if err != nil {
		return operator.User{}, err
	}
	for _, u := range all {
		if u.Name == r.PathValue("name") {
			return u, nil
		}
	}
	return operator.User{}, errNoOperator
}

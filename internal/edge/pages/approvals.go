package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
)

// An approvalsView is the data of the page of acts that wait for a second person.
type approvalsView struct{ Waiting []waitingAct }

// A waitingAct is one of them.
type waitingAct struct {
	operator.Approval
	Summary string
	Asked   string // what the form said, without what pages put there
	IsOwn   bool   // the visitor has asked for it
	// HasCard says that the form has a card number, and IsReadable that the session of the visitor can read that.
	HasCard, IsReadable bool
}

// roleChange is the act that leaves a group as it is if the form has none.
const roleChange = "operator role"

// askedFields are the fields of forms that say what is asked for, by the act that reads them. Others do nothing, so
// they must say nothing either. The objects of other acts say everything.
var askedFields = map[string][]string{
	"journal erase":   {cardField, "merchant"},
	"operator invite": {"group", "merchant", "name", "role"},
	roleChange:        {"group", "role"},
	"token create":    {"expires", "group", "merchant", "name", "role"},
}

// describeForm returns what the form of an act asks for, without card numbers.
func describeForm(act string, form url.Values) string {
	var all []string
	fields := askedFields[act]
	for _, name := range fields {
		if text := strings.TrimSpace(form.Get(name)); text != "" { // the first value, as the act reads it
			all = append(all, name+": "+cardnumber.Mask(text))
		}
	}
	hasMerchant := slices.Contains(fields, "merchant") && form.Get("merchant") != ""
	switch {
	case !slices.Contains(fields, "role"):
	case act == roleChange && !form.Has("group"):
		all = append(all, "group: unchanged")
	case !hasMerchant && strings.TrimSpace(form.Get("group")) == "":
		all = append(all, "for all merchants")
	}
	return strings.Join(all, "; ")
}

func approvalsPage(h *Handler, v *visit) (result, error) {
	all, err := h.Acts.Approvals(v.Context(), v.session.Actor)
	view := &approvalsView{}
	for i := range all {
		w := waitingAct{
			Approval: all[i], Summary: ops.Find(all[i].Act).Summary, Asked: describeForm(all[i].Act, all[i].Form),
			IsOwn: all[i].IsOwn(&v.session.Actor), HasCard: all[i].Card != nil,
		}
		if w.HasCard {
			_, err := v.session.Open(w.Card)
			w.IsReadable = err == nil
		}
		view.Waiting = append(view.Waiting, w)
	}
	return result{template: "approvals", title: "Approvals", data: view}, err
}

// askApproval keeps the form of a visit until another person has allowed it.
func (h *Handler) askApproval(v *visit, what operator.Intent) (result, error) {
	form := url.Values{}
	for name, values := range v.PostForm {
		if name != "csrf" {
			form[name] = values
		}
	}
	var card []byte
	if number := digitsOf(form.Get(cardField)); number != "" {
		card = v.session.Seal([]byte(number))
		form.Set(cardField, "ending in "+number[max(0, len(number)-4):])
	}
	by := v.session.Actor
	return result{to: "/approvals"}, h.Acts.AskApproval(v.Context(), by, what, v.URL.RequestURI(), form, card)
}

// cardField is the field of a card number.
const cardField = "card"

// errOtherLogin says that a card number was sealed by another session.
var errOtherLogin = &admin.Problem{
	Status: http.StatusConflict,
	Detail: "Only the login that has asked for this can read the card number. Nothing was erased, and it still waits. " +
		"Carry it out in that login, or withdraw it and ask again.",
}

// changeApproval allows or refuses an act that waits, or carries it out.
func changeApproval(h *Handler, v *visit) (result, error) {
	by, id := v.session.Actor, v.PathValue("id")
	switch v.PostForm.Get("do") {
	case "allow":
		return result{to: "/approvals"}, h.Acts.AllowApproval(v.Context(), by, id)
	case "refuse":
		return result{to: "/approvals"}, h.Acts.RefuseApproval(v.Context(), by, id)
	case "carry":
		return h.carryOut(v, id)
	}
	return result{}, errNoPage
}

// carryOut returns the form that was allowed as a request of the visitor, who has asked for it.
func (h *Handler) carryOut(v *visit, id string) (result, error) {
	var at *url.URL
	var number []byte
	allowed, by, err := h.Acts.TakeApproval(v.Context(), v.session.Actor, id, func(w *operator.Approval) (err error) {
		if w.Card != nil {
			if number, err = v.session.Open(w.Card); err != nil {
				return errOtherLogin
			}
		}
		at, err = url.Parse(w.Path)
		return err
	})
	if err != nil {
		return result{}, err
	}
	session := *v.session
	session.Actor = by
	r := v.WithContext(operator.WithSession(v.Context(), &session))
	r.URL, r.Method = at, http.MethodPost
	r.PostForm, r.Form = allowed.Form, nil
	if number != nil {
		r.PostForm.Set(cardField, string(number))
	}
	r.PostForm.Set("csrf", session.FormToken())
	return result{form: r}, nil
}

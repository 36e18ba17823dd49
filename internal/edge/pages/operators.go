package pages

import (
	"net/url"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
)

// An operatorEntry is an operator with the path of the form. A subject of the issuer may have a slash in it.
type operatorEntry struct {
	operator.User
	Path string
}

// An operatorsView is the data of the page of operators.
type operatorsView struct {
	Operators        []operatorEntry
	Merchants, Roles []choice
	Fault, Name      string
	Group            string // as it was typed
	Link, For        string // of an invitation that was just made, this once
}

// showOperators lists operators, with an invitation that was just made or with what is wrong with what was typed.
func (h *Handler) showOperators(v *visit, view *operatorsView) (result, error) {
	all, err := h.Acts.ListOperators(v.Context(), v.session.Actor)
	if err != nil {
		return result{}, err
	}
	for _, u := range all {
		view.Operators = append(view.Operators, operatorEntry{u, "/operators/" + url.PathEscape(u.Name)})
	}
	view.Roles = wordChoices(operator.Roles(), v.PostForm.Get("role"))
	view.Merchants, err = h.merchantChoices(v, v.PostForm.Get("merchant"))
	return result{template: "operators", title: "Operators", data: view, status: faultStatus(view.Fault)}, err
}

func operatorsPage(h *Handler, v *visit) (result, error) { return h.showOperators(v, &operatorsView{}) }

// inviteOperator makes a link for a passkey. The answer shows it, and nothing shows it again.
func inviteOperator(h *Handler, v *visit) (result, error) {
	form := v.PostForm
	asked := api.NewOperator{
		Name: strings.TrimSpace(form.Get("name")), Role: form.Get("role"), Merchant: form.Get("merchant"),
		Group: strings.TrimSpace(form.Get("group")),
	}
	made, err := h.Acts.InviteOperator(v.Context(), v.session.Actor, asked)
	fault, err := faultOf(err)
	if err != nil {
		return result{}, err
	}
	if fault != "" {
		return h.showOperators(v, &operatorsView{Fault: fault, Name: form.Get("name"), Group: form.Get("group")})
	}
	return h.showOperators(v, &operatorsView{Link: made.Link, For: made.Name})
}

// changeOperator gives an operator another role and group, or removes one.
func changeOperator(h *Handler, v *visit) (result, error) {
	by, name := v.session.Actor, v.PathValue("name")
	var err error
	if v.PostForm.Get("do") == "remove" {
		_, err = ops.Find("operator remove").Do(h.Acts, v.Context(), by, name)
	} else {
		change := api.RoleChange{Role: v.PostForm.Get("role")}
		if v.PostForm.Has("group") {
			change.Group = new(strings.TrimSpace(v.PostForm.Get("group")))
		}
		_, _, err = h.Acts.ChangeRole(v.Context(), by, name, change)
	}
	fault, err := faultOf(err)
	if fault != "" {
		return h.showOperators(v, &operatorsView{Fault: fault})
	}
	return result{to: "/operators"}, err
}

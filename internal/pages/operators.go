package pages

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/openthreeds/threeds/internal/operator"
)

// operatorPages returns the pages of operators.
func operatorPages() []route {
	return []route{
		{"GET /operators", operatorsPage},
		{"POST /operators", inviteOperator},
		{"POST /operators/{name}", changeOperator},
	}
}

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
	Link, For        string // of an invitation that was just made, this once
}

// showOperators lists operators, with an invitation that was just made or with what is wrong with what was typed.
func (h *Handler) showOperators(v *visit, view *operatorsView) (result, error) {
	var all list[operator.User]
	if err := h.call(v, http.MethodGet, "operators", nil, nil, &all); err != nil {
		return result{}, err
	}
	for _, u := range all.Data {
		view.Operators = append(view.Operators, operatorEntry{u, "/operators/" + url.PathEscape(u.Name)})
	}
	for _, role := range operator.Roles() {
		view.Roles = append(view.Roles, choice{string(role), words(string(role)), string(role) == v.PostForm.Get("role")})
	}
	var merchants list[struct{ Name string }]
	err := h.call(v, http.MethodGet, "merchants", nil, nil, &merchants)
	for _, m := range merchants.Data {
		view.Merchants = append(view.Merchants, choice{m.Name, m.Name, m.Name == v.PostForm.Get("merchant")})
	}
	got := result{template: "operators", title: "Operators", data: view}
	if view.Fault != "" {
		got.status = http.StatusBadRequest
	}
	return got, err
}

func operatorsPage(h *Handler, v *visit) (result, error) { return h.showOperators(v, &operatorsView{}) }

// inviteOperator makes a link for a passkey. The answer shows it, and nothing shows it again.
func inviteOperator(h *Handler, v *visit) (result, error) {
	form := v.PostForm
	body := map[string]string{"name": strings.TrimSpace(form.Get("name")), "role": form.Get("role"), "merchant": form.Get("merchant")}
	var made struct{ Link, Name string }
	err := h.call(v, http.MethodPost, "operators", nil, body, &made)
	if p := problemOf(err); p != nil {
		return h.showOperators(v, &operatorsView{Fault: p.Detail, Name: form.Get("name")})
	}
	if err != nil {
		return result{}, err
	}
	return h.showOperators(v, &operatorsView{Link: made.Link, For: made.Name})
}

// changeOperator gives an operator another role, or removes one.
func changeOperator(h *Handler, v *visit) (result, error) {
	path := "operators/" + url.PathEscape(v.PathValue("name"))
	var err error
	if v.PostForm.Get("do") == "remove" {
		err = h.call(v, http.MethodDelete, path, nil, nil, nil)
	} else {
		err = h.call(v, http.MethodPatch, path, nil, map[string]string{"role": v.PostForm.Get("role")}, nil)
	}
	if p := problemOf(err); p != nil {
		return h.showOperators(v, &operatorsView{Fault: p.Detail})
	}
	return result{to: "/operators"}, err
}

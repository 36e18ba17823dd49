package admin

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/state/account"
)

// readMerchant reads a merchant from the body, over the members of another. A member that is null goes back to its
// default. The members are named like the keys of the configuration; version is beside them.
func (r *request) readMerchant(over account.Merchant) (m account.Merchant, version string, err error) {
	members := map[string]json.RawMessage{}
	was, err := json.Marshal(over)
	if err == nil {
		err = json.Unmarshal(was, &members)
	}
	if err != nil {
		return m, "", err
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(r.body, &given); err != nil {
		return m, "", refuse(http.StatusBadRequest, "The body is no JSON object.")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case name == "version":
			if err := json.Unmarshal(given[name], &version); err != nil {
				return m, "", refuse(http.StatusBadRequest, "version: want a string.")
			}
		case !slices.Contains(merchantMembers, name):
			return m, "", refuse(http.StatusBadRequest, "A member of the body is none of a merchant: want %v.", merchantMembers)
		case string(given[name]) == "null":
			delete(members, name)
		default:
			members[name] = given[name]
		}
	}
	whole, err := json.Marshal(members)
	if err != nil {
		return m, "", err
	}
	if err := json.Unmarshal(whole, &m); err != nil {
		return m, "", refuse(http.StatusBadRequest, "A member of the body has the wrong type. GET merchants shows each.")
	}
	return m, version, nil
}

// merchantMembers are the members of a merchant in a body.
var merchantMembers = []string{
	"acquirer_country", "bridging", "mcc", "merchant_country", "merchant_name", "name", "origins", "page",
	"per_directory", "requestor_id", "requestor_name", "requestor_url", "scheme_rules", "transliterate",
}

// merchantProblem returns the answer to an error of the registry.
func merchantProblem(err error) error {
	switch {
	case errors.Is(err, merchant.ErrNotFound):
		return errNoMerchant
	case errors.Is(err, merchant.ErrInFile), errors.Is(err, merchant.ErrExists), errors.Is(err, merchant.ErrNoRow), errors.Is(err, merchant.ErrChanged),
		errors.Is(err, merchant.ErrRefused):
		return refuse(http.StatusConflict, "%v.", err)
	}
	return err
}

// checkMerchant returns a merchant with its values in their usual form. What is wrong with them is in the error.
func (h *Handler) checkMerchant(m account.Merchant) (account.Merchant, error) {
	checked, err := h.Merchants().Check(m)
	if err != nil {
		return m, refuse(http.StatusBadRequest, "%v.", err)
	}
	return checked, nil
}

func addMerchant(h *Handler, r *request) (any, error) {
	m, _, err := r.readMerchant(account.Merchant{})
	if err == nil {
		m, err = h.checkMerchant(m)
	}
	if err != nil {
		return nil, err
	}
	was, err := h.Merchants().Get(r.Context(), m.Name)
	switch {
	case err == nil && was.Source == merchant.File:
		return nil, merchantProblem(merchant.ErrInFile)
	case err == nil && was.Source == merchant.Store:
		return nil, merchantProblem(merchant.ErrExists)
	case err != nil && !errors.Is(err, merchant.ErrNotFound):
		return nil, err
	}
	if err := h.record(r, "merchant.change", m.Name, nil, &m); err != nil {
		return nil, err
	}
	entry, err := h.Merchants().Put(r.Context(), m, "")
	if err != nil {
		return nil, merchantProblem(err)
	}
	return created{entry}, nil
}

// changeable returns a merchant of the store that has the version that the request has seen. One that has API keys alone has
// none, and gets its first settings.
func (h *Handler) changeable(r *request, version string) (merchant.Entry, error) {
	was, err := h.Merchants().Get(r.Context(), r.PathValue("name"))
	switch {
	case err != nil:
		return was, merchantProblem(err)
	case was.Source == merchant.File:
		return was, merchantProblem(merchant.ErrInFile)
	case version == "" && was.Source == merchant.Store:
		return was, refuse(http.StatusBadRequest, "version: give that of the merchant as GET shows it.")
	case was.Version != version:
		return was, merchantProblem(merchant.ErrChanged)
	}
	return was, nil
}

func changeMerchant(h *Handler, r *request) (any, error) {
	_, version, err := r.readMerchant(account.Merchant{})
	if err != nil {
		return nil, err
	}
	was, err := h.changeable(r, version)
	if err != nil {
		return nil, err
	}
	m, _, err := r.readMerchant(was.Merchant)
	if err != nil {
		return nil, err
	}
	if m.Name != was.Name {
		return nil, refuse(http.StatusBadRequest, "name: it cannot be changed.")
	}
	if m, err = h.checkMerchant(m); err != nil {
		return nil, err
	}
	if err := h.record(r, "merchant.change", m.Name, &was.Merchant, &m); err != nil {
		return nil, err
	}
	entry, err := h.Merchants().Put(r.Context(), m, version)
	if err != nil {
		return nil, merchantProblem(err)
	}
	return entry, nil
}

func removeMerchant(h *Handler, r *request) (any, error) {
	version := r.URL.Query().Get("version")
	was, err := h.changeable(r, version)
	if err != nil {
		return nil, err
	}
	if was.Source == merchant.Keys {
		return nil, merchantProblem(merchant.ErrNoRow)
	}
	if err := h.record(r, "merchant.change", was.Name, &was.Merchant, nil); err != nil {
		return nil, err
	}
	return nil, merchantProblem(h.Merchants().Remove(r.Context(), was.Name, version))
}

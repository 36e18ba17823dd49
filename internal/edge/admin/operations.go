package admin

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A Key is an API key in an answer.
type Key struct {
	Hash     string         `json:"hash"`
	Label    string         `json:"label"`
	Merchant string         `json:"merchant"`
	Created  time.Time      `json:"created"`
	LastUsed *time.Time     `json:"lastUsed"` // to a minute; null: never
	Expires  *time.Time     `json:"expires"`  // null: never
	Allow    []netip.Prefix `json:"allow"`    // none: all networks
	Strict   bool           `json:"strict"`
	State    string         `json:"state"` // good, expired or refused
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func listKeys(h *Handler, r *request) (any, error) {
	rows, err := h.Store.Keys(r.Context())
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(k store.Key) bool { return !r.actor.CanSee(k.Merchant) })
	uses, err := account.LastUses(r.Context(), h.Store, rows)
	if err != nil {
		return nil, err
	}
	all := list[Key]{Data: []Key{}}
	for i := range rows {
		terms, err := account.OpenTerms(h.Ring(), &rows[i])
		k := Key{
			hex.EncodeToString(rows[i].Hash), terms.Label, rows[i].Merchant, rows[i].Created, timeOrNull(uses[i]),
			timeOrNull(terms.Expires), append([]netip.Prefix{}, terms.Allow...), rows[i].Strict, "good",
		}
		switch {
		case err != nil:
			k.State = "refused"
		case terms.IsExpired(h.Now()):
			k.State = "expired"
		}
		all.Data = append(all.Data, k)
	}
	return all, nil
}

// chooseMerchant returns the merchant that something is made for: the named one, or that of the actor if none is named.
func (h *Handler) chooseMerchant(r *request, name string) (string, error) {
	name = cmp.Or(name, r.actor.Merchant)
	if !r.actor.CanSee(name) {
		return "", errNoMerchant
	}
	return name, h.checkName(r, name)
}

// checkName refuses a merchant that nobody knows. "" stands for all.
func (h *Handler) checkName(r *request, name string) error {
	if name == "" {
		return nil
	}
	err := h.Merchants().CheckKnown(r.Context(), name)
	if errors.Is(err, merchant.ErrNotFound) {
		return refuse(http.StatusBadRequest, "merchant: %v.", err)
	}
	return err
}

func createKey(h *Handler, r *request) (any, error) {
	var asked struct {
		Merchant string         `json:"merchant"`
		Label    string         `json:"label"`
		Expires  time.Time      `json:"expires,omitzero"`
		Allow    []netip.Prefix `json:"allow"`
		Strict   bool           `json:"strict"`
	}
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	var err error
	if asked.Merchant, err = h.chooseMerchant(r, asked.Merchant); err != nil {
		return nil, err
	}
	if err := account.CheckLabel(asked.Label); err != nil {
		return nil, refuse(http.StatusBadRequest, "label: %v.", err)
	}
	if err := h.checkEnd(asked.Expires); err != nil {
		return nil, err
	}
	terms := account.Terms{Label: asked.Label, Expires: asked.Expires.UTC().Truncate(time.Second), Allow: asked.Allow}
	text, err := account.Create(r.Context(), h.Store, h.Ring(), asked.Merchant, asked.Strict, terms)
	if err != nil {
		return nil, err
	}
	hash, _ := account.HashKey(text)
	name := hex.EncodeToString(hash[:])
	if err := h.record(r, "key.create", name, nil, asked); err != nil { // no key without a trace
		return nil, errors.Join(err, h.Store.RevokeKey(context.WithoutCancel(r.Context()), hash[:]))
	}
	return created{map[string]string{"key": text, "hash": name, "merchant": asked.Merchant}}, nil
}

// maxEndDays is the greatest number of days until something ends: a hundred years.
const maxEndDays = 36525

// checkEnd refuses an end that has passed or is too far away. Zero means never.
func (h *Handler) checkEnd(end time.Time) error {
	if !end.IsZero() && (!end.After(h.Now()) || end.After(h.Now().AddDate(0, 0, maxEndDays))) {
		return refuse(http.StatusBadRequest, "expires: want a moment in the future, at most %d days away.", maxEndDays)
	}
	return nil
}

func revokeKey(h *Handler, r *request) (any, error) {
	noKey := refuse(http.StatusNotFound, "There is no API key with this hash.")
	hash, err := hex.DecodeString(r.PathValue("hash"))
	if err != nil {
		return nil, noKey
	}
	rows, err := h.Store.Keys(r.Context())
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(rows, func(k store.Key) bool {
		return string(k.Hash) == string(hash) && r.actor.CanSee(k.Merchant)
	})
	if i < 0 {
		return nil, noKey
	}
	before := map[string]string{"merchant": rows[i].Merchant}
	if err := h.record(r, "key.revoke", hex.EncodeToString(hash), before, nil); err != nil {
		return nil, err
	}
	err = h.Store.RevokeKey(r.Context(), hash)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noKey
	}
	return nil, err
}

var errNoMerchant = refuse(http.StatusNotFound, "There is no merchant of this name.")

func listMerchants(h *Handler, r *request) (any, error) {
	all, err := h.Merchants().List(r.Context())
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e merchant.Entry) bool { return !r.actor.CanSee(e.Name) })
	return list[merchant.Entry]{Data: all}, nil
}

func showMerchant(h *Handler, r *request) (any, error) {
	name := r.PathValue("name")
	if !r.actor.CanSee(name) {
		return nil, errNoMerchant
	}
	entry, err := h.Merchants().Get(r.Context(), name)
	return entry, merchantProblem(err)
}

func listTokens(h *Handler, r *request) (any, error) {
	all, err := h.Operators.Tokens(r.Context())
	return list[operator.Token]{Data: all}, err
}

func createToken(h *Handler, r *request) (any, error) {
	var asked struct {
		Name     string    `json:"name"`
		Role     string    `json:"role"`
		Merchant string    `json:"merchant"`
		Expires  time.Time `json:"expires,omitzero"`
	}
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	role, err := operator.ParseRole(asked.Role)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "role: %v.", err)
	}
	if err := operator.CheckTokenName(asked.Name); err != nil {
		return nil, refuse(http.StatusBadRequest, "name: %v.", err)
	}
	if err := h.checkEnd(asked.Expires); err != nil {
		return nil, err
	}
	token := operator.Token{Name: asked.Name, Role: role, Merchant: asked.Merchant, Expires: asked.Expires}
	text, err := h.Operators.CreateToken(r.Context(), token)
	if errors.Is(err, operator.ErrTaken) {
		return nil, refuse(http.StatusConflict, "name: there is a token of this name. Revoke it, or choose another name.")
	}
	if errors.Is(err, cardnumber.ErrFound) {
		return nil, refuse(http.StatusBadRequest, "%v.", err)
	}
	if err != nil {
		return nil, err
	}
	if err := h.record(r, "token.create", asked.Name, nil, asked); err != nil { // no token without a trace
		return nil, errors.Join(err, h.Operators.RevokeToken(context.WithoutCancel(r.Context()), asked.Name))
	}
	return created{map[string]string{"token": text, "name": asked.Name}}, nil
}

func revokeToken(h *Handler, r *request) (any, error) {
	name := r.PathValue("name")
	noToken := refuse(http.StatusNotFound, "There is no token of this name.")
	all, err := h.Operators.Tokens(r.Context())
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(t operator.Token) bool { return t.Name == name }) {
		return nil, noToken
	}
	if err := h.record(r, "token.revoke", name, nil, nil); err != nil {
		return nil, err
	}
	if err = h.Operators.RevokeToken(r.Context(), name); errors.Is(err, operator.ErrNoToken) {
		return nil, noToken
	}
	return nil, err
}

// auditLimit is how many entries an answer has when the request does not say, maxAuditLimit how many at most.
const auditLimit, maxAuditLimit = 50, 500

func searchAudit(h *Handler, r *request) (any, error) {
	q, err := readAuditQuery(r)
	if err != nil {
		return nil, err
	}
	q.Limit = auditLimit
	asked := r.URL.Query()
	if text := asked.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > maxAuditLimit {
			return nil, refuse(http.StatusBadRequest, "limit: want a number from 1 to %d.", maxAuditLimit)
		}
	}
	if text := asked.Get("cursor"); text != "" {
		if q.Before, err = strconv.ParseInt(text, 10, 64); err != nil || q.Before < 1 {
			return nil, refuse(http.StatusBadRequest, "cursor: want the value of next in the answer before.")
		}
	}
	entries, err := h.Operators.Search(r.Context(), q)
	if err != nil {
		return nil, err
	}
	all := list[operator.Entry]{Data: entries}
	if n := len(entries); n == q.Limit && entries[n-1].Seq > 1 {
		all.Next = api.Text(strconv.FormatInt(entries[n-1].Seq, 10))
	}
	return all, nil
}

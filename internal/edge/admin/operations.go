package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/state/account"
)

// readMerchant reads members of a merchant from the body, and the version that comes with them.
func (r *request) readMerchant() (body ops.MerchantBody, version string, err error) {
	if err := json.Unmarshal(r.body, &body); err != nil {
		return nil, "", refuse(http.StatusBadRequest, "The body is no JSON object.")
	}
	if given, isThere := body["version"]; isThere {
		if err := json.Unmarshal(given, &version); err != nil {
			return nil, "", refuse(http.StatusBadRequest, "version: want a string.")
		}
		delete(body, "version")
	}
	return body, version, body.Apply(new(account.Merchant))
}

func addMerchant(h *Handler, r *request) (any, error) {
	body, _, err := r.readMerchant()
	var m account.Merchant
	if err == nil {
		err = body.Apply(&m)
	}
	if err != nil {
		return nil, err
	}
	e, err := h.AddMerchant(r.Context(), r.actor, m)
	return created{e}, err
}

func changeMerchant(h *Handler, r *request) (any, error) {
	body, version, err := r.readMerchant()
	if err != nil {
		return nil, err
	}
	return h.ChangeMerchant(r.Context(), r.actor, r.PathValue("name"), version, body.Apply)
}

func removeMerchant(h *Handler, r *request) (any, error) {
	return nil, h.RemoveMerchant(r.Context(), r.actor, r.PathValue("name"), r.URL.Query().Get("version"))
}

func disableMerchant(h *Handler, r *request) (any, error) {
	var asked api.DisableRequest
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	return h.DisableMerchant(r.Context(), r.actor, r.PathValue("name"), asked.Reason)
}

func changeOperator(h *Handler, r *request) (any, error) {
	var asked api.RoleChange
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	_, now, err := h.ChangeRole(r.Context(), r.actor, r.PathValue("name"), asked)
	return now, err
}

// auditLimit is how many entries an answer has when the request does not say, maxAuditLimit how many at most.
const auditLimit, maxAuditLimit = 50, 500

func searchAudit(h *Handler, r *request) (any, error) {
	q, err := readAuditQuery(r)
	if err != nil {
		return nil, err
	}
	asked := r.URL.Query()
	if text := asked.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > maxAuditLimit {
			return nil, refuse(http.StatusBadRequest, "limit: want a number from 1 to %d.", maxAuditLimit)
		}
	}
	if q.Before, err = ReadAuditCursor(asked.Get("cursor")); err != nil {
		return nil, err
	}
	return h.SearchAudit(r.Context(), r.actor, q)
}

// SearchAudit returns a page of the audit trail, the newest first. Next is the Before of the following page.
func (h *Handler) SearchAudit(ctx context.Context, by operator.Actor,
	q operator.Query) (*api.List[operator.Entry], error) {
	if err := checkAudit(&by, "audit search", &q); err != nil {
		return nil, err
	}
	q.Limit = cmp.Or(q.Limit, auditLimit)
	entries, err := h.Operators.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	all := &api.List[operator.Entry]{Data: entries}
	if n := len(entries); n == q.Limit && entries[n-1].Seq > 1 {
		all.Next = api.Text(strconv.FormatInt(entries[n-1].Seq, 10))
	}
	return all, nil
}

// ReadAuditCursor reads the Before of a search from the Next of the page before; "" is the first page.
func ReadAuditCursor(text string) (before int64, err error) {
	if text == "" {
		return 0, nil
	}
	if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
		return 0, refuse(http.StatusBadRequest, "cursor: want the value of next in the answer before.")
	}
	return before, nil
}

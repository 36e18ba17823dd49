package admin

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/webhook"
)

func listHooks(h *Handler, r *request) (any, error) {
	all, err := h.Endpoints(r.Context(), r.actor, r.URL.Query().Get("merchant"))
	return api.List[api.MerchantEndpoint]{Data: all}, err
}

func addHook(h *Handler, r *request) (any, error) {
	var asked api.MerchantEndpointChange
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	secret, err := ops.ReadSecret(asked.Secret)
	if err != nil {
		return nil, err
	}
	e := webhook.Endpoint{Secret: secret}
	e.Apply(&asked.EndpointChange)
	made, err := h.AddEndpoint(r.Context(), r.actor, asked.Merchant, e)
	return created{made}, err
}

func changeHook(h *Handler, r *request) (any, error) {
	var asked api.MerchantEndpointChange
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	was, err := h.Endpoint(r.Context(), r.actor, r.PathValue("id"))
	switch {
	case err != nil:
		return nil, err
	case asked.Merchant != "" && asked.Merchant != was.Merchant:
		return nil, refuse(http.StatusBadRequest, "merchant: it cannot be changed.")
	case asked.Secret != nil:
		return nil, refuse(http.StatusBadRequest, "secret: POST %swebhook-endpoints/ID/rotate makes a new one.", Prefix)
	}
	return h.ChangeEndpoint(r.Context(), r.actor, was.ID, asked.EndpointChange)
}

// listEvents lists the events of one merchant, or those of one of its endpoints.
func listEvents(h *Handler, r *request) (any, error) {
	asked := r.URL.Query()
	q := ops.EventQuery{
		Merchant: asked.Get("merchant"), Endpoint: asked.Get("endpoint"), Type: asked.Get("type"),
		About:  asked.Get("authentication"),
		Cursor: asked.Get("cursor"),
	}
	var err error
	if q.From, q.To, err = readTimes(asked.Get("from"), asked.Get("to")); err != nil {
		return nil, err
	}
	if text := asked.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > ops.MaxEvents {
			return nil, refuse(http.StatusBadRequest, "limit: want a number from 1 to %d.", ops.MaxEvents)
		}
	}
	all := api.List[api.MerchantEvent]{}
	all.Data, all.Next, err = h.EventLines(r.Context(), r.actor, q)
	return all, err
}

func resendEvents(h *Handler, r *request) (any, error) {
	var asked api.ResendRequest
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	return h.ResendEvents(r.Context(), r.actor, asked)
}

// showEvent shows an event with what it says of the authentication.
func showEvent(h *Handler, r *request) (any, error) {
	e, merchant, err := h.Event(r.Context(), r.actor, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	view, err := e.View()
	return api.MerchantEventWithDeliveries[json.RawMessage]{Merchant: merchant, EventWithDeliveries: view}, err
}

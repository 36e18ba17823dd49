package pages

import (
	"net/url"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// newHop returns how a step of a record is drawn.
func newHop(d *journal.Detail, i int) lanes.Hop {
	step := &d.Steps[i]
	h := lanes.HopOf(step.Step, step.Message)
	h.At = step.At
	switch step.Step {
	case "request":
		h.Gist = amount(d.Amount, d.Currency)
		if d.Operation != "" {
			h.Name = "POST /" + d.Operation
		}
		if d.API == "authentications" && d.DeviceChannel == "02" {
			h.Waits, h.Doing = lanes.Browser, "browser and 3DS Method"
		}
	case "areq":
		h.Gist = d.MessageVersion
	case "webhook":
		if strings.Contains(strings.Join(step.Findings, ", "), "failed") {
			h.Gist = "not delivered"
		}
	case "challenge":
		if d.API == "emv" {
			h.From, h.Gist = lanes.Shop, "the shop opens it"
		}
	case "erro":
		if len(step.Message) > 0 {
			break
		}
		h.Gist = lanes.Prefix("error ", d.ErrorCode)
		isRelayed := func(finding string) bool { return strings.HasPrefix(finding, journal.RelayedErro) }
		if !slices.ContainsFunc(step.Findings, isRelayed) { // no Erro was sent: there was no answer, or we refused it
			h.Name, h.Self, h.From = "no usable answer", true, lanes.Server
		}
	case "answered":
		isAReq := func(s journal.Step) bool { return s.Step == "areq" }
		if d.API != "emv" && d.DeviceChannel == "02" && !slices.ContainsFunc(d.Steps[:i], isAReq) &&
			(slices.ContainsFunc(d.Steps[i:], isAReq) || d.Status == "requires_browser") {
			h.Name, h.Gist, h.Waits, h.Doing = "201", "waits for the browser", lanes.Browser, "page loads"
		}
		if d.Challenged && slices.ContainsFunc(d.Steps[:i], func(s journal.Step) bool { return s.Step == "ares" }) &&
			i < len(d.Steps)-1 {
			h.Waits, h.Doing = lanes.Issuer, "while the shopper is at the bank"
		}
	}
	return h
}

// newDrawing draws the steps of a record. Chosen is the key of the step that is shown next to it.
func (h *Handler) newDrawing(d *journal.Detail, keys []string, chosen string, asked url.Values) *lanes.Drawing {
	hops := make([]lanes.Hop, len(d.Steps))
	for i := range d.Steps {
		hops[i] = newHop(d, i)
		hops[i].Key, hops[i].Link = keys[i], stepLink(d.ID, asked, keys[i])
	}
	return lanes.Draw(h.parties(d), hops, chosen)
}

// stepKeys returns the names by which addresses choose a step.
func stepKeys(steps []journal.Step) []string {
	names := make([]string, len(steps))
	for i := range steps {
		names[i] = steps[i].Step
	}
	return lanes.Keys(names)
}

// stepLink returns the address of the page with a step chosen.
func stepLink(id string, asked url.Values, key string) string {
	to := url.Values{"step": {key}}
	if beside := asked.Get("beside"); beside != "" && beside != key {
		to.Set("beside", beside)
	}
	return "/authentications/" + url.PathEscape(id) + "?" + to.Encode() + "#message"
}

// parties returns what stands above the lanes.
func (h *Handler) parties(d *journal.Detail) []lanes.Party {
	directory := "Directory"
	if d.Card.Scheme != "" {
		directory = h.schemeName(d.Card.Scheme)
	}
	browser := map[string]string{"01": "app", "02": "of the shopper", "03": "none, 3RI"}[d.DeviceChannel]
	return []lanes.Party{
		{Name: "Browser", Sub: browser}, {Name: "Shop", Sub: lanes.Shorten(d.Merchant, 16)},
		{Name: "threeds", Sub: "this server"}, {Name: directory, Sub: lanes.Join(" ", "directory", d.MessageVersion)},
		{Name: "Issuer", Sub: lanes.Shorten(d.ACS, 16)},
	}
}

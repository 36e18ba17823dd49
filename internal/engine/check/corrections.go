package check

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/message"
)

// Limits of what an authentication keeps of the corrections of its request, which may be as long as the body.
const (
	MaxCorrections     = 50
	MaxCorrectionValue = 200 // bytes of a value; a longer one is left out
)

// KeptCorrections returns what was changed in a request for an authentication, to be kept with it.
func (k *Checker) KeptCorrections(req *Request, c *Content, body []byte) []api.Correction {
	original, err := message.ReadRequest(body, k.Limits)
	if err != nil {
		return nil // it was read before
	}
	all := corrections(req, c, original)
	all = all[:min(len(all), MaxCorrections)]
	for i := range all {
		for _, value := range []*json.RawMessage{&all[i].Found, &all[i].Sent} {
			if len(*value) > MaxCorrectionValue {
				*value = nil
			}
		}
	}
	return all
}

// corrections returns what was changed in a request, and the members that are not sent because nobody knows them.
func corrections(req *Request, c *Content, original *message.Request) (all []api.Correction) {
	for _, change := range req.Changes {
		n := api.Correction{Pointer: faults.Pointer(change.Path), Rule: change.What}
		if IsImpersonal(change.Path) {
			n.Found = WithoutCard(original.RawAt(change.Path), req.PAN)
			if c.AReq != nil {
				n.Sent = WithoutCard(c.AReq.Raw(string(change.Path)), req.PAN)
			}
		}
		all = append(all, n)
	}
	for _, path := range original.Unknown() {
		top, _, _ := strings.Cut(path.Name(), ".")
		if !slices.ContainsFunc(c.known, func(name string) bool { return strings.EqualFold(name, top) }) {
			all = append(all, api.Correction{Pointer: faults.Pointer(path), Rule: "unknown-member"})
		}
	}
	return all
}

// IsImpersonal reports whether an element says nothing of a person, so that its value may be shown.
func IsImpersonal(path message.Path) bool {
	name := path.Name()
	if strings.HasSuffix(name, "Phone.cc") {
		return true
	}
	f := message.TableOf(message.AReq, message.V231).Field(name)
	if f == nil || f.Mask != message.Clear {
		return false
	}
	switch f.Kind {
	case message.OneOf, message.Country, message.Currency, message.Dotted, message.Bool:
		return true
	}
	return strings.HasPrefix(name, "browser") || name == "acceptLanguage"
}

package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/openthreeds/threeds/api"
)

// A Lookup says which schemes hold a card, and what each of them asks for.
type Lookup struct {
	api.Lookup
	Answer Answer `json:"-"`
}

func (l *Lookup) receive(answer Answer) { l.Answer = answer }

// An Explanation says what /auth would make of a body.
type Explanation struct {
	api.Explanation
	Answer Answer `json:"-"`
}

func (e *Explanation) receive(answer Answer) { e.Answer = answer }

// ExplainOptions are the parameters of [Client.Explain] in addition to the body.
type ExplainOptions struct {
	Scheme string    // the word of a card scheme; empty means that of the card
	AsOf   time.Time // the day whose scheme rules count; zero means today
}

var (
	lookup  = operation{"/lookup", shortTimeout}
	explain = operation{"/explain", shortTimeout}
)

// Lookup returns the schemes that hold a card, and the versions with which it can be used. Nothing is sent to a
// directory server, and no id is made.
func (c *Client) Lookup(ctx context.Context, acctNumber string) (*Lookup, error) {
	found := new(Lookup)
	return orNil(found, c.post(ctx, lookup, api.LookupRequest{AcctNumber: acctNumber}, found))
}

// Explain returns what [Client.Auth] would make of an AReq. Nothing is sent to a directory server, and the
// threeDSServerTransID is not used up.
func (c *Client) Explain(ctx context.Context, areq any, options ExplainOptions) (*Explanation, error) {
	if options != (ExplainOptions{}) {
		body, err := json.Marshal(areq)
		if err != nil {
			return nil, err
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			return nil, err
		}
		set := func(name, text string) {
			if text != "" {
				members[name], _ = json.Marshal(text)
			}
		}
		set("scheme", options.Scheme)
		if !options.AsOf.IsZero() {
			set("asOf", options.AsOf.Format(time.DateOnly))
		}
		areq = members
	}
	said := new(Explanation)
	return orNil(said, c.post(ctx, explain, areq, said))
}

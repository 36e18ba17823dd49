package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/state/store"
)

// CheckType returns an error that lists all types if there is no such type of events. It returns nil for "", which
// stands for all types.
func CheckType(kind api.EventType) error {
	all := append(api.EventTypesFor(api.ForMerchant), api.EventTypesFor(api.ForTest)...)
	if kind != "" && !slices.Contains(all, kind) {
		return errors.New("want one of " + joinTypes(all))
	}
	return nil
}

// joinTypes returns types of events as they stand in a sentence.
func joinTypes(types []api.EventType) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(types), " ", ", "), "[]")
}

// An Endpoint is an address that gets the events of a merchant.
type Endpoint struct {
	ID       string    `json:"-"`
	Merchant string    `json:"-"`
	Created  time.Time `json:"-"`

	URL         string          `json:"url"`
	Types       []api.EventType `json:"types,omitzero"` // none means all
	Description string          `json:"description,omitzero"`
	Disabled    bool            `json:"disabled,omitzero"`
	Secret      Secret          `json:"secret"`
	Previous    Secret          `json:"previous,omitzero"` // also signs, until PreviousUntil
	Until       time.Time       `json:"until,omitzero"`
	Failing     time.Time       `json:"failing,omitzero"` // since when no delivery has succeeded; zero: the last one has

	sealed []byte // as it is in the store
}

// wants reports whether events of a type are delivered to the endpoint.
func (e *Endpoint) wants(kind api.EventType) bool {
	return !e.Disabled && (len(e.Types) == 0 || slices.Contains(e.Types, kind))
}

// secrets returns those that sign at a time.
func (e *Endpoint) secrets(now time.Time) []Secret {
	if len(e.Previous) > 0 && now.Before(e.Until) {
		return []Secret{e.Secret, e.Previous}
	}
	return []Secret{e.Secret}
}

// endpointName is the name that an endpoint is sealed under: an attacker who can write to the database but has no keys
// cannot give it to another merchant.
func endpointName(id, merchant string) string { return "webhook endpoint " + id + " of " + merchant }

// eventName is the same for an event.
func eventName(e *store.Event) string {
	return strings.Join([]string{"webhook event", e.ID, e.Merchant, e.Type, e.About}, "\x00")
}

// seal returns the form of an endpoint for the store.
func (e *Endpoint) seal(s store.Sealer) []byte {
	plain, err := json.Marshal(e)
	if err != nil {
		panic(err) // an endpoint has nothing that cannot be encoded
	}
	return s.Seal(endpointName(e.ID, e.Merchant), plain)
}

// openEndpoint reads what seal has made.
func openEndpoint(s store.Sealer, row store.Endpoint) (*Endpoint, error) {
	e := &Endpoint{ID: row.ID, Merchant: row.Merchant, Created: row.Created, sealed: row.Data}
	plain, err := s.Open(endpointName(row.ID, row.Merchant), row.Data)
	if err == nil {
		err = json.Unmarshal(plain, e)
	}
	if err != nil {
		return nil, fmt.Errorf("webhook endpoint %s: %w", row.ID, err)
	}
	return e, nil
}

// MarshalJSON keeps the secret's bytes, for the sealed form alone.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(s)) }

// A FaultError says what is wrong with an endpoint that a merchant gives.
type FaultError struct {
	Member  string // of the request
	Rule    string
	Cure    string
	Missing bool
	Most    int             // how long the value may be in bytes; 0 where length is not the fault
	Allowed []api.EventType // what is to be chosen from; nil where that is not the fault
}

func (e *FaultError) Error() string { return e.Member + ": " + e.Cure }

const (
	maxURL         = 2048
	maxDescription = 256
)

// check returns what is wrong with what the merchant says about the endpoint; nil means that it is valid.
func (e *Endpoint) check(a *Addresses) error {
	if e.URL == "" {
		return &FaultError{
			Member: "url", Rule: "required", Cure: "Give the https URL that events are posted to.", Missing: true,
		}
	}
	if len(e.URL) > maxURL {
		return &FaultError{
			Member: "url", Rule: "length", Cure: fmt.Sprintf("Give a URL of at most %d bytes.", maxURL), Most: maxURL,
		}
	}
	if err := a.CheckURL(e.URL); err != nil {
		rule := "pattern"
		if errors.Is(err, ErrAddress) {
			rule = "address"
		}
		return &FaultError{Member: "url", Rule: rule, Cure: "Give an https URL of a public address: " + err.Error() + "."}
	}
	if plain, err := url.QueryUnescape(e.URL); cardnumber.IsIn(e.URL) || err == nil && cardnumber.IsIn(plain) {
		return &FaultError{Member: "url", Rule: "card-number", Cure: "Give a URL without a card number in it."}
	}
	for _, kind := range e.Types {
		if all := api.EventTypesFor(api.ForMerchant); !slices.Contains(all, kind) {
			return &FaultError{Member: "types", Rule: "unknown-code", Cure: "Choose among " + joinTypes(all) + ".", Allowed: all}
		}
	}
	if len(e.Description) > maxDescription {
		return &FaultError{
			Member: "description", Rule: "length", Cure: fmt.Sprintf("Give at most %d bytes.", maxDescription),
			Most: maxDescription,
		}
	}
	if cardnumber.IsIn(e.Description) {
		return &FaultError{
			Member: "description", Rule: "card-number", Cure: "Give a description without a card number in it.",
		}
	}
	return nil
}

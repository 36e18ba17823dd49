package api

import "time"

// An Endpoint is an address of a merchant to which events are posted.
type Endpoint struct {
	ID          string      `json:"id"`
	URL         string      `json:"url" schema:"format=uri"`
	Types       []EventType `json:"types"` // Of the events that are delivered.
	Description string      `json:"description"`
	Disabled    bool        `json:"disabled"`
	Created     time.Time   `json:"created"`          // To a second.
	Secret      string      `json:"secret,omitempty"` // Verifies deliveries; only in the answer that adds the endpoint.
}

// An EndpointChange is what a request sets of an endpoint. Absent members stay as they are; a new endpoint needs a url.
type EndpointChange struct {
	URL         *string      `json:"url,omitempty" schema:"format=uri"`
	Types       *[]EventType `json:"types,omitempty"` // The events that the endpoint gets; absent or empty for all.
	Description *string      `json:"description,omitempty" schema:"maxLength=256"`
	Disabled    *bool        `json:"disabled,omitempty"`
	// "whsec_" and base64 of 24 to 64 bytes; only when the endpoint is added.
	Secret *string `json:"secret,omitempty"`
}

// A Secret is the new secret of an endpoint.
type Secret struct {
	Secret        string    `json:"secret"`
	PreviousUntil time.Time `json:"previousUntil"` // Until then the previous secret also signs.
}

// A DeliveryTest says how the delivery of a test event has ended.
type DeliveryTest struct {
	Delivered bool `json:"delivered"`
	Status    *int `json:"status"` // Of HTTP; null if no answer came.
	Error     Text `json:"error"`  // Null if it was delivered.
}

// An Event is the body of a delivery to an endpoint, and what GET /events lists. Read it after its signature was
// verified by a library of Standard Webhooks. Its type says which data it has.
type Event[Data any] struct {
	ID        string    `json:"id"` // The same each time that the event is delivered.
	Type      EventType `json:"type"`
	Timestamp time.Time `json:"timestamp"` // To a second.
	Data      Data      `json:"data"`
}

// An EventWithDeliveries is the answer of GET /events/{id}.
type EventWithDeliveries[Data any] struct {
	Event[Data]
	Deliveries []Delivery `json:"deliveries"`
}

// A Delivery says what became of an event at one endpoint.
type Delivery struct {
	Endpoint string     `json:"endpoint"`
	Attempt  int        `json:"attempt"` // How many attempts there were.
	At       *time.Time `json:"at"`      // Of the last attempt; null before the first.
	Status   *int       `json:"status"`  // Of HTTP; null if no answer came.
	Error    Text       `json:"error"`   // Null if it was delivered.
	Next     *time.Time `json:"next"`    // Of the next attempt; null if there is none.
}

// An EventID says which event is delivered again.
type EventID struct {
	ID string `json:"id"`
}

// A ResendRequest is the body of POST events/resend: which events of one merchant are delivered again.
type ResendRequest struct {
	Merchant string    `json:"merchant,omitempty"` // Absent: that of the endpoint or the token.
	Endpoint string    `json:"endpoint,omitempty"` // The only endpoint that gets them; absent: each that they went to.
	From     time.Time `json:"from"`               // Events that were made then or later.
	To       time.Time `json:"to,omitzero"`        // Events that were made before; absent: until now.
	Failed   bool      `json:"failed,omitempty"`   // Only deliveries whose last attempt has failed.
	Cursor   string    `json:"cursor,omitempty"`   // The next of the answer before, to go on with older events.
}

// A Resent says how many events are delivered again. Next is the cursor to go on with; null: all were looked at.
type Resent struct {
	Events int  `json:"events"`
	Next   Text `json:"next"`
}

// A MerchantEndpoint is a webhook endpoint as the admin API shows it.
type MerchantEndpoint struct {
	Merchant string `json:"merchant"`
	Endpoint
	FailingSince  *time.Time `json:"failingSince"`  // Null: the last delivery has succeeded, or there was none.
	PreviousUntil *time.Time `json:"previousUntil"` // Until then the previous secret also signs.
}

// A MerchantEndpointChange is what a request of the admin API says of an endpoint.
type MerchantEndpointChange struct {
	Merchant string `json:"merchant,omitempty"` // That of the token if it is absent.
	EndpointChange
}

// A MerchantEvent is an event in a list of the admin API. What it says of the authentication is in the answer of
// GET events/{id} alone.
type MerchantEvent struct {
	ID             string     `json:"id"`
	Merchant       string     `json:"merchant"`
	Type           EventType  `json:"type"`
	Timestamp      time.Time  `json:"timestamp"`
	Authentication Text       `json:"authentication"` // Its id; null for an event that is about none.
	Deliveries     []Delivery `json:"deliveries"`
}

// A MerchantEventWithDeliveries is an event as the admin API shows it.
type MerchantEventWithDeliveries[Data any] struct {
	Merchant string `json:"merchant"`
	EventWithDeliveries[Data]
}

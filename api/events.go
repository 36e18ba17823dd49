package api

import "time"

// An EventType says what an event tells.
type EventType string

// The types of events. [EventTypes] has a row for each.
const (
	EventCompleted           EventType = "authentication.completed"
	EventFailed              EventType = "authentication.failed"
	EventExpired             EventType = "authentication.expired"
	EventCancelled           EventType = "authentication.cancelled"
	EventTest                EventType = "webhook.test"
	EventRangesStale         EventType = "ranges.stale"
	EventCertificateExpiring EventType = "certificate.expiring"
	EventEndpointDisabled    EventType = "webhook.disabled"
	EventMerchantDisabled    EventType = "merchant.disabled"
	EventMerchantEnabled     EventType = "merchant.enabled"
	EventJournalHead         EventType = "journal.head"
)

// An Audience says who may ask for events of a type.
type Audience int

// The audiences.
const (
	ForMerchant Audience = iota // Each merchant, of its own authentications.
	ForOperator                 // Who runs the server, by webhooks.operator of the configuration.
	ForTest                     // The one endpoint that a test is for.
)

// An EventRow is what there is to know of the events of a type.
type EventRow struct {
	Type     EventType
	Audience Audience
	Event    any    // An empty event, which has the type of data.
	When     string // In words, for documents.
}

// EventTypes returns the table of all types of events. The server, the documents and the types for Node go by it.
func EventTypes() []EventRow {
	return []EventRow{
		{EventCompleted, ForMerchant, Event[AuthenticationSummary]{}, "the issuer has answered, whatever it said"},
		{EventFailed, ForMerchant, Event[AuthenticationSummary]{},
			"no answer came, or the directory server refused the request"},
		{EventExpired, ForMerchant, Event[AuthenticationSummary]{},
			"the time for the page or for the challenge is over, and no result came"},
		{EventCancelled, ForMerchant, Event[AuthenticationSummary]{},
			"you ended it with `POST /authentications/ID/cancel`, or the shopper closed the dialog"},
		{EventTest, ForTest, Event[Test]{}, "you asked for it"},
		{EventRangesStale, ForOperator, Event[RangesStale]{},
			"no directory server has said for 6 hours what its card ranges are, and again after 24"},
		{EventCertificateExpiring, ForOperator, Event[CertificateExpiring]{},
			"30, 14, 7 days and a day before a certificate of the configuration ends, and at its end"},
		{EventEndpointDisabled, ForOperator, Event[EndpointDisabled]{},
			"the endpoint of a merchant was disabled because it failed for too long, or answered 410"},
		{EventMerchantDisabled, ForOperator, Event[MerchantDisabled]{},
			"somebody has disabled a merchant: its requests are refused"},
		{EventMerchantEnabled, ForOperator, Event[MerchantEnabled]{},
			"somebody has enabled a merchant that was disabled"},
		{EventJournalHead, ForOperator, Event[JournalHead]{},
			"once a day, and after a change of the journal's keys: how far the journal has come, to be compared later"},
	}
}

// EventTypesFor returns the types of events that an audience may ask for.
func EventTypesFor(audience Audience) (types []EventType) {
	for _, row := range EventTypes() {
		if row.Audience == audience {
			types = append(types, row.Type)
		}
	}
	return types
}

// A Test is the data of an event of type webhook.test. It is empty.
type Test struct{}

// A RangesStale is the data of an event of type ranges.stale.
type RangesStale struct {
	Scheme   string    `json:"scheme"`
	Loaded   time.Time `json:"loaded"` // When a directory server last said what its card ranges are, to a second.
	Severity string    `json:"severity" schema:"enum=warning|error"`
	Fault    string    `json:"fault"` // Of the latest exchange with the directory server.
}

// A CertificateExpiring is the data of an event of type certificate.expiring.
type CertificateExpiring struct {
	Key     string    `json:"key"`     // Of the configuration.
	Scheme  Text      `json:"scheme"`  // Null: the certificate is not that of a directory.
	Expires time.Time `json:"expires"` // To a second.
	Expired bool      `json:"expired"`
}

// An EndpointDisabled is the data of an event of type webhook.disabled.
type EndpointDisabled struct {
	Merchant string    `json:"merchant"`
	Endpoint string    `json:"endpoint"`     // Its id.
	Since    time.Time `json:"failingSince"` // To a second.
	Reason   string    `json:"reason"`
}

// A MerchantDisabled is the data of an event of type merchant.disabled.
type MerchantDisabled struct {
	Merchant string    `json:"merchant"`
	Reason   string    `json:"reason"`
	By       string    `json:"by"` // As in the audit trail.
	At       time.Time `json:"at"` // To a second.
}

// A MerchantEnabled is the data of an event of type merchant.enabled.
type MerchantEnabled struct {
	Merchant string    `json:"merchant"`
	By       string    `json:"by"` // As in the audit trail.
	At       time.Time `json:"at"` // To a second.
}

// A JournalHead is the data of an event of type journal.head.
type JournalHead struct {
	Number int64     `json:"number"` // Of the newest seal of the journal.
	Hash   string    `json:"hash"`   // SHA-256 of its text, hexadecimal.
	At     time.Time `json:"at"`     // When it was made, to a second.
	KeyID  string    `json:"keyId"`  // Of the key by which seals are signed.
}

// Package journal keeps what happened to each authentication, for those who have to answer for it later. Make a
// [Journal] over a [Store], add entries with [Journal.Add], and read them with Search, Show and Count of the Store.
//
// A journal decides nothing. What cannot be written is counted and tried again; no request ever waits for it.
package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
)

// ErrNotFound says that the journal has no record of an id.
var ErrNotFound = errors.New("journal: no such record")

// Card is as much of a card as the journal shows.
type Card struct {
	Scheme string `json:"scheme,omitempty"`
	BIN    string `json:"bin,omitempty"` // at most the first 8 digits
	Last4  string `json:"last4,omitempty"`
}

// A Record is one authentication, or one request that was refused, as far as it has come. Its members are those of
// docs/operating/journal.md.
type Record struct {
	ID                string    `json:"id"`
	Created           time.Time `json:"created"`
	Updated           time.Time `json:"updated"`
	API               string    `json:"api"` // emv, authentications or v1
	Operation         string    `json:"operation,omitempty"`
	Merchant          string    `json:"merchant"`
	Reference         string    `json:"reference,omitempty"`
	Card              Card      `json:"card"`
	Amount            string    `json:"amount,omitempty"` // in minor units
	Currency          string    `json:"currency,omitempty"`
	Exponent          string    `json:"exponent,omitempty"` // of the currency
	AcquirerMerchant  string    `json:"acquirerMerchantID,omitempty"`
	MessageVersion    string    `json:"messageVersion,omitempty"`
	DeviceChannel     string    `json:"deviceChannel,omitempty"`
	MessageCategory   string    `json:"messageCategory,omitempty"`
	Status            string    `json:"status"`
	Result            string    `json:"result,omitempty"`
	TransStatus       string    `json:"transStatus,omitempty"`
	TransStatusReason string    `json:"transStatusReason,omitempty"`
	ECI               string    `json:"eci,omitempty"`
	ACS               string    `json:"acs,omitempty"` // acsReferenceNumber or acsOperatorID
	DSTransID         string    `json:"dsTransID,omitempty"`
	ACSTransID        string    `json:"acsTransID,omitempty"`
	// of a refused request, or one of 3-D Secure 1.0.2: the id of the transaction that it named
	NamedID          string   `json:"namedID,omitempty"`
	Challenged       bool     `json:"challenged"`
	Decoupled        bool     `json:"decoupled,omitempty"`  // transStatus of the ARes was D
	Liability        string   `json:"liability,omitempty"`  // yes, no or unknown, as the outcome said
	LacksValue       bool     `json:"lacksValue,omitempty"` // transStatus Y or A came without an authenticationValue
	CurrentID        string   `json:"currentId,omitempty"`  // of the second AReq of Secure Payment Confirmation
	ErrorCode        string   `json:"errorCode,omitempty"`
	ErrorComponent   string   `json:"errorComponent,omitempty"`
	ErrorDescription string   `json:"errorDescription,omitempty"`
	ErrorDetail      string   `json:"errorDetail,omitempty"`
	ResultRefused    *Refusal `json:"resultRefused,omitempty"` // nil if no result was refused
	Elements         []string `json:"elements,omitempty"`
	DurationMS       int64    `json:"durationMs,omitempty"` // from AReq to ARes
	Unkept           []Rule   `json:"unkept,omitempty"`     // what the scheme asks for and the AReq does not keep
	// IsChanged says that the row of the record was changed in the store. Nothing of it is told but ID and Created.
	IsChanged bool `json:"changedInStore,omitempty"`
}

// A Refusal is an RReq that came and was not valid.
type Refusal struct {
	At   time.Time `json:"at"`
	Code string    `json:"code"` // of the Erro that answered it

	Description string `json:"description"`
	Detail      string `json:"detail"`
}

// SetEnding keeps in a record how far an authentication is, or how it ended. [Record.Outcome] reads it again.
func (r *Record) SetEnding(end outcome.Ending) {
	r.Status, r.Result = string(end.Status), string(end.Result)
	r.DeviceChannel, r.MessageCategory = end.Channel, end.Category
	r.TransStatus, r.TransStatusReason, r.ECI = end.TransStatus, end.TransStatusReason, end.ECI
	r.DSTransID, r.ACSTransID = end.DSTransID, end.ACSTransID
	r.Challenged, r.LacksValue, r.CurrentID = end.Challenged, end.LacksValue, ""
	if end.ServerID != r.ID {
		r.CurrentID = end.ServerID
	}
	if end.Error != nil {
		r.ErrorCode, r.ErrorComponent = end.Error.Code, end.Error.Component
		r.ErrorDescription, r.ErrorDetail = end.Error.Description, end.Error.Detail
	}
	if end.Status.IsFinal() {
		r.Liability = string(outcome.Of(end).Liability.Shifts)
	}
}

// Outcome returns the outcome of an authentication, nil if there is none: it is not over, or it is none of EMV 3DS.
// Rules are those of its scheme. Whoever tells how an authentication ended takes it from here.
func (r *Record) Outcome(rules *scheme.Sheet) *api.Outcome {
	if !api.Status(r.Status).IsFinal() || !r.IsBegun() {
		return nil
	}
	end := outcome.Ending{
		Status: api.Status(r.Status), Result: api.Result(r.Result), Scheme: r.Card.Scheme,
		Channel: r.DeviceChannel, Category: r.MessageCategory, Version: r.MessageVersion,
		TransStatus: r.TransStatus, TransStatusReason: r.TransStatusReason, ECI: r.ECI, Challenged: r.Challenged,
		LacksValue: r.LacksValue, ServerID: cmp.Or(r.CurrentID, r.ID), DSTransID: r.DSTransID, ACSTransID: r.ACSTransID,
		Shifts: api.Shifts(r.Liability), Time: r.Updated, Rules: rules,
	}
	if r.ErrorCode != "" {
		code, _ := strconv.Atoi(r.ErrorCode)
		end.Error = &api.OutcomeError{
			Component: r.ErrorComponent, Code: r.ErrorCode,
			Description: cmp.Or(r.ErrorDescription, message.Code(code).Description()),
			Detail:      cmp.Or(r.ErrorDetail, strings.Join(r.Elements, ",")),
		}
	}
	return new(outcome.Of(end))
}

// Findings returns what the scheme asked for and the AReq did not keep. Rules are those of its scheme.
func (r *Record) Findings(rules *scheme.Sheet) (all []*scheme.Finding) {
	for _, u := range r.Unkept {
		name := scheme.RuleName{Element: u.Element, Kind: scheme.Kind(u.Rule), Since: u.Since, Until: u.Until}
		all = append(all, rules.Find(name, r.MessageVersion, r.DeviceChannel, r.MessageCategory, r.Created))
	}
	return all
}

// hasForeignText reports whether another component wrote the texts of the error. A search does not have them: there are
// the description of the code, and the elements that the texts name.
func (r *Record) hasForeignText() bool { return r.ErrorCode != "" && r.ErrorComponent != "S" }

// withoutForeignText returns a record without the texts that another component wrote.
func (r *Record) withoutForeignText() *Record {
	known := *r
	if r.hasForeignText() {
		known.ErrorDescription, known.ErrorDetail = "", ""
	}
	return &known
}

// IsBegun reports whether a record is of an authentication of EMV 3DS, and not of a refused request.
func (r *Record) IsBegun() bool { return r.API != "v1" && r.Status != RefusedRequest }

// A Rule is what a scheme asks for beyond the protocol, as docs/schemes.md has it.
type Rule struct {
	Element string `json:"element"`         // of several of which one is enough, all with | between
	Rule    string `json:"rule"`            // require, forbid, format, closed, ended, advise or ignore
	Since   string `json:"since,omitempty"` // the first day on which it counts, as 2026-07-01; "" means that it always did
	Until   string `json:"until,omitempty"` // the last day; "" means that no end is known
}

// A Step is something that happened at a time.
type Step struct {
	Step     string          `json:"step"` // those of docs/operating/journal.md
	At       time.Time       `json:"at"`
	MS       int64           `json:"ms"` // since the record was created
	Node     string          `json:"node,omitempty"`
	Message  json.RawMessage `json:"message,omitempty"` // masked
	Findings []string        `json:"findings,omitempty"`
	Bytes    int             `json:"bytes,omitempty"`  // length of the message, also of one that is not kept any more
	Digest   string          `json:"digest,omitempty"` // of the message, which stands apart from the chained entry

	// Personal are the personal data of the message by the path of their element, where the operator asked for them.
	// They stand apart from the chained entry, and no export has them.
	Personal json.RawMessage `json:"personal,omitempty"`
}

// A Kind is the part of an authentication that an entry is about. An authentication has at most one entry of each.
type Kind string

// The kinds, in the order in which they follow each other.
const (
	Created  Kind = "created"  // it waits for its browser
	Claimed  Kind = "claimed"  // the AReq may have left
	Answered Kind = "answered" // the ARes, or what came instead

	// The next two belong to Secure Payment Confirmation.
	SecondAReq   Kind = "second_areq" // the second AReq may have left
	SecondAnswer Kind = "second_ares" // the ARes of that, or what came instead

	Resulted  Kind = "resulted"  // the RReq was acknowledged
	GivenUp   Kind = "given_up"  // the directory server gave it up with an Erro
	Cancelled Kind = "cancelled" // the merchant or the shopper ended it
	Expired   Kind = "expired"   // the wait for the browser or the result is over
	Refused   Kind = "refused"   // a request that no authentication came of
	Version1  Kind = "v1"        // a request of 3-D Secure 1.0.2
)

// Kinds of moments. The entry of a moment adds steps to an authentication, and its record says no more than which
// authentication that is.
const (
	Method        Kind = "method"         // a browser has begun with the 3DS Method
	Shown         Kind = "shown"          // the browser got the form that opens the issuer's page
	Confirming    Kind = "confirming"     // the browser got what its dialog for Secure Payment Confirmation shows
	Returned      Kind = "returned"       // the issuer's page has sent the browser back
	Collected     Kind = "collected"      // the merchant has fetched the result
	RefusedAnswer Kind = "refused_answer" // an ARes came that is not valid
	RefusedResult Kind = "refused_result" // an RReq came that is not valid
	LateResult    Kind = "late_result"    // an RReq came after the end
)

// RelayedErro begins the finding of a step "erro" if the directory server sent the Erro. Without it there was no
// answer, or one that was refused.
const RelayedErro = "Erro of the directory server: "

// Delivered is the kind of an attempt to deliver an event of an authentication to an endpoint.
func Delivered(event, endpoint string, attempt int) Kind {
	return Kind(fmt.Sprintf("webhook %s %s %d", event, endpoint, attempt))
}

// kindOrder is the order of steps that have the same time. Kinds of [Delivered] come last.
var kindOrder = []Kind{
	Refused, Version1, Created, Method, Claimed, RefusedAnswer, Answered, Confirming, SecondAReq, SecondAnswer, Shown,
	RefusedResult, Resulted, Returned, GivenUp, Cancelled, Expired, LateResult, Collected,
}

// orderOf returns the place of a kind in kindOrder.
func orderOf(k Kind) int {
	if i := slices.Index(kindOrder, k); i >= 0 {
		return i
	}
	return len(kindOrder)
}

// rankOf orders the kinds: the record of the highest one is the newest. No two have the same, so what is the newest
// does not depend on who reads, or in which order. That of a moment is negative.
func rankOf(k Kind) int {
	switch k {
	case Created:
		return 0
	case Claimed:
		return 1
	case Answered:
		return 2
	case SecondAReq:
		return 3
	case SecondAnswer:
		return 4
	case Expired:
		return 5
	case GivenUp:
		return 6
	case Cancelled:
		return 7
	case Resulted: // it is known, whatever else somebody says of the end
		return 8
	case Refused, Version1: // nothing else is of the same id
		return 9
	}
	return -1
}

// An Entry is one line of the journal. It is never changed.
type Entry struct {
	Kind     Kind   `json:"kind"`
	Record   Record `json:"record"`
	Steps    []Step `json:"steps,omitempty"`
	CardHash []byte `json:"-"` // see [Keys.CardHash]; nil when no card is known
}

// A Query says which records are wanted. Zero fields do not count.
type Query struct {
	// an id of the 3DS Server, the directory server or the ACS, an X-Request-Id, or an id that a refused request named
	ID        string
	Reference string
	Card      string // the whole number; only its hash is looked for
	Last4     string
	Merchant  string
	Scheme    string
	ACS       string
	Status    string
	Result    string
	Reason    string // transStatusReason
	From, To  time.Time
	Begun     bool      // authentications of EMV 3DS alone: no refused requests, none of 3-D Secure 1.0.2
	Limit     int       // 0 means 50, at most 1000
	Cursor    string    // Next of the page before
	By        string    // who erases, for the tombstone; "" means this process
	At        time.Time // when an export is made; zero means now

	isOwnID   bool       // ID is one of ours, and looked for in the time that it names
	isNamedID bool       // requests are looked for that named ID, and have another one of their own
	byTime    bool       // records are read in the order of time, whatever else is asked for
	unkept    *unkeptKey // those that do not keep this rule; Merchant and Scheme are those of the key
	hashes    [][]byte   // in the place of Card: its keyed hashes
	within    []string   // the merchants of the scope of a [Reader]; none: there is no scope, or Merchant is in it
}

// A Page is part of the records of a query, newest first.
type Page struct {
	Records []Record
	Next    string // "" at the end
}

// A Detail is a record with all of its steps, oldest first.
type Detail struct {
	Record
	Steps []Step `json:"steps"`
}

// A CountQuery says which authentications are counted, and by what.
type CountQuery struct {
	By       string // scheme, issuer (the first digits of the card), acs, version, reason or merchant; "" for all together
	Merchant string // "" for those of all merchants
	From, To time.Time
	Hourly   bool // each count is of one hour; otherwise days that are over may be counted as one
	Whole    bool // all hours and days are added up, so that each value has one count

	within []string // as in [Query]
}

// An UnkeptRule counts the requests of a merchant that do not keep a rule of a scheme.
type UnkeptRule struct {
	Merchant string `json:"merchant"`
	Scheme   string `json:"scheme"`
	Rule
	Requests int64     `json:"requests"` // authentications that do not keep it
	All      int64     `json:"all"`      // all authentications of that merchant at that scheme
	Last     time.Time `json:"last"`     // when the last one of Requests was created
	Example  string    `json:"example"`  // the id of the last one; "" if its record has gone meanwhile
}

// A Rollup counts the authentications of an hour, of a day, or of all the time of a query, that have a value in
// common. It holds no card.
type Rollup struct {
	Hour       time.Time `json:"hour"` // the begin of the hour, the day or the time
	Value      string    `json:"value"`
	All        int64     `json:"all"`        // authentications with an AReq
	Challenged int64     `json:"challenged"` // of which transStatus C or D of the ARes
	Successful int64     `json:"successful"` // of which the last transStatus is Y or A
	Failed     int64     `json:"failed"`     // of which no ARes could be used
	Lost       int64     `json:"lost"`       // challenges whose wait ended without an RReq
	// challenges that the shopper did not bring to an end, those of Lost among them
	Abandoned int64 `json:"abandoned"`
	// Times are the times from AReq to ARes: number by bucket. Bucket n ends at 1.1 to the n milliseconds.
	Times []int64 `json:"times"`
	// Results are the numbers by result, "" while there is none. Those that were authenticated after a challenge are
	// counted under AfterChallenge.
	Results map[string]int64 `json:"results"`
}

// AfterChallenge stands in Results of a [Rollup] for authenticated after a challenge.
const AfterChallenge = "authenticated_after_challenge"

// NewRollup returns a rollup that counts nothing yet.
func NewRollup() *Rollup { return &Rollup{Results: map[string]int64{}} }

// Add adds what another rollup counts.
func (r *Rollup) Add(o *Rollup) {
	r.All += o.All
	r.Challenged += o.Challenged
	r.Successful += o.Successful
	r.Failed += o.Failed
	r.Lost += o.Lost
	r.Abandoned += o.Abandoned
	for bucket, n := range o.Times {
		r.addTimes(bucket, n)
	}
	for result, n := range o.Results {
		r.Results[result] += n
	}
}

// addTimes counts times of a bucket.
func (r *Rollup) addTimes(bucket int, n int64) {
	if missing := bucket + 1 - len(r.Times); missing > 0 {
		r.Times = append(r.Times, make([]int64, missing)...)
	}
	r.Times[bucket] += n
}

// Quantile returns the time in milliseconds that a share of the times does not exceed, to a tenth of it. It is 0 if no
// time is known.
func (r *Rollup) Quantile(share float64) float64 {
	var all, before int64
	for _, n := range r.Times {
		all += n
	}
	for bucket, n := range r.Times {
		if before += n; n > 0 && float64(before) >= share*float64(all) {
			return math.Round(math.Pow(1.1, float64(bucket)))
		}
	}
	return 0
}

// A Store keeps entries and records. All methods may be called by many goroutines and processes.
type Store interface {
	// Write adds entries. Those that it has already are left as they are. It says how many are new.
	Write(ctx context.Context, entries []Entry) (int, error)
	// Search returns a page of records, newest first.
	Search(ctx context.Context, q Query) (Page, error)
	// Show returns a record by the id of the 3DS Server or an X-Request-Id, or ErrNotFound. If there is none, the newest
	// refused request that named the id is returned.
	Show(ctx context.Context, id string) (Detail, error)
	// Count counts authentications. The counts are those of the records at this moment, the oldest ones first.
	Count(ctx context.Context, q CountQuery) ([]Rollup, error)
	// Flow counts the requests of a short time, also those that were refused, by how they went, in no order.
	Flow(ctx context.Context, q FlowQuery) ([]FlowCount, error)
	// CountUnkept counts the authentications of the time and the merchant of a query that do not keep
	// a rule of their scheme.
	CountUnkept(ctx context.Context, q CountQuery) ([]UnkeptRule, error)
	// Billing returns counters, in the order of their members. Neither Erase nor Expire makes one smaller.
	Billing(ctx context.Context, q BillingQuery) ([]BillingCount, error)
	// Roll makes the rollups that let Count be fast, of hours and days that are over. It begins nothing new after a limit,
	// and goes on with the next call.
	Roll(ctx context.Context, now time.Time, limit time.Duration) error
	// CountUnforgotten counts the authentications whose keys Erase would not forget, for there are too many: what is
	// sealed under them stays in old copies of the store. It is 0 if Erase would forget all.
	CountUnforgotten(ctx context.Context, q Query) (int, error)
	// Erase removes what belongs to a card or to a merchant, and says how much that was. Of entries the digests stay.
	// It finds what somebody has deleted from searches, too. The error says what cannot be looked at. It leaves out what
	// legal holds hold, and remembers that it did.
	Erase(ctx context.Context, q Query) (authentications, records int, err error)
	// Export calls line for each entry of a time, in the order of their chains.
	Export(ctx context.Context, q Query, line func(ExportedEntry) error) error
	// Sign signs the days that ended before now, each once, with those of their chains that are as they were written.
	Sign(ctx context.Context, now time.Time) error
	// Head signs how far each chain has come, once a minute, and returns the newest seal. The end of the audit trail is
	// one more chain; nil means that it is not known.
	Head(ctx context.Context, now time.Time, trail *ChainEnd) (Head, error)
	// Faults says what Sign and Head found that is not as it was written, and did not sign.
	Faults() []string
	// CountChanged says how often a row was read that is not as it was written.
	CountChanged() uint64
	// ReadSeals calls do with the seals from a number on, in their order.
	ReadSeals(ctx context.Context, from int64, do func(Seal) error) error
	holdStore
	// Expire removes the days that ended before a time. It keeps days that have something that a legal hold holds, and so
	// do ExpireMessages and ExpirePersonal. None of them removes anything while the holds are not known.
	Expire(ctx context.Context, before time.Time) error
	// ExpireMessages removes the messages of the days that ended before a time. Their records stay, and verify.
	ExpireMessages(ctx context.Context, before time.Time) error
	// ExpirePersonal removes the personal data of the days that ended before a time. Nothing else changes.
	ExpirePersonal(ctx context.Context, before time.Time) error
	Close() error
}

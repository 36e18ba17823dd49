package admin

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/journal"
)

const (
	recordLimit    = 50
	maxRecordLimit = 100
)

// openJournal returns the journal, or the problem that there is none.
func (h *Handler) openJournal() (journal.Store, error) {
	if h.Journal == nil {
		return nil, refuse(http.StatusNotFound, "The journal is off.")
	}
	return h.Journal, nil
}

// A recordQuery is what records are searched by. A card comes in a body alone, for addresses stand in logs.
type recordQuery struct {
	ID         string `json:"id,omitempty"`
	Reference  string `json:"reference,omitempty"`
	AcctNumber string `json:"acctNumber,omitempty"`
	Last4      string `json:"last4,omitempty"`
	Merchant   string `json:"merchant,omitempty"`
	Scheme     string `json:"scheme,omitempty"`
	ACS        string `json:"acs,omitempty"`
	Status     string `json:"status,omitempty"`
	Result     string `json:"result,omitempty"`
	Reason     string `json:"reason,omitempty"`
	From       string `json:"from,omitempty"`
	To         string `json:"to,omitempty"`
	Limit      int    `json:"limit,omitempty"`
	Cursor     string `json:"cursor,omitempty"`
}

// recordFields are the names of a query that an address may have, with their places.
func (q *recordQuery) recordFields() map[string]*string {
	return map[string]*string{
		"id": &q.ID, "reference": &q.Reference, "last4": &q.Last4, "merchant": &q.Merchant, "scheme": &q.Scheme, "acs": &q.ACS,
		"status": &q.Status, "result": &q.Result, "reason": &q.Reason, "from": &q.From, "to": &q.To, "cursor": &q.Cursor,
	}
}

// listRecords searches the journal by the parameters of the address.
func listRecords(h *Handler, r *request) (any, error) {
	var q recordQuery
	fields := q.recordFields()
	for name, values := range r.URL.Query() {
		to, ok := fields[name]
		switch {
		case name == "acctNumber":
			return nil, refuse(http.StatusBadRequest, "acctNumber: POST it to %sauthentications/search.", Prefix)
		case name == "limit":
			limit, err := strconv.Atoi(values[0])
			if err != nil {
				return nil, refuse(http.StatusBadRequest, "limit: want a number from 1 to %d.", maxRecordLimit)
			}
			q.Limit = limit
		case !ok:
			return nil, refuse(http.StatusBadRequest, "%s is no parameter of this operation.", name)
		default:
			*to = values[0]
		}
	}
	return h.findRecords(r, q)
}

// searchRecords searches the journal by the members of the body.
func searchRecords(h *Handler, r *request) (any, error) {
	var q recordQuery
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	return h.findRecords(r, q)
}

// findRecords answers a search, after it stands in the audit trail. One merchant's people see that merchant's records.
func (h *Handler) findRecords(r *request, q recordQuery) (any, error) {
	st, err := h.openJournal()
	if err != nil {
		return nil, err
	}
	if r.actor.Merchant != "" {
		q.Merchant = r.actor.Merchant
	}
	wanted := journal.Query{
		ID: strings.ToLower(q.ID), Reference: q.Reference, Card: q.AcctNumber, Last4: q.Last4, Merchant: q.Merchant, Scheme: q.Scheme,
		ACS: q.ACS, Status: q.Status, Result: q.Result, Reason: q.Reason, Limit: recordLimit, Cursor: q.Cursor,
	}
	if q.Limit != 0 {
		if wanted.Limit = q.Limit; q.Limit < 1 || q.Limit > maxRecordLimit {
			return nil, refuse(http.StatusBadRequest, "limit: want a number from 1 to %d.", maxRecordLimit)
		}
	}
	if wanted.From, wanted.To, err = readTimes(q.From, q.To); err != nil {
		return nil, err
	}
	hasCard := q.AcctNumber != ""
	q.AcctNumber = "" // no card in the audit trail
	if err := h.record(r, "record.search", "", nil, map[string]any{"query": q, "byCard": hasCard}); err != nil {
		return nil, err
	}
	page, err := st.Search(r.Context(), wanted)
	if err != nil {
		return nil, err
	}
	all := list[journal.Record]{Data: append([]journal.Record{}, page.Records...)}
	if page.Next != "" {
		all.Next = &page.Next
	}
	return all, nil
}

// readTimes reads the ends of a span of time, either of which may be "".
func readTimes(from, to string) (since, until time.Time, err error) {
	for _, of := range []struct {
		name, text string
		at         *time.Time
	}{{"from", from, &since}, {"to", to, &until}} {
		if of.text == "" {
			continue
		}
		if *of.at, err = time.Parse(time.RFC3339, of.text); err != nil {
			return since, until, refuse(http.StatusBadRequest, "%s: want a date such as 2027-01-31T00:00:00Z.", of.name)
		}
	}
	return since, until, nil
}

// showRecord shows one record with its steps, after that stands in the audit trail.
func showRecord(h *Handler, r *request) (any, error) {
	st, err := h.openJournal()
	if err != nil {
		return nil, err
	}
	id := strings.ToLower(r.PathValue("id"))
	detail, err := st.Show(r.Context(), id)
	if errors.Is(err, journal.ErrNotFound) || err == nil && !r.actor.CanSee(detail.Merchant) {
		return nil, refuse(http.StatusNotFound, "There is no such record.")
	}
	if err != nil {
		return nil, err
	}
	if err := h.record(r, "record.view", id, nil, nil); err != nil {
		return nil, err
	}
	return detail, nil
}

// A reportRow counts the authentications with an AReq that have one value in common. Rates are fractions from 0 to 1.
type reportRow struct {
	Value            string  `json:"value"`
	All              int64   `json:"all"`
	ChallengeRate    float64 `json:"challengeRate"`    // ARes C or D
	FrictionlessRate float64 `json:"frictionlessRate"` // neither challenged nor failed
	SuccessRate      float64 `json:"successRate"`      // the last transStatus is Y or A
	Abandonment      float64 `json:"abandonment"`      // of challenges: those without Y or N of the shopper
	RReqLoss         float64 `json:"rreqLoss"`         // of challenges: those whose wait ended without an RReq
	MedianMS         float64 `json:"medianMs"`         // from AReq to ARes; within a tenth
	P95MS            float64 `json:"p95Ms"`
}

// reportedBy has the names by which a report may be made, and how the journal counts for it.
var reportedBy = map[string]string{
	"scheme": "scheme", "merchant": "merchant", "issuer": "issuer", "acs": "acs", "version": "version", "reason": "reason", "day": "",
}

// reportDays is how far back a report without from goes.
const reportDays = 30

// report counts what the journal has of a time.
func report(h *Handler, r *request) (any, error) {
	st, err := h.openJournal()
	if err != nil {
		return nil, err
	}
	asked := r.URL.Query()
	by, ok := reportedBy[asked.Get("by")]
	if !ok {
		return nil, refuse(http.StatusBadRequest, "by: want scheme, merchant, issuer, acs, version, reason or day.")
	}
	from, to, err := readTimes(asked.Get("from"), asked.Get("to"))
	if err != nil {
		return nil, err
	}
	if to.IsZero() {
		to = h.Now()
	}
	if from.IsZero() {
		from = to.AddDate(0, 0, -reportDays)
	}
	counts, err := st.Count(r.Context(), journal.CountQuery{By: by, Merchant: r.actor.Merchant, From: from, To: to, Whole: by != ""})
	if err != nil {
		return nil, err
	}
	sums := map[string]*journal.Rollup{}
	for i := range counts {
		value := counts[i].Value
		if by == "" {
			value = counts[i].Hour.Format(time.DateOnly)
		}
		if sums[value] == nil {
			sums[value] = journal.NewRollup()
		}
		sums[value].Add(&counts[i])
	}
	all := list[reportRow]{Data: []reportRow{}}
	for value, sum := range sums {
		all.Data = append(all.Data, newReportRow(value, sum))
	}
	slices.SortFunc(all.Data, func(a, b reportRow) int { return strings.Compare(a.Value, b.Value) })
	return all, nil
}

func newReportRow(value string, sum *journal.Rollup) reportRow {
	rate := func(part, whole int64) float64 {
		if whole == 0 {
			return 0
		}
		return math.Round(float64(part)/float64(whole)*1e6) / 1e6
	}
	return reportRow{
		Value: value, All: sum.All, ChallengeRate: rate(sum.Challenged, sum.All),
		FrictionlessRate: rate(sum.All-sum.Challenged-sum.Failed, sum.All), SuccessRate: rate(sum.Successful, sum.All),
		Abandonment: rate(sum.Abandoned, sum.Challenged), RReqLoss: rate(sum.Lost, sum.Challenged),
		MedianMS: sum.Quantile(0.5), P95MS: sum.Quantile(0.95),
	}
}

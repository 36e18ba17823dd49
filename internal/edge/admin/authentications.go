package admin

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/message"
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

// A RecordQuery is what records are searched by. A card comes in a body alone, for addresses stand in logs.
type RecordQuery struct {
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
func (q *RecordQuery) recordFields() map[string]*string {
	return map[string]*string{
		"id": &q.ID, "reference": &q.Reference, "last4": &q.Last4, "merchant": &q.Merchant, "scheme": &q.Scheme, "acs": &q.ACS,
		"status": &q.Status, "result": &q.Result, "reason": &q.Reason, "from": &q.From, "to": &q.To, "cursor": &q.Cursor,
	}
}

// listRecords searches the journal by the parameters of the address.
func listRecords(h *Handler, r *request) (any, error) {
	var q RecordQuery
	fields := q.recordFields()
	for name, values := range r.URL.Query() {
		switch {
		case name == "limit":
			limit, err := strconv.Atoi(values[0])
			if err != nil {
				return nil, refuse(http.StatusBadRequest, "limit: want a number from 1 to %d.", maxRecordLimit)
			}
			q.Limit = limit
		default:
			*fields[name] = values[0]
		}
	}
	return h.findRecords(r, q)
}

// searchRecords searches the journal by the members of the body.
func searchRecords(h *Handler, r *request) (any, error) {
	var q RecordQuery
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	return h.findRecords(r, q)
}

// findRecords answers a search, after it stands in the audit trail. One merchant's people see that merchant's records.
func (h *Handler) findRecords(r *request, q RecordQuery) (any, error) {
	st, err := h.openJournal()
	if err != nil {
		return nil, err
	}
	if r.actor.Merchant != "" {
		q.Merchant = r.actor.Merchant
	}
	wanted := journal.Query{
		ID: strings.ToLower(q.ID), Reference: q.Reference, Card: message.PlainCardNumber(q.AcctNumber), Last4: q.Last4, Merchant: q.Merchant, Scheme: q.Scheme,
		ACS: q.ACS, Status: q.Status, Result: q.Result, Reason: q.Reason, Limit: recordLimit, Cursor: q.Cursor,
	}
	if err := wanted.Check(); err != nil {
		return nil, refuse(http.StatusBadRequest, "%v.", err)
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
	q.AcctNumber = "" // no card in the audit trail, and none that was typed into another field
	for _, text := range q.recordFields() {
		if cardnumber.MayBe(*text) {
			*text = "***"
		}
	}
	if err := h.record(r, "record.search", "", nil, map[string]any{"query": q, "byCard": hasCard}); err != nil {
		return nil, err
	}
	page, err := st.Search(r.Context(), wanted)
	if err != nil {
		return nil, err
	}
	if len(page.Records) == 0 {
		if err := h.checkSearched(r, st, &wanted); err != nil {
			return nil, err
		}
	}
	all := list[journal.Record]{Data: append([]journal.Record{}, page.Records...), Next: api.Text(page.Next)}
	return all, nil
}

// checkSearched refuses a search that found nothing because of a merchant or a scheme that nobody knows. A merchant of which
// the journal has records is known, too.
func (h *Handler) checkSearched(r *request, st journal.Store, q *journal.Query) error {
	if err := journal.CheckScheme(q.Scheme, h.Merchants().Schemes...); err != nil {
		return refuse(http.StatusBadRequest, "%v.", err)
	}
	return h.checkMerchantOf(r, st, q.Merchant)
}

// checkMerchantOf refuses a merchant that nobody knows, and of which the journal has nothing. "" stands for all.
func (h *Handler) checkMerchantOf(r *request, st journal.Store, name string) error {
	if name == "" || r.actor.Merchant != "" {
		return nil
	}
	page, err := st.Search(r.Context(), journal.Query{Merchant: name, Limit: 1})
	if err != nil || len(page.Records) > 0 {
		return err
	}
	err = h.Merchants().CheckKnown(r.Context(), name)
	if errors.Is(err, merchant.ErrNotFound) {
		return refuse(http.StatusBadRequest, "merchant: %v.", err)
	}
	return err
}

// readTimes reads the ends of a span of time, either of which may be "". It may not end before it begins.
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
	if !since.IsZero() && !until.IsZero() && until.Before(since) {
		return since, until, refuse(http.StatusBadRequest, "to: want a time that is not before from.")
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
	if err := h.record(r, "record.view", detail.ID, nil, nil); err != nil {
		return nil, err
	}
	return detail, nil
}

// A ReportRow counts the authentications with an AReq that have one value in common. Rates are fractions from 0 to 1.
type ReportRow struct {
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
	from, to, err := h.reportTimes(r)
	if err != nil {
		return nil, err
	}
	counts, err := st.Count(r.Context(), journal.CountQuery{By: by, Merchant: r.actor.Merchant, From: from, To: to, Whole: by != ""})
	if err != nil {
		return nil, err
	}
	valueOf := func(c *journal.Rollup) string { return c.Value }
	if by == "" {
		valueOf = func(c *journal.Rollup) string { return c.Hour.Format(time.DateOnly) }
	}
	return list[ReportRow]{Data: reportRows(counts, valueOf)}, nil
}

// reportRows adds up the counts that have a value in common, and returns a row for each value in their order.
func reportRows(counts []journal.Rollup, valueOf func(*journal.Rollup) string) []ReportRow {
	sums := map[string]*journal.Rollup{}
	for i := range counts {
		value := valueOf(&counts[i])
		if sums[value] == nil {
			sums[value] = journal.NewRollup()
		}
		sums[value].Add(&counts[i])
	}
	rows := []ReportRow{}
	for _, value := range slices.Sorted(maps.Keys(sums)) {
		rows = append(rows, newReportRow(value, sums[value]))
	}
	return rows
}

// showBilling answers with the counters of months.
func showBilling(h *Handler, r *request) (any, error) {
	st, err := h.openJournal()
	if err != nil {
		return nil, err
	}
	asked := r.URL.Query()
	q, err := journal.ParseMonths(asked.Get("from"), asked.Get("to"), h.Now())
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%s.", err)
	}
	q.Merchant = r.actor.Merchant
	counts, err := st.Billing(r.Context(), q)
	return list[journal.BillingCount]{Data: counts}, err
}

// reportTimes returns the time of a report.
func (h *Handler) reportTimes(r *request) (from, to time.Time, err error) {
	asked := r.URL.Query()
	if from, to, err = readTimes(asked.Get("from"), asked.Get("to")); err != nil {
		return from, to, err
	}
	if to.IsZero() {
		to = h.Now()
	}
	if from.IsZero() {
		from = to.AddDate(0, 0, -reportDays)
	}
	return from, to, nil
}

// rate returns a part of a whole as a fraction.
func rate(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return math.Round(float64(part)/float64(whole)*1e6) / 1e6
}

// A MandateRow counts the requests of a merchant that do not keep a rule of a scheme.
type MandateRow struct {
	journal.UnkeptRule
	Share   float64 `json:"share"`   // of all authentications of the merchant at the scheme
	InForce bool    `json:"inForce"` // whether the rule counts today

	HasEnded bool `json:"hasEnded"` // whether its last day is over
}

// reportMandates counts the requests of a time that do not keep a rule of their scheme. Rules in force come first, then
// those of later days, the earliest day first, then advice, then rules that have ended. Of equal ones the first is the one
// that most requests do not keep.
func reportMandates(h *Handler, r *request) (any, error) {
	st, err := h.openJournal()
	if err != nil {
		return nil, err
	}
	from, to, err := h.reportTimes(r)
	if err != nil {
		return nil, err
	}
	counts, err := st.CountUnkept(r.Context(), journal.CountQuery{Merchant: r.actor.Merchant, From: from, To: to})
	if err != nil {
		return nil, err
	}
	today := h.Now().UTC().Format(time.DateOnly)
	all := list[MandateRow]{Data: []MandateRow{}}
	for _, c := range counts {
		hasEnded := c.Until != "" && c.Until < today
		all.Data = append(all.Data, MandateRow{c, rate(c.Requests, c.All), c.Since <= today && !hasEnded, hasEnded})
	}
	slices.SortStableFunc(all.Data, func(a, b MandateRow) int {
		return cmp.Or(cmp.Compare(a.urgency(), b.urgency()), strings.Compare(max(a.Since, today), max(b.Since, today)),
			cmp.Compare(b.Requests, a.Requests))
	})
	return all, nil
}

// urgency orders rows: what is or will be asked for, what is only advised, what is not asked for any more.
func (m *MandateRow) urgency() int {
	switch {
	case m.HasEnded:
		return 2
	case m.Rule.Rule == string(scheme.Advise), m.Rule.Rule == string(scheme.Ignore):
		return 1
	}
	return 0
}

func newReportRow(value string, sum *journal.Rollup) ReportRow {
	return ReportRow{
		Value: value, All: sum.All, ChallengeRate: rate(sum.Challenged, sum.All),
		FrictionlessRate: rate(sum.All-sum.Challenged-sum.Failed, sum.All), SuccessRate: rate(sum.Successful, sum.All),
		Abandonment: rate(sum.Abandoned, sum.Challenged), RReqLoss: rate(sum.Lost, sum.Challenged),
		MedianMS: sum.Quantile(0.5), P95MS: sum.Quantile(0.95),
	}
}

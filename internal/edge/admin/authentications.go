package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/message"
)

const (
	recordLimit    = 50
	maxRecordLimit = 100
)

// openJournal returns as much of the journal as the actor may see, if the actor may do the act, or the problem that
// there is no journal. No answer to an actor may read the journal in another way.
func (h *Handler) openJournal(by *operator.Actor, act string) (*journal.Reader, error) {
	if err := ops.Find(act).Check(by); err != nil {
		return nil, err
	}
	if h.Journal == nil {
		return nil, refuse(http.StatusNotFound, "The journal is off.")
	}
	return journal.Within(h.Journal, by.Scope()), nil
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
		"id": &q.ID, "reference": &q.Reference, "last4": &q.Last4, "merchant": &q.Merchant, "scheme": &q.Scheme,
		"acs": &q.ACS, "status": &q.Status, "result": &q.Result, "reason": &q.Reason, "from": &q.From, "to": &q.To,
		"cursor": &q.Cursor,
	}
}

// listRecords searches the journal by the parameters of the address.
func listRecords(h *Handler, r *request) (any, error) {
	q, err := NewRecordQuery(r.URL.Query())
	if err != nil {
		return nil, err
	}
	return h.FindRecords(r.Context(), r.actor, q)
}

// NewRecordQuery returns the query that the parameters of an address ask for. There may be none but
// those of recordFields.
func NewRecordQuery(asked url.Values) (q RecordQuery, err error) {
	fields := q.recordFields()
	for name, values := range asked {
		if name != "limit" {
			*fields[name] = values[0]
			continue
		}
		if q.Limit, err = strconv.Atoi(values[0]); err != nil {
			return q, refuse(http.StatusBadRequest, "limit: want a number from 1 to %d.", maxRecordLimit)
		}
	}
	return q, nil
}

// searchRecords searches the journal by the members of the body.
func searchRecords(h *Handler, r *request) (any, error) {
	var q RecordQuery
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	return h.FindRecords(r.Context(), r.actor, q)
}

// FindRecords answers a search, after it stands in the audit trail. People of one merchant see that merchant's records,
// whatever merchant they name.
func (h *Handler) FindRecords(ctx context.Context, by operator.Actor,
	q RecordQuery) (*api.List[journal.Record], error) {
	st, err := h.openJournal(&by, "journal search")
	if err != nil {
		return nil, err
	}
	if by.Merchant != "" {
		q.Merchant = by.Merchant
	}
	wanted := journal.Query{
		ID: strings.ToLower(q.ID), Reference: q.Reference, Card: message.PlainCardNumber(q.AcctNumber), Last4: q.Last4,
		Merchant: q.Merchant, Scheme: q.Scheme, ACS: q.ACS, Status: q.Status, Result: q.Result, Reason: q.Reason,
		Limit: recordLimit, Cursor: q.Cursor,
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
	if err := h.Record(ctx, by, "journal search", "", nil, map[string]any{"query": q, "byCard": hasCard}); err != nil {
		return nil, err
	}
	page, err := st.Search(ctx, wanted)
	if err != nil {
		return nil, err
	}
	if len(page.Records) == 0 {
		if err := h.checkSearched(ctx, &by, st, &wanted); err != nil {
			return nil, err
		}
	}
	all := &api.List[journal.Record]{Data: append([]journal.Record{}, page.Records...), Next: api.Text(page.Next)}
	return all, nil
}

// checkSearched refuses a search that found nothing because it names an unknown merchant or scheme. A merchant that has
// records in the journal is known, too.
func (h *Handler) checkSearched(ctx context.Context, by *operator.Actor, st *journal.Reader, q *journal.Query) error {
	if err := journal.CheckScheme(q.Scheme, h.Merchants().Schemes...); err != nil {
		return refuse(http.StatusBadRequest, "%v.", err)
	}
	return h.checkMerchantOf(ctx, by, st, q.Merchant)
}

// checkMerchantOf refuses an unknown merchant that has nothing in the journal. "" stands for all.
func (h *Handler) checkMerchantOf(ctx context.Context, by *operator.Actor, st *journal.Reader, name string) error {
	if name == "" || by.Merchant != "" {
		return nil
	}
	page, err := st.Search(ctx, journal.Query{Merchant: name, Limit: 1})
	if err != nil || len(page.Records) > 0 {
		return err
	}
	return h.CheckMerchant(ctx, by, name)
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

// ShowRecord returns one record with its steps, after the look stands in the audit trail.
func (h *Handler) ShowRecord(ctx context.Context, by operator.Actor, id string) (*journal.Detail, error) {
	st, err := h.openJournal(&by, "journal show")
	if err != nil {
		return nil, err
	}
	detail, err := st.Show(ctx, strings.ToLower(id))
	if errors.Is(err, journal.ErrNotFound) {
		return nil, refuse(http.StatusNotFound, "There is no such record.")
	}
	if err != nil {
		return nil, err
	}
	if by.IsBound() {
		for i := range detail.Steps {
			detail.Steps[i].Node = ""
		}
	}
	return &detail, h.Record(ctx, by, "journal show", detail.ID, nil, nil)
}

// A ReportRow counts the authentications with an AReq that have one value in common. Rates are fractions from 0 to 1.
type ReportRow struct {
	Value            string  `json:"value"`
	All              int64   `json:"all"`
	ChallengeRate    float64 `json:"challengeRate"`    // ARes C or D
	FrictionlessRate float64 `json:"frictionlessRate"` // neither challenged nor failed
	SuccessRate      float64 `json:"successRate"`      // the last transStatus is Y or A
	Abandonment      float64 `json:"abandonment"`      // of challenges: those without Y or N of the shopper
	RReqLoss         float64 `json:"rreqLoss"`         // challenges whose wait ended without an RReq
	MedianMS         float64 `json:"medianMs"`         // from AReq to ARes; within a tenth
	P95MS            float64 `json:"p95Ms"`
}

// reportedBy has the names by which a report may be made, and how the journal counts for it.
var reportedBy = map[string]string{
	"scheme": "scheme", "merchant": "merchant", "issuer": "issuer", "acs": "acs", "version": "version",
	"reason": "reason", "day": "",
}

// reportDays is how far back a report without from goes.
const reportDays = 30

func report(h *Handler, r *request) (any, error) {
	asked := r.URL.Query()
	from, to, err := readTimes(asked.Get("from"), asked.Get("to"))
	if err != nil {
		return nil, err
	}
	rows, err := h.Report(r.Context(), r.actor, asked.Get("by"), from, to)
	return api.List[ReportRow]{Data: rows}, err
}

// Report counts the authentications of a period in the journal by something that they have in common: scheme, merchant,
// issuer, acs, version, reason or day. Without a period it counts those of the last 30 days.
func (h *Handler) Report(ctx context.Context, actor operator.Actor, name string,
	from, to time.Time) ([]ReportRow, error) {
	st, err := h.openJournal(&actor, "journal report")
	if err != nil {
		return nil, err
	}
	by, ok := reportedBy[name]
	if !ok {
		return nil, refuse(http.StatusBadRequest, "by: want scheme, merchant, issuer, acs, version, reason or day.")
	}
	from, to = h.reportTimes(from, to)
	counts, err := st.Count(ctx, journal.CountQuery{By: by, From: from, To: to, Whole: by != ""})
	if err != nil {
		return nil, err
	}
	valueOf := func(c *journal.Rollup) string { return c.Value }
	if by == "" {
		valueOf = func(c *journal.Rollup) string { return c.Hour.Format(time.DateOnly) }
	}
	return reportRows(counts, valueOf), nil
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

func showBilling(h *Handler, r *request) (any, error) {
	counts, err := h.Billing(r.Context(), r.actor, r.URL.Query().Get("from"), r.URL.Query().Get("to"))
	return api.List[journal.BillingCount]{Data: counts}, err
}

// Billing returns the counters of months such as 2026-11. Without them it is the last month and this one.
func (h *Handler) Billing(ctx context.Context, by operator.Actor, from, to string) ([]journal.BillingCount, error) {
	st, err := h.openJournal(&by, "journal billing")
	if err != nil {
		return nil, err
	}
	q, err := journal.ParseMonths(from, to, h.Now())
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%s.", err)
	}
	return st.Billing(ctx, q)
}

// reportTimes returns the time of a report, where none was asked for that of the last days.
func (h *Handler) reportTimes(from, to time.Time) (since, until time.Time) {
	if to.IsZero() {
		to = h.Now()
	}
	if from.IsZero() {
		from = to.AddDate(0, 0, -reportDays)
	}
	return from, to
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

func reportMandates(h *Handler, r *request) (any, error) {
	from, to, err := readTimes(r.URL.Query().Get("from"), r.URL.Query().Get("to"))
	if err != nil {
		return nil, err
	}
	rows, err := h.Mandates(r.Context(), r.actor, from, to)
	return api.List[MandateRow]{Data: rows}, err
}

// Mandates counts the requests of a period that break a rule of their scheme. Rules in force come first, then those of
// later days, the earliest day first, then advice, then rules that have ended. Among equals, the rule that most
// requests break comes first.
func (h *Handler) Mandates(ctx context.Context, by operator.Actor, from, to time.Time) ([]MandateRow, error) {
	st, err := h.openJournal(&by, "journal report")
	if err != nil {
		return nil, err
	}
	from, to = h.reportTimes(from, to)
	counts, err := st.CountUnkept(ctx, journal.CountQuery{From: from, To: to})
	if err != nil {
		return nil, err
	}
	today := h.Now().UTC().Format(time.DateOnly)
	all := []MandateRow{}
	for _, c := range counts {
		hasEnded := c.Until != "" && c.Until < today
		all = append(all, MandateRow{c, rate(c.Requests, c.All), c.Since <= today && !hasEnded, hasEnded})
	}
	slices.SortStableFunc(all, func(a, b MandateRow) int {
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

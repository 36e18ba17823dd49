package pages

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// A billingRow is what one merchant had in a month.
type billingRow struct {
	Merchant string

	// All are the authentications of EMV 3DS. Each of them is also in one of Frictionless, Challenged, Decoupled,
	// Attempted and Unanswered.
	All, Frictionless, Challenged, Decoupled, Attempted, Unanswered int64

	Requestor, NonPayment int64 // those of All that are of 3RI, and those that are of no payment
	Version1              int64 // requests of 3-D Secure 1.0.2
	Refused               int64
}

// add adds a counter.
func (r *billingRow) add(c *journal.BillingCount) {
	switch c.Kind {
	case journal.BilledRefused:
		r.Refused += c.Count
		return
	case journal.BilledEnrolled, journal.BilledCheck:
		r.Version1 += c.Count
		return
	case journal.BilledFrictionless:
		r.Frictionless += c.Count
	case journal.BilledChallenged:
		r.Challenged += c.Count
	case journal.BilledDecoupled:
		r.Decoupled += c.Count
	case journal.BilledAttempted:
		r.Attempted += c.Count
	case journal.BilledUnanswered:
		r.Unanswered += c.Count
	}
	r.All += c.Count
	if c.DeviceChannel == "03" {
		r.Requestor += c.Count
	}
	if c.MessageCategory == "02" {
		r.NonPayment += c.Count
	}
}

// A billingView is the data of the page of counters.
type billingView struct {
	Month  string
	Months []link
	Rows   []billingRow
	Sum    *billingRow // the sum of all rows; nil when there are fewer than two rows
	Left   int         // how many lines are not shown
	CSV    string
}

// billingMonths is how many months the page offers.
const billingMonths = 6

// billingOf asks for the counters of a month: the one in the address, or the current one.
func (h *Handler) billingOf(v *visit) (month string, counts []journal.BillingCount, err error) {
	month = cmp.Or(v.URL.Query().Get("month"), h.Now().UTC().Format("2006-01"))
	counts, err = h.Admin.Billing(v.Context(), v.session.Actor, month, month)
	return month, counts, err
}

// billingPage shows what is billed, a line for each merchant.
func billingPage(h *Handler, v *visit) (result, error) {
	start := time.Now()
	month, counts, err := h.billingOf(v)
	if err != nil {
		return result{}, err
	}
	view := billingView{Month: month, CSV: "/billing.csv?" + url.Values{"month": {month}}.Encode()}
	now := h.Now().UTC()
	for back := range billingMonths {
		m := time.Date(now.Year(), now.Month()-time.Month(back), 1, 0, 0, 0, 0, time.UTC).Format("2006-01")
		view.Months = append(view.Months, link{"/billing?" + url.Values{"month": {m}}.Encode(), m, m == month})
	}
	rows, sum := map[string]*billingRow{}, &billingRow{}
	for i := range counts {
		c := &counts[i]
		if rows[c.Merchant] == nil {
			rows[c.Merchant] = &billingRow{Merchant: c.Merchant}
		}
		rows[c.Merchant].add(c)
		sum.add(c)
	}
	for _, r := range rows {
		view.Rows = append(view.Rows, *r)
	}
	slices.SortFunc(view.Rows, func(a, b billingRow) int {
		return cmp.Or(cmp.Compare(b.All, a.All), strings.Compare(a.Merchant, b.Merchant))
	})
	if len(view.Rows) > 1 {
		view.Sum = sum
	}
	if n := len(view.Rows); n > maxReportRows {
		view.Rows, view.Left = view.Rows[:maxReportRows], n-maxReportRows
	}
	return result{template: "billing", title: "Billing", data: view, db: time.Since(start)}, nil
}

// writeBilling writes the counters of a month for spreadsheets.
func writeBilling(h *Handler, v *visit, to *bytes.Buffer) error {
	_, counts, err := h.billingOf(v)
	if err != nil {
		return err
	}
	return journal.WriteBillingCSV(to, counts)
}

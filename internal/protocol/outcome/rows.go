package outcome

import (
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// A Row is one cell of the table of outcomes: what an answer of a scheme's directory is worth.
type Row struct {
	Scheme      string     `json:"scheme"`
	Category    string     `json:"category"` // PA, NPA or 80
	TransStatus string     `json:"transStatus"`
	ECI         api.Text   `json:"eci"`   // null: any that has no row
	Since       api.Text   `json:"since"` // the first day of the row; null: it always held
	Result      api.Result `json:"result"`
	Shifts      api.Shifts `json:"shifts"`
	Because     string     `json:"because"`
	Source      api.Text   `json:"source"`
	Action      api.Action `json:"action"`
}

// Rows returns the table of outcomes on a day: every scheme, category and transStatus, and a row for each known eci.
func Rows(day time.Time) []Row {
	var all []Row
	for _, name := range scheme.Names() {
		for _, category := range categoriesOf(name) {
			for _, status := range strings.Split(statuses, "") {
				all = append(all, rowsOf(name, category, status, day)...)
			}
		}
	}
	return all
}

// messageCategories are the values of messageCategory by what the rules call them.
var messageCategories = map[string]string{"PA": "01", withoutPayment: "02", dataOnlyCategory: dataOnlyCategory}

// categoriesOf returns the categories that a scheme has, as the rules call them.
func categoriesOf(name string) []string {
	if name == "mastercard" {
		return []string{"PA", withoutPayment, dataOnlyCategory}
	}
	return []string{"PA", withoutPayment}
}

// otherECI is an eci that no rule names.
const otherECI = "other"

func rowsOf(name, category, status string, day time.Time) []Row {
	var known []string
	for i := range rules {
		r := &rules[i]
		if r.ECI != anything && !slices.Contains(known, r.ECI) && r.fits(name, category, status, r.ECI, day) {
			known = append(known, r.ECI)
		}
	}
	slices.Sort(known)
	var rows []Row
	for _, eci := range append(known, otherECI) {
		r := ruleOf(name, category, status, eci, day)
		row := Row{
			Scheme: name, Category: category, TransStatus: status, Shifts: r.Shifts, Because: r.Because,
			Source: api.Text(r.Source),
		}
		if eci != otherECI {
			row.ECI = api.Text(eci)
		}
		if !r.Since.IsZero() {
			row.Since = api.Text(r.Since.Format(time.DateOnly))
		}
		row.Result = resultOfRow(name, category, status, eci)
		row.Action = nextOf(&Ending{Result: row.Result, Category: messageCategories[category]}).Action
		rows = append(rows, row)
	}
	return rows
}

// resultOfRow is the result of an answer without a reason, to a request that asked for no sharing of data.
func resultOfRow(name, category, status, eci string) api.Result {
	if category == dataOnlyCategory || name == "mastercard" && eci == "04" {
		return api.ResultDataOnly
	}
	return results[status]
}

// results are the results of each transStatus of an end.
var results = map[string]api.Result{
	"Y": api.ResultAuthenticated, "A": api.ResultAttempted, "N": api.ResultNotAuthenticated, "U": api.ResultUnavailable,
	"R": api.ResultRejected, "I": api.ResultInformational,
}

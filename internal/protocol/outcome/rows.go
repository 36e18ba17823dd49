package outcome

import (
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// A Row is one cell of the table of outcomes: what an answer of a scheme's directory is worth.
type Row struct {
	Scheme      string  `json:"scheme"`
	Category    string  `json:"category"` // PA, NPA or 80
	TransStatus string  `json:"transStatus"`
	ECI         *string `json:"eci"`   // null: any that has no row
	Since       *string `json:"since"` // the first day of the row; null: it always held
	Result      Result  `json:"result"`
	Shifts      Shifts  `json:"shifts"`
	Because     string  `json:"because"`
	Source      *string `json:"source"`
	Action      Action  `json:"action"`
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
			Scheme: name, Category: category, TransStatus: status, Shifts: r.Shifts, Because: r.Because, Source: optional(r.Source),
		}
		if eci != otherECI {
			row.ECI = &eci
		}
		if !r.Since.IsZero() {
			row.Since = new(r.Since.Format(time.DateOnly))
		}
		row.Result = resultOfRow(name, category, status, eci)
		row.Action = nextOf(&Ending{Result: row.Result, Category: messageCategories[category]}).Action
		rows = append(rows, row)
	}
	return rows
}

// resultOfRow is the result of an answer without a reason, to a request that asked for no sharing of data.
func resultOfRow(name, category, status, eci string) Result {
	if category == dataOnlyCategory || name == "mastercard" && eci == "04" {
		return DataOnly
	}
	return results[status]
}

// results are the results of each transStatus of an end.
var results = map[string]Result{
	"Y": Authenticated, "A": Attempted, "N": NotAuthenticated, "U": Unavailable, "R": Rejected, "I": Informational,
}

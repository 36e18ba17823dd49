package outcome

import (
	"testing"

	"github.com/openthreeds/threeds/api"
)

// TestO4WhatDidNotCompleteSaysNothingOfItsAnswer: an authentication that was cancelled, failed or expired after the
// issuer said Y has no transStatus, nothing to authorise with, and no shift of liability.
func TestO4WhatDidNotCompleteSaysNothingOfItsAnswer(t *testing.T) {
	answer := `{"transStatus":"Y","eci":"05",` + value + `}`
	if o := Of(endingOf(t, api.StatusCompleted, "visa", payment, answer, "")); o.Liability.Shifts != api.ShiftsYes || o.Authorisation == nil {
		t.Fatalf("completed: %+v, want one that shifts the liability", o)
	}
	for _, status := range []api.Status{api.StatusCancelled, api.StatusFailed, api.StatusExpired} {
		if o := Of(endingOf(t, status, "visa", payment, answer, "")); o.TransStatus != "" || o.Authorisation != nil ||
			o.Liability.Shifts == api.ShiftsYes || o.Next.Action == api.ActionAuthorise {
			t.Errorf("%s: transStatus %v, authorisation %v, liability %s, next %s; want nothing of the answer",
				status, o.TransStatus, o.Authorisation, o.Liability.Shifts, o.Next.Action)
		}
	}
}

// TestO4RowsOfDataOnlyAreDataOnly: each row of the category that shares data only has that result,
// whatever its transStatus.
func TestO4RowsOfDataOnlyAreDataOnly(t *testing.T) {
	n := 0
	for _, r := range Rows(today) {
		if r.Category != dataOnlyCategory {
			continue
		}
		if n++; r.Result != api.ResultDataOnly {
			t.Errorf("%+v: result %s, want %s", r, r.Result, api.ResultDataOnly)
		}
	}
	if n == 0 {
		t.Error("there is no row of the category")
	}
}

package rangequery

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/peers/directory"
)

// A Status says how things stand with the card ranges of a scheme. Unknown times are zero.
type Status struct {
	Scheme     string    `json:"scheme"`
	Generation int64     `json:"generation"` // 0: none
	Serial     string    `json:"serial"`
	Ranges     int       `json:"ranges"`
	Versions   []string  `json:"versions"` // configured
	PRes       string    `json:"version"`  // of the PRes that the generation came of
	Loaded     time.Time `json:"loaded,omitzero"`
	Age        int64     `json:"age"`  // seconds
	Mark       string    `json:"mark"` // "", warning, error
	Fault      string    `json:"fault"`
	FaultAt    time.Time `json:"faultAt,omitzero"`
	Held       int64     `json:"held"` // 0: none
	HeldRanges int       `json:"heldRanges"`
	Accepted   bool      `json:"accepted"`   // what is held, and no node has seen it yet
	Refreshing bool      `json:"refreshing"` // that the directory server is to be asked, until a node has seen it
	Asked      time.Time `json:"asked,omitzero"`
	Next       time.Time `json:"next,omitzero"`
}

// NewStatus returns the status of a scheme from what is known of its refreshing and what an operator has asked for.
// versions are the protocol versions that are configured.
func NewStatus(scheme string, versions []string, s directory.RefreshStatus, asked directory.RefreshRequest,
	now time.Time) Status {
	r := Status{
		Scheme: scheme, Generation: s.Generation, Serial: terminal.OneLine(s.Serial), Ranges: s.Ranges,
		Versions: versions, PRes: s.Version, Loaded: s.Loaded, Fault: terminal.OneLine(s.Fault), FaultAt: s.FaultAt,
		Held: s.Held, HeldRanges: s.HeldRanges, Asked: s.Asked, Next: s.Next,
		Accepted: asked.Accepts(s), Refreshing: asked.Refresh,
	}
	if s.Loaded.IsZero() {
		r.Mark = "error"
		return r
	}
	age := now.Sub(s.Loaded)
	r.Mark, r.Age = directory.Severity(age), int64(max(age, 0)/time.Second)
	return r
}

// WriteStatuses writes a table of schemes, and below it what an operator may do about what is held back. again is the
// flag that names the configuration in the commands which it proposes.
func WriteStatuses(stdout io.Writer, all []Status, now time.Time, again string) error {
	w := terminal.NewTable(stdout, "SCHEME\tGENERATION\tSERIAL\tRANGES\tVERSIONS\tPRES\tAGE\tNEXT\tHELD\tLAST FAULT")
	for _, r := range all {
		generation, ranges, age, held := "none", "0", "never", "-"
		if r.Generation > 0 {
			generation, ranges = fmt.Sprint(r.Generation), fmt.Sprint(r.Ranges)
		}
		if !r.Loaded.IsZero() {
			age = terminal.Span(now.Sub(r.Loaded))
		}
		if r.Mark != "" {
			age += " (" + r.Mark + ")"
		}
		if r.Held > 0 {
			held = terminal.Count(r.HeldRanges, "range")
		}
		fault := "-"
		if r.Fault != "" {
			fault = terminal.Span(now.Sub(r.FaultAt)) + " ago: " + r.Fault
		}
		fmt.Fprintln(w, strings.Join([]string{r.Scheme, generation, cmp.Or(r.Serial, "-"), ranges,
			strings.Join(r.Versions, ","), cmp.Or(r.PRes, "-"), age, describeDue(r.Next, now), held, fault}, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range all {
		if _, err := io.WriteString(stdout, r.describePending(again)); err != nil {
			return err
		}
	}
	return nil
}

// describePending says what an operator may still do, and what the operator did that no node has seen yet.
func (r *Status) describePending(again string) string {
	var b strings.Builder
	if r.Held > 0 {
		fmt.Fprintf(&b, "\n%s: %s held back, %d in use.\n    compare: threeds ranges diff %d held --scheme %s%s\n",
			r.Scheme, terminal.Count(r.HeldRanges, "range"), r.Ranges, r.Generation, r.Scheme, again)
	}
	const waits = "no node has seen it yet; one that serves does within seconds"
	switch {
	case r.Accepted:
		fmt.Fprintf(&b, "    accepted: %s\n", waits)
	case r.Held > 0:
		fmt.Fprintf(&b, "    use it:  threeds ranges accept %s%s\n", r.Scheme, again)
	}
	if r.Refreshing {
		fmt.Fprintf(&b, "\n%s: to be asked again, %s.\n", r.Scheme, waits)
	}
	return b.String()
}

// describeDue says when something is to happen.
func describeDue(next, now time.Time) string {
	const late = 5 * time.Minute
	switch wait := next.Sub(now); {
	case next.IsZero():
		return "-"
	case wait > 0:
		return "in " + terminal.Span(wait)
	case wait > -late:
		return "now"
	default:
		return "overdue " + terminal.Span(-wait)
	}
}

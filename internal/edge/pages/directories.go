package pages

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/lanes"
)

// A directoryRow is a directory as the pages show it.
type directoryRow struct {
	admin.Directory
	Newest string // of the versions
	Pill   pill   // of the breaker
	Spark  *spark // nil: the journal has nothing
	Age    string // of the card ranges
	Days   string // until the certificate ends
	IsSoon bool   // that end
	Faults []string
}

// directoryRows returns directories as the pages show them.
func directoryRows(all []admin.Directory, now time.Time) (rows []directoryRow) {
	for _, d := range all {
		row := directoryRow{
			Directory: d, Pill: breakerPill(&d.Breaker), Age: "none yet", Faults: slices.Sorted(maps.Values(d.Problems)),
		}
		if n := len(d.Versions); n > 0 {
			row.Newest = d.Versions[n-1]
		}
		if d.Day != nil {
			row.Spark = newSpark(d.Day.Hours)
		}
		if d.Ranges.Loaded != nil {
			row.Age = lanes.Span(d.Ranges.AgeSeconds * 1000)
		}
		if d.Certificate != nil {
			row.Days, row.IsSoon = daysLeft(d.Certificate.Expires, now)
		}
		rows = append(rows, row)
	}
	return rows
}

// breakerPill returns the state of a breaker in words.
func breakerPill(b *admin.Breaker) pill {
	switch b.State {
	case admin.BreakerOpen:
		return pill{"bad", "cross", "Holds back"}
	case admin.BreakerOff:
		return pill{"calm", "dash", "Off"}
	}
	if b.Since != nil {
		return pill{"warn", "warning", "Fails"}
	}
	return pill{"good", "check", "Lets through"}
}

// certificateSoon is how long before its end a certificate is marked.
const certificateSoon = 30 * 24 * time.Hour

// daysLeft says how long a certificate is good, and whether that is not long.
func daysLeft(end, now time.Time) (text string, isSoon bool) {
	left := end.Sub(now)
	days := int(left / (24 * time.Hour))
	switch {
	case left <= 0:
		return "expired", true
	case days == 1:
		return "1 day", true
	}
	return fmt.Sprintf("%d days", days), left < certificateSoon
}

// A spark is a small drawing of the latency in each hour.
type spark struct{ Line, Area string }

// Measures of a spark, in its own units.
const (
	sparkWidth, sparkHeight = 132.0, 28.0
	sparkTop                = 4.0
)

// newSpark draws the latency of each hour; nil if there is none. An hour without one has that of the hour before.
func newSpark(hours []admin.HourCount) *spark {
	highest, last := 0.0, 0.0
	for _, h := range hours {
		highest = max(highest, h.P95MS)
		if last == 0 {
			last = h.P95MS
		}
	}
	if highest == 0 || len(hours) < 2 {
		return nil
	}
	var points []string
	for i, h := range hours {
		if h.P95MS > 0 {
			last = h.P95MS
		}
		x, y := float64(i)*sparkWidth/float64(len(hours)-1), sparkHeight-last/highest*(sparkHeight-sparkTop)
		points = append(points, coordinate(x)+","+coordinate(y))
	}
	return &spark{strings.Join(points, " "), "M0 28L" + strings.Join(points, "L") + "L132 28z"}
}

// A directoriesView is the data of the page of directories.
type directoriesView struct{ Directories []directoryRow }

func directoriesPage(h *Handler, v *visit) (result, error) {
	start := time.Now()
	all, err := h.Admin.ListDirectories(v.Context(), v.session.Actor)
	if err != nil {
		return result{}, err
	}
	view := directoriesView{directoryRows(all, h.Now())}
	return result{template: "directories", title: "Directories", data: view, db: time.Since(start)}, nil
}

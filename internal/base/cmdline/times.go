package cmdline

import (
	"errors"
	"flag"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TimeFlag adds a flag that is a time of RFC 3339, or a span back from now.
func (cmd *Invocation) TimeFlag(name, usage string, into *time.Time) {
	cmd.Var((*timeValue)(into), name, usage+", RFC 3339 or a span back such as 24h or 30d")
}

// CheckSpan refuses a span of time that ends before it begins.
func (cmd *Invocation) CheckSpan(from, to time.Time) error {
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return Usagef("%s: --to: want a time that is not before --from", cmd.Name())
	}
	return nil
}

// A timeValue is the value of a TimeFlag.
type timeValue time.Time

func (v *timeValue) String() string {
	if v == nil || time.Time(*v).IsZero() {
		return ""
	}
	return time.Time(*v).UTC().Format(time.RFC3339)
}

func (v *timeValue) Set(text string) error {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		*v = timeValue(at)
		return nil
	}
	span, err := parseSpan(text)
	if err != nil || span < 0 {
		return errors.New("want a time such as 2026-11-26T14:00:00Z, or a span back such as 24h or 30d")
	}
	*v = timeValue(time.Now().Add(-span))
	return nil
}

// maxDays is the longest span in days that fits into a duration.
const maxDays = 100_000

// parseSpan reads a duration as Go writes it, or a whole number of days such as 30d.
func parseSpan(text string) (time.Duration, error) {
	days, isDays := strings.CutSuffix(text, "d")
	if !isDays {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > maxDays {
		return 0, errors.New("not a number of days")
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

// Given returns the flags that were given and their texts, except some.
func (cmd *Invocation) Given(but ...string) map[string]string {
	given := map[string]string{}
	cmd.Visit(func(f *flag.Flag) {
		if !slices.Contains(but, f.Name) {
			given[f.Name] = f.Value.String()
		}
	})
	return given
}

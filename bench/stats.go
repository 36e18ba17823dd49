package main

import (
	"cmp"
	"slices"
	"time"
)

// percentile returns the value below which the share p of the values lies.
func percentile[T cmp.Ordered](values []T, p float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

func median[T cmp.Ordered](values []T) T { return percentile(values, 0.5) }

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

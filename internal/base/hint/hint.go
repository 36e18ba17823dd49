// Package hint says which word was perhaps meant. Use [For].
package hint

import (
	"fmt"
	"strings"
)

// leastPrefix is how many letters of a word count as its beginning.
const leastPrefix = 3

// For is what to add to a complaint about a word that is not known: the
// nearest word that is, or the first that begins with it, or nothing when there is none.
func For(typed string, known ...string) string {
	best, least := "", 3 // with more than two slips it is another word
	for _, word := range known {
		if d := editDistance(strings.ToLower(typed), strings.ToLower(word)); d < least && 2*d <= len(word) {
			best, least = word, d
		}
	}
	for _, word := range known {
		if best == "" && len(typed) >= leastPrefix && strings.HasPrefix(strings.ToLower(word), strings.ToLower(typed)) {
			best = word
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// editDistance counts the slips between two words: letters added, left out or
// changed, and neighbours swapped.
func editDistance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := above[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}

package cmdline

import (
	"strings"
	"testing"
)

// TestInputIsReadUpToItsLimit: of a longer one the rest is not read.
func TestInputIsReadUpToItsLimit(t *testing.T) {
	const limit = 1000
	for _, size := range []int{limit - 1, limit, limit + 1} {
		data, err := ReadInput("-", strings.NewReader(strings.Repeat("x", size)), limit)
		if len(data) != min(size, limit) || err != nil {
			t.Errorf("%d bytes: %d read, %v", size, len(data), err)
		}
	}
}

package listen_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/listen"
)

// TestPageSaysTheTimeLimits: the table for operators has the time limits of the listeners.
func TestPageSaysTheTimeLimits(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operating/overload.md")
	if err != nil {
		t.Fatal(err)
	}
	for row, limit := range map[string]time.Duration{
		"a TLS handshake": listen.RequestTime, "the header of a request": listen.RequestTime,
		"the whole request": listen.RequestTime, "the next handshake or request": listen.IdleTime,
	} {
		_, line, _ := strings.Cut(string(page), "\n| "+row)
		line, _, _ = strings.Cut(line, "\n")
		if want := fmt.Sprintf(" | %.0f s | %[1]v s |", limit.Seconds()); !strings.HasSuffix(line, want) {
			t.Errorf("docs/operating/overload.md, row %q: %q, want it to end with %q", row, line, want)
		}
	}
}

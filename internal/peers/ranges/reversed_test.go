package ranges

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// TestCase17RangeWithEndBeforeStartVersion: a range that no version fits is left out and counted, so
// that its cards are not enrolled. The other ranges of the PRes stay.
func TestCase17RangeWithEndBeforeStartVersion(t *testing.T) {
	entry := func(bank int, acsStart, acsEnd, more string) string {
		return fmt.Sprintf(`{"startRange":"34%02d000000000000","endRange":"34%02d999999999999","acsStartProtocolVersion":%q,"acsEndProtocolVersion":%q%s}`,
			bank, bank, acsStart, acsEnd, more)
	}
	bad := []string{
		entry(1, "2.2.0", "2.1.0", ""),
		entry(2, "2.10.0", "2.9.0", ""),
		entry(3, "2.3.1", "2.2.0", `,"acsInfoInd":["01"]`),
		entry(4, "2.1.0", "2.2.0", `,"dsStartProtocolVersion":"2.2.0","dsEndProtocolVersion":"2.1.0"`),
		entry(5, "2.2.0", "2.1.0", ""), // as the first, so that its form is known
	}
	good := []string{
		entry(11, "2.1.0", "2.2.0", ""), entry(12, "2.2.0", "2.2.0", ""), entry(13, "2.9.0", "2.10.0", ""),
		entry(14, "2.1.0", "2.2.0", `,"dsStartProtocolVersion":"2.2.0","dsEndProtocolVersion":"2.2.0"`),
	}
	for _, window := range []int{64 << 10, 16} {
		got := byStream(strings.NewReader(pres220(strings.Join(append(append([]string{}, bad...), good...), ","))), message.Context{}, window)
		if got.malformed || got.err != nil || got.problems != nil {
			t.Fatalf("%v %v", got.err, got.problems)
		}
		if want := (Notes{Skipped: len(bad)}); got.notes != want {
			t.Errorf("window %d: notes %+v, want %+v", window, got.notes, want)
		}
		for i := range bad {
			if pan := fmt.Sprintf("34%02d000000000009", i+1); got.table.Lookup(pan) != nil {
				t.Errorf("a card of range %d is enrolled", i+1)
			}
		}
		for i := range good {
			if pan := fmt.Sprintf("34%02d000000000009", i+11); got.table.Lookup(pan) == nil {
				t.Errorf("a card of range %d is not enrolled", i+11)
			}
		}
	}
}

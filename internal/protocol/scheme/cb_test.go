package scheme

import (
	"os"
	"strings"
	"testing"
)

// TestA2RulesFileOfCB: the example of a rules file for a scheme is good as it is and with each line that an operator
// may uncomment. The public lines stay beside it.
func TestA2RulesFileOfCB(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../deploy/cb.rules")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, kind := range []string{"", "require", "format", "code"} {
		changed := strings.Replace(text, "\n# "+kind+" ", "\n"+kind+" ", 1)
		if kind == "" {
			changed = text
		} else if changed == text {
			t.Errorf("no line to uncomment for %s", kind)
		}
		own, err := ReadOwn("cb", changed)
		if err != nil {
			t.Errorf("with %q: %v", kind, err)
			continue
		}
		sheet := NewSheet("cb", own)
		if got := sheet.Meaning("eci", "02"); got != "authenticated: Y, on a card of Mastercard" {
			t.Errorf("eci 02 means %q", got)
		}
		if got := sheet.Meaning("transStatusReason", "90"); (got != "") != (kind == "code") {
			t.Errorf("with %q the reason 90 means %q", kind, got)
		}
	}
}

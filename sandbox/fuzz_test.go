package sandbox

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/sandbox/internal/cards"
)

// FuzzDecode reads what browsers bring. Whatever is read was meant: written
// again it is the same but for padding, line ends and the alphabet.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"", "=", "YQ", "YQ==", "YQ=", "Y", "YR", "-_-_", "+/+/", "eyJhIjoxfQ", "YW\r\nJj"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := decode(text)
		if err != nil {
			return
		}
		want := strings.TrimRight(strings.NewReplacer("\r", "", "\n", "", "+", "-", "/", "_").Replace(text), "=")
		if got := base64.RawURLEncoding.EncodeToString(raw); got != want {
			t.Errorf("decode(%q) = %q", text, raw)
		}
	})
}

// FuzzCards reads card tables. What is read answers for every card.
func FuzzCards(f *testing.F) {
	f.Add(cardsText)
	f.Add("table *\n*03 answer Y; method none; versions 2.1.0")
	f.Add("table 9* *1\n* last eight <= 5; answer N reason=01")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := cards.Read(text)
		if err != nil {
			return
		}
		for _, pan := range []string{"4000000000000003", "9000100111111111", "3400000000000", "6200000000000000103"} {
			found := table.Find(pan)
			if done, ok := found.Outcome(pan, false); ok && (done.Kind == "" || !found.Listed()) {
				t.Errorf("%s: %+v of %+v", pan, done, found)
			}
		}
	})
}

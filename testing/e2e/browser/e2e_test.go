package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestCardGrid plays every combination of the card table: version × 3DS Method
// × outcome × challenge, in a browser payment (docs/test-cards.md).
func TestCardGrid(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	all := []string{"2.1.0", "2.2.0", "2.3.1"}
	has := map[byte][]string{'0': all, '1': all[:1], '2': all[1:2], '3': all[2:]}
	n := 0
	for a, versions := range has {
		for _, b := range "01" {
			for _, cd := range []string{"03", "13", "23", "33", "43", "53", "70", "71", "72", "83"} {
				for _, v := range all {
					pan := fmt.Sprintf("400000000000%c%c%s", a, b, cd)
					t.Run(pan[12:]+"/"+v, func(t *testing.T) {
						w := &rig.World{ReadyFile: w.ReadyFile, T: t}
						w.Card(pan, v, strings.Contains(strings.Join(versions, " "), v), b == '0', cd)
					})
					n++
				}
			}
		}
	}
	t.Logf("%d cards × versions", n)
}

// TestCoBadged pays with a card that two schemes hold, by each of them.
func TestCoBadged(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	const pan = "4571000000002103" // 2.2.0 alone, without a 3DS Method
	for ds, want := range map[string]string{"": "visa", "visa": "visa", "sbn": "sbn"} {
		code, crd := w.Post("/preauth", rig.Object{"acctNumber": pan, "ds": ds})
		if code != http.StatusOK || crd.Text("scheme") != want || crd.Text("acsEndProtocolVersion") != "2.2.0" || crd["threeDSMethodURL"] != nil {
			t.Fatalf("ds %q: %d %v, want %s", ds, code, crd, want)
		}
		id := crd.Text("threeDSServerTransID")
		if code, ares := w.Post("/auth", rig.BrowserRequest("2.2.0", pan, id, "U")); code != http.StatusOK || ares.Text("transStatus") != "Y" {
			t.Errorf("ds %q: %d %v", ds, code, ares)
		}
		var seen []struct{ To string }
		response, err := http.Get(w.Control + "/exchanges?transID=" + id)
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(response.Body).Decode(&seen)
		response.Body.Close()
		if err != nil || len(seen) == 0 || seen[0].To != "ds "+want {
			t.Errorf("ds %q: the AReq went to %v, %v", ds, seen, err)
		}
	}
	code, got := w.Post("/preauth", rig.Object{"acctNumber": pan, "ds": "mastercard"})
	if code != http.StatusBadRequest || got.Text("errorCode") != "305" {
		t.Errorf("ds mastercard: %d %v", code, got)
	}
}

package journal

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestJ4UnderASlowDirectoryAClaimIsNotWritten: while a directory takes more than a second to answer, the journal writes
// five batches of other requests, each of which collects for half a second. None has the claim that waits. The answer is
// written in its place, and has its steps once.
func TestJ4UnderASlowDirectoryAClaimIsNotWritten(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	wire := rig.NewWire(t, ca)
	s := rig.StartSite(t, ca, wire)
	request, leave, done := s.HoldAuth(wire)
	id := request.Text("threeDSServerTransID")
	rig.Must(t, rig.WithJournal(t.Context(), s.ConfigFile, func(st journal.Store, _ *journal.Keys) error {
		kinds := func() (all []string) {
			rig.Must(t, st.Export(t.Context(), journal.Query{}, func(e journal.ExportedEntry) error {
				var entry journal.Entry
				rig.Must(t, json.Unmarshal(e.Content, &entry))
				if entry.Record.ID == id {
					all = append(all, string(entry.Kind))
				}
				return nil
			}))
			return all
		}
		isWritten := func(id string) func() bool {
			return func() bool {
				_, err := st.Show(t.Context(), id)
				return err == nil
			}
		}
		for range 5 {
			res, _ := s.Call(http.MethodPost, "/preauth", s.APIKey, rig.Object{"acctNumber": "12"})
			waittest.Until(t, "a refused request in the journal", isWritten(res.Header.Get("X-Request-Id")))
		}
		if all := kinds(); slices.Contains(all, string(journal.Claimed)) {
			t.Errorf("while the directory takes its time there are entries of %q", all)
		}
		close(leave)
		if code := <-done; code != http.StatusOK {
			t.Errorf("/auth: %d", code)
		}
		waittest.Until(t, "the answer in the journal", func() bool { return slices.Contains(kinds(), string(journal.Answered)) })
		if all := kinds(); slices.Contains(all, string(journal.Claimed)) {
			t.Errorf("after the answer there are entries of %q", all)
		}
		d, err := st.Show(t.Context(), id)
		var steps []string
		for _, step := range d.Steps {
			steps = append(steps, step.Step)
		}
		if text := strings.Join(steps, " "); err != nil || strings.Count(text, "areq") != 1 || strings.Count(text, "ares") != 1 {
			t.Errorf("steps: %s, %v", text, err)
		}
		return nil
	}))
}

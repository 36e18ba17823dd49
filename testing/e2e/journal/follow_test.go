package journal

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestJ9FollowPrintsEntriesAndThenTheirSeal: "threeds journal follow" prints what a server has written, and goes on
// behind the seal that it is given.
func TestJ9FollowPrintsEntriesAndThenTheirSeal(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: "journal: {keys: journal-keys.json}"})
	s.WantAuthentication()
	rig.Must(t, rig.WithJournal(t.Context(), s.ConfigFile, func(st journal.Store, _ *journal.Keys) error {
		waittest.Until(t, "the authentication in the journal", func() bool {
			page, err := st.Search(t.Context(), journal.Query{})
			return err == nil && len(page.Records) == 1
		})
		_, err := st.Head(t.Context(), time.Now().Add(2*time.Minute), nil) // as the server does within a minute
		return err
	}))
	follow := func(from string) (code int, printed, said string) {
		var out, errs bytes.Buffer
		code = rig.Run(t.Context(), []string{"journal", "follow", "--once", "--from", from, "--config", s.ConfigFile}, nil, &out, &errs)
		return code, out.String(), errs.String()
	}
	code, printed, said := follow("0")
	lines := strings.Split(strings.TrimSuffix(printed, "\n"), "\n")
	var last struct {
		Type string
		Seq  int
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || code != 0 {
		t.Fatalf("%d, %v: %s%s", code, err, printed, said)
	}
	if !strings.Contains(printed, `"type":"record"`) || !strings.Contains(printed, `"messageType":"AReq"`) || last.Type != "seal" {
		t.Errorf("printed\n%s", printed)
	}
	if code, printed, said := follow(strconv.Itoa(last.Seq)); code != 0 || printed != "" {
		t.Errorf("behind the last seal: %d\n%s%s", code, printed, said)
	}
	if code, _, said := follow(strconv.Itoa(last.Seq + 1000)); code != 1 || !strings.Contains(said, "is this another journal?") {
		t.Errorf("behind a seal that is not there: %d %s", code, said)
	}
	if code, _, said := follow("-1"); code != 2 || !strings.Contains(said, "--from: want the number of a seal") {
		t.Errorf("before all seals: %d %s", code, said)
	}
}

package lifecycle

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// reloads returns what the audit trail says of reloads of a configuration, the newest first.
func reloads(s *rig.Site) (all []operator.Entry) {
	s.T.Helper()
	var out, errs strings.Builder
	args := []string{"audit", "search", "--action", "config.reload", "--json", "--config", s.ConfigFile}
	if code := rig.Run(s.T.Context(), args, strings.NewReader(""), &out, &errs); code != 0 {
		s.T.Fatalf("audit search: %d %s", code, errs.String())
	}
	rig.Must(s.T, json.Unmarshal([]byte(out.String()), &all))
	return all
}

// TestK10ReloadsAreInTheAuditTrail: each configuration that a node has taken up while it serves has a line, with the
// node, what made it look, and the hashes of before and after, which /readyz has, too. One that was refused has none.
func TestK10ReloadsAreInTheAuditTrail(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	before := s.Identity().Config
	if all := reloads(s); len(all) != 0 {
		t.Fatalf("after the start: %+v", all)
	}
	text := s.ConfigText()
	rig.WriteFile(t, s.ConfigFile, []byte(text+"nonsense: true\n"))
	waittest.Until(t, "the refusal", func() bool { return s.Metric(rig.ReloadRefused) == 1 })
	rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(text, "requestor_id: ServerID", "requestor_id: AnotherID", 1)))
	var all []operator.Entry
	waittest.Until(t, "the line of the reload", func() bool {
		all = reloads(s)
		return len(all) > 0
	})
	after := s.Identity().Config
	host, err := os.Hostname()
	rig.Must(t, err)
	hash := func(of any) any { m, _ := of.(map[string]any); return m["config"] }
	if e := all[0]; len(all) != 1 || e.Who != "node:"+host || e.From != "changed files" || e.Object != "threeds.yaml" || before == after ||
		hash(e.Before) != before || hash(e.After) != after {
		t.Errorf("%+v, want one of node:%s, from %s to %s", all, host, before, after)
	}
}

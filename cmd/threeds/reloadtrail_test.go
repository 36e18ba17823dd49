package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/operator"
)

// reloads returns what the audit trail says of reloads of a configuration, the newest first.
func (s *site) reloads() (all []operator.Entry) {
	s.t.Helper()
	var out, errs strings.Builder
	args := []string{"audit", "search", "--action", "config.reload", "--json", "--config", s.config}
	if code := run(s.t.Context(), args, strings.NewReader(""), &out, &errs); code != 0 {
		s.t.Fatalf("audit search: %d %s", code, errs.String())
	}
	must(s.t, json.Unmarshal([]byte(out.String()), &all))
	return all
}

// TestK10ReloadsAreInTheAuditTrail: each configuration that a node has taken up while it serves has a line, with the node,
// what made it look, and the hashes of before and after, which /readyz has, too. One that was refused has none.
func TestK10ReloadsAreInTheAuditTrail(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	before := s.identity().Config
	if all := s.reloads(); len(all) != 0 {
		t.Fatalf("after the start: %+v", all)
	}
	text := s.text()
	write(t, s.config, []byte(text+"nonsense: true\n"))
	waitFor(t, "the refusal", func() bool { return s.metric(refused) == 1 })
	write(t, s.config, []byte(strings.Replace(text, "requestor_id: ServerID", "requestor_id: AnotherID", 1)))
	var all []operator.Entry
	waitFor(t, "the line of the reload", func() bool {
		all = s.reloads()
		return len(all) > 0
	})
	after := s.identity().Config
	host, err := os.Hostname()
	must(t, err)
	hash := func(of any) any { m, _ := of.(map[string]any); return m["config"] }
	if e := all[0]; len(all) != 1 || e.Who != "node:"+host || e.From != "changed files" || e.Object != "threeds.yaml" || before == after ||
		hash(e.Before) != before || hash(e.After) != after {
		t.Errorf("%+v, want one of node:%s, from %s to %s", all, host, before, after)
	}
}

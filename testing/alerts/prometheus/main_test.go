package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// TestTimesOfAnExpressionAreDivided, and nothing else of it.
func TestTimesOfAnExpressionAreDivided(t *testing.T) {
	for expr, want := range map[string]string{
		`rate(a{b="5m"}[5m]) > 5`:                    `rate(a{b="5m"}[20s]) > 5`,
		`a unless b offset 15m`:                      `a unless b offset 1m`,
		`max_over_time(rate(a[90s])[1h:30s])`:        `max_over_time(rate(a[6s])[4m:2s])`,
		`avg_over_time(job:a:rate5m[3d]) > 6 * 3600`: `avg_over_time(job:a:rate5m[4h48m]) > 6 * 3600`,
	} {
		if got, err := shorten(parser.NewParser(parser.Options{}), expr, 15); err != nil || got != want {
			t.Errorf("%s becomes %s, %v, want %s", expr, got, err, want)
		}
	}
}

// TestRulesStayRules: what is printed can be read again, and a rule that cannot be read is refused.
func TestRulesStayRules(t *testing.T) {
	var first, second strings.Builder
	if err := run([]string{"15", "../../../deploy/prometheus/threeds.rules.yaml"}, &first); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(first.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"1", file}, &second); err != nil || first.String() != second.String() {
		t.Errorf("read again: %v\n%s\nbefore:\n%s", err, second.String(), first.String())
	}
	for _, text := range []string{"interval: 1s", "for: 2s", "[20s]"} {
		if !strings.Contains(first.String(), text) {
			t.Errorf("no rule has %s:\n%s", text, first.String())
		}
	}
	for _, args := range [][]string{{}, {"15"}, {"0", file}, {"x", file}, {"15", "no such file"}} {
		if err := run(args, &second); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

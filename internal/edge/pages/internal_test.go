package pages

import (
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/operate/ops"
)

// TestEveryActOfTheConsoleHasAPage: each act that the table gives to the console is that of a page,
// and no page has another.
func TestEveryActOfTheConsoleHasAPage(t *testing.T) {
	t.Parallel()
	var seen []string
	for _, rt := range fileRoutes() {
		seen = append(seen, rt.act)
	}
	for _, rt := range routes() {
		if len(rt.acts) == 0 {
			t.Errorf("%s is the page of no act", rt.pattern)
		}
		seen = append(seen, rt.acts...)
	}
	for _, name := range seen {
		if act := ops.Lookup(name); act == nil || !act.Has(ops.Console) {
			t.Errorf("a page is that of %q, which the table does not give to the console", name)
		}
	}
	for _, act := range ops.Table() {
		if act.Has(ops.Console) && !slices.Contains(seen, act.Name) {
			t.Errorf("%q has no page", act.Name)
		}
	}
}

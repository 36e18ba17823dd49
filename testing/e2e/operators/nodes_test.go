package operators

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestNodesAreListedWithWhereTheyDiffer: two nodes of one store say what they run with, and the command, the page and
// the overview of either say in what they differ. A node that ends in good order goes from the list, and the difference
// with it.
func TestNodesAreListedWithWhereTheyDiffer(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	one := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Console: withConsole})
	jo := visit(t, one, operator.User{Name: "jo", Role: operator.Viewer})
	var all []node
	waittest.Until(t, "the node", func() bool {
		all = jo.nodes()
		return len(all) == 1 && all[0].State == "ready"
	})
	first, id := all[0], one.Identity()
	if first.Config != id.Config || first.KeyFile != id.KeyFile.Current || first.Release != id.Build || first.Since.IsZero() ||
		first.Seen.Before(first.Since) || len(first.Problems) != 0 {
		t.Errorf("the node says %+v, /readyz %+v", first, id)
	}
	if page := jo.read("/nodes"); !strings.Contains(page, first.Name) || strings.Contains(page, "differ") {
		t.Errorf("the page of one node: %s", page)
	}

	beside := *one
	beside.ConfigFile = filepath.Join(filepath.Dir(one.ConfigFile), "other.yaml")
	rig.WriteFile(t, beside.ConfigFile, []byte(strings.Replace(one.ConfigText(), "wait: 1m", "wait: 1m, per_directory: 7", 1)))
	two := rig.StartSite(t, ca, one.Directory, rig.Plan{Beside: &beside})
	waittest.Until(t, "both nodes", func() bool {
		all = jo.nodes()
		return len(all) == 2 && all[0].State == "ready" && all[1].State == "ready"
	})
	if all[0].Config == all[1].Config || all[0].KeyFile != all[1].KeyFile || all[0].Release != all[1].Release {
		t.Errorf("the nodes are %+v", all)
	}
	const differ = "Nodes differ in their configuration: "
	if said := jo.command("nodes"); !strings.Contains(said, differ) || strings.Contains(said, "their release") || strings.Contains(said, "key file:") {
		t.Errorf("threeds nodes says %s", said)
	}
	also := visit(t, two, operator.User{Name: "also", Role: operator.Viewer})
	for _, v := range []*visitor{jo, also} {
		v.await("/nodes", differ, all[0].Name, all[1].Name)
		v.await("/", differ)
	}
	rig.Must(t, two.Stop())
	waittest.Until(t, "the end of the second node", func() bool {
		all = jo.nodes()
		return len(all) == 1
	})
	if said := jo.command("nodes"); all[0].Name != first.Name || strings.Contains(said, "differ") {
		t.Errorf("one node is left, and threeds nodes says %s", said)
	}
}

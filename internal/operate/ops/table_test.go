package ops_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
)

// TestManualNamesEveryAction: the table of actions in admin.md has each action with its object, and no other.
func TestManualNamesEveryAction(t *testing.T) {
	t.Parallel()
	objects := map[string]string{}
	for _, act := range ops.Table() {
		if was, isThere := objects[act.Action]; isThere && was != act.Object {
			t.Errorf("%s has the objects %q and %q", act.Action, was, act.Object)
		}
		objects[act.Action] = act.Object
	}
	manual, err := os.ReadFile("../../../docs/operating/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, action := range ops.Actions() {
		fmt.Fprintf(&want, "| `%s` | %s |\n", action, objects[action])
	}
	if _, table, _ := strings.Cut(string(manual), "| Action | Object |\n| --- | --- |\n"); !strings.HasPrefix(table,
		strings.ReplaceAll(want.String(), "|  |", "| |")+"\n") {
		t.Errorf("the table of actions in admin.md is not\n%s", &want)
	}
}

// TestRightsAreThoseOfTheRole: each role may do all that the one before it may, and people of one merchant only with
// their own data. A person without a role may do nothing.
func TestRightsAreThoseOfTheRole(t *testing.T) {
	t.Parallel()
	may := func(name string, role operator.Role, merchant string) bool {
		return ops.Find(name).May(&operator.Actor{Role: role, Merchant: merchant})
	}
	for _, test := range []struct {
		act, merchant string
		want          string // the roles that may, by their first letters
	}{
		{"key list", "", "voa"}, {"key create", "", "oa"}, {"key create", "Shop", "oa"}, {"merchant add", "", "oa"}, {"merchant add", "Shop", ""},
		{"token create", "", "a"}, {"token create", "Shop", ""},
	} {
		got := ""
		for _, role := range operator.Roles() {
			if may(test.act, role, test.merchant) {
				got += string(role[:1])
			}
		}
		if got != test.want || may(test.act, "", test.merchant) {
			t.Errorf("%s of %q may be done by %q, want %q", test.act, test.merchant, got, test.want)
		}
	}
}

// forGroups are the acts that people and tokens of a group of merchants may do. Each takes what it shows and changes
// through the scope of the actor. TestGroupSeesNothingOfAnother of the pages shows that it does.
var forGroups = []string{
	"api describe", "approval allow", "approval ask", "approval list", "approval refuse", "explain", "journal billing", "journal report",
	"journal search", "journal show", "key create", "key list", "key revoke", "merchant disable", "merchant enable", "merchant list",
	"merchant set", "webhook add", "webhook change", "webhook disable", "webhook enable", "webhook events", "webhook events EVENT",
	"webhook list", "webhook remove", "webhook resend", "webhook resend FROM", "webhook rotate", "webhook test",
}

// TestActsAreNotForGroupsUnlessTheySaySo: an act that nobody has thought about is refused to people of a group, whatever
// their role. So is one that is only for the people of one merchant.
func TestActsAreNotForGroupsUnlessTheySaySo(t *testing.T) {
	t.Parallel()
	for _, act := range ops.Table() {
		by := operator.Actor{Role: operator.Admin, Group: "acme"}
		if want := slices.Contains(forGroups, act.Name); act.May(&by) != want || (act.Check(&by) == nil) != want {
			t.Errorf("%s is done by people of a group: %t, want %t", act.Name, act.May(&by), want)
		}
	}
	for _, name := range forGroups {
		ops.Find(name)
	}
	unsaid := ops.Act{Name: "new", Least: operator.Viewer, IsForOwn: true}
	if unsaid.May(&operator.Actor{Role: operator.Admin, Group: "acme"}) || !unsaid.May(&operator.Actor{Role: operator.Viewer}) {
		t.Error("an act without a word about groups is done by people of one")
	}
}

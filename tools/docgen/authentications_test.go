package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
)

// TestO2PageHasEveryMember: the object that docs/authentications.md prints has the members that the description asks
// for, and no other. Those that are there only sometimes are named on the page.
func TestO2PageHasEveryMember(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs/authentications.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	var object map[string]any
	for _, m := range regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		if strings.Contains(m[1], `"outcome"`) {
			if err := json.Unmarshal([]byte(m[1]), &object); err != nil {
				t.Fatal(err)
			}
		}
	}
	doc := openAPIDocument(t)
	var compare func(path string, value, schema any)
	compare = func(path string, value, schema any) {
		node, _ := schema.(map[string]any)
		if ref, ok := node["$ref"].(string); ok {
			node, _ = resolve(doc, ref).(map[string]any)
		}
		if some, ok := node["oneOf"].([]any); ok { // a schema, or null
			compare(path, value, some[0])
			return
		}
		properties, _ := node["properties"].(map[string]any)
		members, isObject := value.(map[string]any)
		if len(properties) == 0 || !isObject {
			return
		}
		required := asStrings(node["required"])
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			_, printed := members[name]
			switch {
			case slices.Contains(required, name) != printed:
				t.Errorf("%s.%s: required %t, printed %t", path, name, !printed, printed)
			case !printed && !strings.Contains(page, "`"+name+"`"):
				t.Errorf("%s.%s is not named on the page", path, name)
			}
			compare(path+"."+name, members[name], properties[name])
		}
		for name := range members {
			if properties[name] == nil {
				t.Errorf("%s.%s is printed, and not described", path, name)
			}
		}
	}
	compare("object", object, map[string]any{"$ref": "#/components/schemas/Authentication"})
	for _, at := range []string{"Browser", "AppChallenge"} {
		node := resolve(doc, "#/components/schemas/"+at).(map[string]any)
		properties, _ := node["properties"].(map[string]any)
		if len(properties) == 0 {
			t.Errorf("%s has no members", at)
		}
		for name := range properties {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("%s.%s is not named on the page", at, name)
			}
		}
	}
}

// TestO2ClosedLists: status, result and action have the same values in the code, in the description and on the page.
func TestO2ClosedLists(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs/authentications.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc := openAPIDocument(t)
	enum := func(path string) []string {
		node, _ := resolve(doc, "#/components/schemas/"+path).(map[string]any)
		return slices.Sorted(slices.Values(asStrings(node["enum"])))
	}
	column := func(head string) (all []string) {
		_, table, _ := strings.Cut(string(data), head)
		table, _, _ = strings.Cut(table, "\n\n")
		for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` ").FindAllStringSubmatch(table, -1) {
			all = append(all, m[1])
		}
		slices.Sort(all)
		return all
	}
	var statuses, results, actions []string
	for from, to := range outcome.Arrows() {
		statuses = append(statuses, string(from))
		for _, s := range to {
			statuses = append(statuses, string(s))
		}
	}
	slices.Sort(statuses)
	statuses = slices.Compact(statuses)
	for _, r := range api.Results() {
		results = append(results, string(r))
	}
	slices.Sort(results)
	for _, a := range api.Actions() {
		if actions = append(actions, string(a)); !strings.Contains(string(data), "`"+string(a)+"`") {
			t.Errorf("the action %s is not on the page", a)
		}
	}
	slices.Sort(actions)
	for _, tt := range []struct {
		name string
		want []string
		got  [][]string
	}{
		{"status", statuses, [][]string{enum("Status"), column("| `status` | Meaning")}},
		{"result", results, [][]string{enum("Result"), column("| `result` | When")}},
		{"action", actions, [][]string{enum("Action")}},
	} {
		for i, got := range tt.got {
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%s, list %d: %v, want %v", tt.name, i, got, tt.want)
			}
		}
	}
}

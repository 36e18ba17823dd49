// Package node has the tests of the client for Node run with Node's own runner.
package node

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/threedstest"
)

// findNode returns the program node. Without it the test is skipped, but not in CI, where make test has installed it.
func findNode(t *testing.T) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("there is no node, which .ci/needs brings")
	}
	if err != nil {
		t.Skip("there is no node: the client for Node was not tested")
	}
	return node
}

// TestClientForNode runs the tests of the client, those against a server and the sandbox included. None may be skipped.
func TestClientForNode(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	server := threedstest.NewServer(t)
	cmd := exec.CommandContext(t.Context(), node, "--test")
	cmd.Env = append(os.Environ(), "THREEDS_URL="+server.URL, "THREEDS_KEY="+server.Key, "THREEDS_OTHER_KEY="+server.OtherKey)
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^. pass [1-9]`).Match(out) || !regexp.MustCompile(`(?m)^. skipped 0$`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPackageForNodeIsComplete: what package.json names is there, it depends on nothing, and each export has a type.
func TestPackageForNodeIsComplete(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Exports      map[string]map[string]string
		Files        []string
		Dependencies map[string]string
	}
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	named := append([]string{"README.md", "LICENSE"}, p.Files...)
	for _, file := range p.Exports["."] {
		named = append(named, file)
	}
	for _, file := range named {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	if len(p.Dependencies) > 0 || len(p.Exports["."]) != 2 {
		t.Errorf("%+v", p)
	}
	exports := func(file string) (names []string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^export (?:async )?(?:class|function) (\w+)`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return names
	}
	if code, types := exports("index.js"), exports("index.d.ts"); len(code) < 8 || strings.Join(code, " ") != strings.Join(types, " ") {
		t.Errorf("index.js exports %v, index.d.ts %v", code, types)
	}
}

package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryPackageIsTestedOnce: each package with tests is in the list of exactly one step of make test.
func TestEveryPackageIsTestedOnce(t *testing.T) {
	groups, err := groupPackages(t.Context(), "../..", "", raceListOf(t))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]group{}
	for g, packages := range groups {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.name == string(g) && s.hasTests && !s.isLong }) {
			t.Errorf("no step tests the group %s", g)
		}
		for _, p := range packages {
			if seen[p.path] != "" {
				t.Errorf("%s is in %s and in %s", p.path, seen[p.path], g)
			}
			seen[p.path] = g
		}
	}
	files := 0
	for _, module := range modules {
		found, err := filepath.Glob(filepath.Join("../..", module, "go.mod"))
		if err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v", module, found, err)
		}
	}
	err = filepath.WalkDir("../..", func(path string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() && (e.Name() == "testdata" || e.Name() == "artifacts" || e.Name() == ".git") {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, "_test.go") {
			files++
			dir, _ := filepath.Rel("../..", filepath.Dir(path))
			if seen[filepath.ToSlash(dir)] == "" && !slices.Contains(apart, filepath.ToSlash(dir)) {
				t.Errorf("%s is in no step", path)
			}
		}
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("%d files of tests, %v", files, err)
	}
}

// TestLongestPackagesAreThere: a package that has moved does not silently begin late.
func TestLongestPackagesAreThere(t *testing.T) {
	for _, path := range longest {
		if files, err := filepath.Glob(filepath.Join("../..", path, "*_test.go")); err != nil || len(files) == 0 {
			t.Errorf("%s has no tests: %v", path, err)
		}
	}
}

// TestShardsHaveEachPackageOnce: the shards of a step are all of its packages, each once.
func TestShardsHaveEachPackageOnce(t *testing.T) {
	all, err := groupPackages(t.Context(), "../..", "", raceListOf(t))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, shard := range []string{"1/3", "2/3", "3/3"} {
		part, err := groupPackages(t.Context(), "../..", shard, raceListOf(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range part[plain] {
			if !slices.Contains(all[plain], p) {
				t.Errorf("shard %s has %s", shard, p.path)
			}
		}
		n += len(part[plain])
	}
	if n != len(all[plain]) {
		t.Errorf("shards have %d packages, want %d", n, len(all[plain]))
	}
	for _, shard := range []string{"0/3", "4/3", "x"} {
		if _, err := groupPackages(t.Context(), "../..", shard, raceListOf(t)); err == nil {
			t.Errorf("-shard %s: no error", shard)
		}
	}
}

// raceListOf reads race.txt.
func raceListOf(t *testing.T) *raceList {
	t.Helper()
	list, err := readRaceList(raceText)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestRaceListHasReasons: a line of race.txt without a reason, or twice, is an error, and so is a test whose package is
// not tested under the detector.
func TestRaceListHasReasons(t *testing.T) {
	for _, text := range []string{"internal/engine/auth\n", "a b\na c\n", "a b\n- a TestLoop\n", "- a TestLoop a long loop\n"} {
		if _, err := readRaceList(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
	list, err := readRaceList(
		"# comment\n\ninternal/engine/auth  waits and answers meet\n- internal/engine/auth TestLoop a long loop\n- internal/engine/auth TestAllocs it counts\n")
	if err != nil || list.packages["internal/engine/auth"] != "waits and answers meet" || list.pattern() != "^(TestLoop|TestAllocs)$" {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestRaceListNamesTests: each test that race.txt leaves out is one of its package.
func TestRaceListNamesTests(t *testing.T) {
	for _, e := range raceListOf(t).without {
		files, err := filepath.Glob(filepath.Join("../..", e.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		isThere := slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+e.test+"(t *testing.T)")
		})
		if !isThere {
			t.Errorf("race.txt names %s in %s, which is not there", e.test, e.pkg)
		}
	}
}

// TestEventsAreCounted: the log says what failed, what ended in the middle of a test, what did not compile, and why a
// test was skipped; nothing of that is counted as passed.
func TestEventsAreCounted(t *testing.T) {
	const events = `{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"quiet words\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood","Elapsed":2.5}
{"Action":"run","Package":"m/a","Test":"TestBad"}
{"Action":"run","Package":"m/a","Test":"TestBad/one"}
{"Action":"output","Package":"m/a","Test":"TestBad/one","Output":"got 1, want 2\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad/one","Elapsed":0.1}
{"Action":"fail","Package":"m/a","Test":"TestBad","Elapsed":0.1}
{"Action":"run","Package":"m/a","Test":"TestSkipped"}
{"Action":"output","Package":"m/a","Test":"TestSkipped","Output":"NOT TESTED: no psql\n"}
{"Action":"skip","Package":"m/a","Test":"TestSkipped","Elapsed":0}
{"Action":"fail","Package":"m/a","Elapsed":3}
{"Action":"run","Package":"m/b","Test":"TestEndless"}
{"Action":"output","Package":"m/b","Test":"TestEndless","Output":"waits\n"}
{"Action":"output","Package":"m/b","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"m/b","Elapsed":600}
{"Action":"build-output","ImportPath":"m/c [m/c.test]","Output":"undefined: x\n"}
{"Action":"build-fail","ImportPath":"m/c [m/c.test]"}
{"Action":"fail","Package":"m/c","Elapsed":0}
no JSON
`
	var log strings.Builder
	results := readEvents(strings.NewReader(events), io.Discard, &log)
	var got []string
	for _, p := range results {
		got = append(got, p.path+" "+countOf([]result{p}, step{hasTests: true}))
	}
	want := []string{"m/a 1 packages, 1 tests passed, 2 FAILED, 1 skipped", "m/b 1 packages, 0 tests passed, 1 FAILED", "m/c 1 packages, 0 tests passed, 1 FAILED"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	for _, words := range []string{"got 1, want 2", "NOT TESTED", "panic: test timed out", "not finished: TestEndless of m/b\nwaits", "undefined: x", "no JSON"} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("the log lacks %q:\n%s", words, log.String())
		}
	}
	if strings.Contains(log.String(), "quiet words") {
		t.Errorf("the log has what a good test said:\n%s", log.String())
	}
}

// TestStepsAreChosen: without names the long steps are done only if wanted; a name that is no step is an error that
// lists them.
func TestStepsAreChosen(t *testing.T) {
	usual, err := choose(nil, false)
	if err != nil || slices.ContainsFunc(usual, func(s step) bool { return s.isLong }) {
		t.Errorf("%d steps, %v", len(usual), err)
	}
	if all, err := choose(nil, true); err != nil || slices.ContainsFunc(all, func(s step) bool { return s.isPart }) || len(all) < len(usual)+5 {
		t.Errorf("%d steps, %d without the long ones, %v", len(all), len(usual), err)
	}
	if some, err := choose([]string{"fuzz", "vet"}, false); err != nil || len(some) != 2 || some[0].name != "fuzz" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := choose([]string{"vett"}, false); err == nil || !strings.Contains(err.Error(), "vet, lint") {
		t.Errorf("error %v, want one that lists the steps", err)
	}
}

// TestModulesShareWhatIsCompiled: in the workspace of a run all modules are main modules, so the product is the same to
// each of them. No module needs another version of what the product needs, which would change the program.
func TestModulesShareWhatIsCompiled(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{root: root, artifacts: t.TempDir()}
	if err := r.writeWorkspace(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	list := r.command(t.Context(), &said, ".", "go", "list", "-m", "-f={{.Main}} {{.Dir}}")
	if err := list.Run(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	needed := map[string]string{}
	for _, dir := range modules {
		if want := "true " + filepath.Join(root, dir) + "\n"; !strings.Contains(said.String(), want) {
			t.Errorf("the workspace lacks %q, it has\n%s", want, said.String())
		}
		mod, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(string(mod), -1) {
			switch name, version := m[1], m[2]; {
			case dir == ".":
				needed[name] = version
			case needed[name] != "" && needed[name] != version:
				t.Errorf("%s/go.mod needs %s %s, and the product %s", dir, name, version, needed[name])
			}
		}
	}
	if modules[0] != "." || len(needed) < 20 {
		t.Errorf("the product needs %d modules, fewer than there must be", len(needed))
	}
}

package threeds_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// caseTests are the tests of cases whose names do not have the number of the case, because the row of
// another contract came first.
var caseTests = map[string][]string{
	"07": {"TestD88CompIndOfMethodThatNeverRan", "TestD88StrictIsAFlagAndTheShopIsAlways"},
	"12": {"TestP1RefusedResultIsTold"},
	"19": {"TestM10EncodedPAResIsDecodedOnce"},
	"22": {"TestD80OnePortHasEverything", "TestD80PublicURLIsAnOrigin", "TestT1BrowserInAnotherNetworkNamespace"},
}

// TestCasesHaveTests: each file of testdata/cases has a test with the number of the case in its name, or one in
// caseTests, and each such test has its file.
func TestCasesHaveTests(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/[0-9]*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	names := testNames(t)
	named := map[string]bool{}
	for name := range names {
		if m := regexp.MustCompile(`^TestCase([0-9]{2})[A-Z]`).FindStringSubmatch(name); m != nil {
			named[m[1]] = true
		}
	}
	var numbers []string
	for _, file := range files {
		number := filepath.Base(file)[:2]
		numbers = append(numbers, number)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var about struct{ Case, Source, Expect string }
		if err := json.Unmarshal(text, &about); err != nil || about.Case == "" || about.Source == "" || about.Expect == "" {
			t.Errorf("%s: %v, want case, source and expect", file, err)
		}
		for _, name := range caseTests[number] {
			if !names[name] {
				t.Errorf("%s: there is no %s", file, name)
			}
		}
		if !named[number] && len(caseTests[number]) == 0 {
			t.Errorf("%s: no test is named TestCase%s and words", file, number)
		}
	}
	for number := range named {
		if !slices.Contains(numbers, number) {
			t.Errorf("there is a TestCase%s, and no file testdata/cases/%s-*.json", number, number)
		}
	}
}

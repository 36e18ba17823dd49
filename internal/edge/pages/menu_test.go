package pages_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
)

// TestK1EachPageOfTheMenuIsWalked: a page that is added to the menu is added to the walks of these tests.
func TestK1EachPageOfTheMenuIsWalked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.AddNode()
	links := regexp.MustCompile(`<li><a href="([^"]+)"`).FindAllStringSubmatch(s.get("admin", "/").Body.String(), -1)
	manual, err := os.ReadFile("../../../docs/operating/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	var walked []string
	for _, at := range consoletest.Faces {
		path, _, _ := strings.Cut(at, "?")
		walked = append(walked, path)
	}
	for _, link := range links {
		if !slices.Contains(walked, link[1]) {
			t.Errorf("consoletest.Faces has no %s", link[1])
		}
		if !strings.Contains(string(manual), "`"+link[1]+"`") {
			t.Errorf("the table of pages in operators.md has no %s", link[1])
		}
	}
	if len(links) < 20 { // The menu is there twice, for wide screens and for phones.
		t.Errorf("the menu has %d links", len(links))
	}
}

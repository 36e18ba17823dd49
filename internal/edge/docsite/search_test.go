package docsite_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/docsite"
)

// TestSearchOfProgramsFindsThePage: for each question of a reader that the search in a browser is tested with, the
// search of programs has the page that answers among its first three hits, too.
func TestSearchOfProgramsFindsThePage(t *testing.T) {
	data, err := os.ReadFile("../../../testing/browser/docs/testdata/questions.txt")
	if err != nil {
		t.Fatal(err)
	}
	site, asked := newSite(t), 0
	for line := range strings.Lines(string(data)) {
		question, pages, isQuestion := strings.Cut(strings.TrimSpace(line), " => ")
		if !isQuestion {
			continue
		}
		asked++
		hits, err := site.Search(question)
		if err != nil {
			t.Fatal(err)
		}
		hits = hits[:min(3, len(hits))]
		isFound := slices.ContainsFunc(hits, func(h docsite.Hit) bool {
			page := strings.Replace(strings.TrimSuffix(h.Page, ".md")+".html", "README.html", "index.html", 1)
			return slices.Contains(strings.Split(pages, " or "), page) && h.Title != "" && h.Heading != ""
		})
		if !isFound {
			t.Errorf("%q finds %+v, want %s", question, hits, pages)
		}
	}
	if asked < 50 {
		t.Errorf("%d questions, want 50 at least", asked)
	}
	if hits, err := site.Search("zzyzx"); err != nil || len(hits) > 0 {
		t.Errorf("a word that no page has finds %+v, %v", hits, err)
	}
}

package threeds_test

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureIsShort: a newcomer reads the page in three minutes. What is longer belongs to a page in docs/design.
func TestArchitectureIsShort(t *testing.T) {
	if n := len(text(t, "ARCHITECTURE.md")); n > 12<<10 {
		t.Errorf("ARCHITECTURE.md has %d bytes, want %d at most", n, 12<<10)
	}
}

// TestDesignPagesAreListed: ARCHITECTURE.md leads to each page in docs/design, and the page begins with the question that
// it answers.
func TestDesignPagesAreListed(t *testing.T) {
	pages, err := filepath.Glob("docs/design/*.md")
	if err != nil {
		t.Fatal(err)
	}
	list := text(t, "ARCHITECTURE.md")
	for _, page := range pages {
		if !strings.Contains(list, "("+filepath.ToSlash(page)+")") {
			t.Errorf("ARCHITECTURE.md has no link to %s", page)
		}
		_, rest, _ := strings.Cut(text(t, page), "\n\n")
		if first, _, _ := strings.Cut(rest, "\n\n"); !strings.Contains(first, "?") {
			t.Errorf("%s begins with no question: %q", page, first)
		}
	}
	if len(pages) < 10 {
		t.Errorf("%d design pages, fewer than there must be", len(pages))
	}
}

// TestEveryPageIsLinked: readers find each page in docs/ by a link from another one.
func TestEveryPageIsLinked(t *testing.T) {
	var pages []string
	linked := map[string]bool{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "web/*/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	link := regexp.MustCompile(`\]\(([^)\s#]+\.md)`)
	for _, page := range pages {
		for _, m := range link.FindAllStringSubmatch(text(t, page), -1) {
			if to := path.Join(path.Dir(filepath.ToSlash(page)), m[1]); to != filepath.ToSlash(page) {
				linked[to] = true
			}
		}
	}
	for _, page := range pages {
		if strings.HasPrefix(page, "docs") && !linked[filepath.ToSlash(page)] {
			t.Errorf("no page has a link to %s", page)
		}
	}
}

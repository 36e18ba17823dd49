package threeds_test

import (
	"path/filepath"
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

package docs_test

import (
	"io/fs"
	"path"
	"testing"

	"github.com/openthreeds/threeds/docs"
)

// TestEachPageIsInOneArea: a reader finds each page in the navigation, once, and each entry there is a page.
func TestEachPageIsInOneArea(t *testing.T) {
	areas := map[string]int{}
	for _, area := range docs.Areas() {
		for _, section := range area.Sections {
			for _, page := range section.Pages {
				areas[page]++
			}
		}
	}
	pages := 0
	err := fs.WalkDir(docs.Files, ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) != ".md" {
			return err
		}
		pages++
		if areas[name] != 1 {
			t.Errorf("docs/%s is in %d areas: name it once in docs.Areas", name, areas[name])
		}
		delete(areas, name)
		return err
	})
	if err != nil || pages < 50 {
		t.Errorf("%d pages, %v", pages, err)
	}
	for name := range areas {
		t.Errorf("docs.Areas names docs/%s, which is not there", name)
	}
}

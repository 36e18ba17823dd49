package docs_test

import (
	"io/fs"
	"path"
	"testing"

	"github.com/openthreeds/threeds/docs"
)

// TestEachPageIsBehindOneDoor: a reader finds each page in the navigation, once, and each entry there is a page.
func TestEachPageIsBehindOneDoor(t *testing.T) {
	doors := map[string]int{}
	for _, door := range docs.Doors() {
		for _, section := range door.Sections {
			for _, page := range section.Pages {
				doors[page]++
			}
		}
	}
	pages := 0
	err := fs.WalkDir(docs.Files, ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) != ".md" {
			return err
		}
		pages++
		if doors[name] != 1 {
			t.Errorf("docs/%s is behind %d doors: name it once in docs.Doors", name, doors[name])
		}
		delete(doors, name)
		return err
	})
	if err != nil || pages < 50 {
		t.Errorf("%d pages, %v", pages, err)
	}
	for name := range doors {
		t.Errorf("docs.Doors names docs/%s, which is not there", name)
	}
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/message"
)

//go:generate go run . ../..

// generateFiles returns what is generated, by path below root, the directory of the module.
func generateFiles(root string) (map[string][]byte, error) {
	files := map[string][]byte{
		"docs/reference/README.md":  index(),
		"docs/reference/objects.md": objects(),
		"docs/reference/codes.md":   codes(),
		"docs/reference/cures.md":   curesPage(),

		"docs/reference/extensions.md": extensions(),
	}
	for _, t := range message.Types() {
		files["docs/reference/"+page(t)] = messagePage(t)
	}
	if err := addShapes(files, root, api.EventTypes()); err != nil {
		return nil, err
	}
	cards, err := cardPage(root)
	if err != nil {
		return nil, err
	}
	files["docs/test-cards.md"] = cards
	browser, err := browserPage(root)
	if err != nil {
		return nil, err
	}
	files["docs/browser.md"] = browser
	schemes, err := schemePage(root)
	if err != nil {
		return nil, err
	}
	files["docs/schemes.md"] = schemes
	outcomes, err := outcomePage(root)
	if err != nil {
		return nil, err
	}
	files["docs/authorisation.md"] = outcomes
	if files[finderName], err = finderPage(root); err != nil {
		return nil, err
	}
	return files, nil
}

// addShapes adds what is made of package api: the description of the API, the types for Node, and the tables of events.
// The description of the admin API is made of its table of operations.
func addShapes(files map[string][]byte, root string, events []api.EventRow) error {
	shapes, err := newShapeBook(root, events, apiRoots(events))
	if err != nil {
		return err
	}
	if files["docs/openapi.yaml"], err = openAPI(shapes); err != nil {
		return err
	}
	if files[nodeTypes], err = nodePage(root, events); err != nil {
		return err
	}
	if files[adminDescription], err = adminAPI(root, events); err != nil {
		return err
	}
	files[eventsPage], err = webhooksPage(root, events)
	return err
}

// writeFiles writes the files of [generateFiles].
func writeFiles(root string) error {
	files, err := generateFiles(root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, "docs/reference"), 0o755); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// between replaces what stands between two marks of a page, which stay.
func between(page []byte, start, end, text string) ([]byte, error) {
	i := bytes.Index(page, []byte(start))
	j := bytes.Index(page, []byte(end))
	if i < 0 || j < i {
		return nil, fmt.Errorf("want the marks %q and %q, in this order", start, end)
	}
	return []byte(string(page[:i]) + start + "\n" + text + string(page[j:])), nil
}

// A wording says in words what a line of a text for the sandbox says in short.
type wording struct {
	pattern *regexp.Regexp
	words   string // may refer to groups of the pattern
}

// inWords is what the first wording that fits makes of a statement.
func inWords(all []wording, statement string) (string, error) {
	for _, w := range all {
		if w.pattern.MatchString(statement) {
			return w.pattern.ReplaceAllString(statement, w.words), nil
		}
	}
	return "", fmt.Errorf("no words for the statement %q", statement)
}

// page is the file name of a message's page.
func page(t message.Type) string { return strings.ToLower(t.String()) + ".md" }

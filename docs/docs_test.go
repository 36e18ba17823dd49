package docs_test

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
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

var (
	codeBlock    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inlineCode   = regexp.MustCompile("`[^`]*`")
	target       = regexp.MustCompile(`\]\([^)]*\)`)
	comment      = regexp.MustCompile(`(?s)<!--.*?-->`)
	abbreviation = regexp.MustCompile(`\b(?:3RI|[A-Z][A-Za-z0-9-]*[A-Z][A-Za-z0-9]*)\b`)
	glossaryRow  = regexp.MustCompile(`(?m)^\| ([^|]+?) \| ([^|]+) \| (\[[^|]+) \|$`)
)

// prose returns the text of a page without code, targets of links and comments.
func prose(page string) string {
	page = inlineCode.ReplaceAllString(codeBlock.ReplaceAllString(page, ""), "")
	return comment.ReplaceAllString(target.ReplaceAllString(page, "]"), "")
}

// ordinary are abbreviations and names that are not of 3-D Secure: readers know them, or their page explains them.
const ordinary = `API APIs ASCII BDR CA CAs CSV CycloneDX DER DSS EMV ES256
	GB GET GiB GitHub GOMEMLIMIT HTML HTTP ID IDs IP IPv4 IPv6 ISO
	JavaScript JCB JSON KiB MAC MB MiB OpenAPI OpenID OTLP PCI PEM PHP PNG POST PostgreSQL RAM README RFC RSA SafeKey SECURITY
	SHA SIGHUP SIGSTOP SIGTERM SQLite SSC SVG TCP TLS UnionPay URI URL URLs UTC UTF UUID UUIDs XML YAML YugabyteDB
	CRReq ACSs Idempotency-Key TL VG VA VR VP CF SCHEME TIME
	OLD NEW TB`

// TestGlossaryHasTheAbbreviationsOfPages: an abbreviation or a name with capitals inside that two pages or more use is
// in the glossary, unless it is an ordinary one. Terms are in the order of the alphabet, and each has its link.
func TestGlossaryHasTheAbbreviationsOfPages(t *testing.T) {
	text, err := docs.Files.ReadFile("glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	var terms []string
	for _, m := range glossaryRow.FindAllSubmatch(text, -1) {
		if terms = append(terms, string(m[1])); !strings.HasSuffix(string(m[2]), ".") && !strings.HasSuffix(string(m[2]), "?") {
			t.Errorf("the meaning of %s is no sentence: %s", m[1], m[2])
		}
	}
	byAlphabet := func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }
	if !slices.IsSortedFunc(terms, byAlphabet) || len(terms) < 80 {
		t.Errorf("%d terms, want 80 at least, by alphabet: %q", len(terms), terms)
	}
	known := append(strings.Fields(ordinary), terms...)
	users := map[string][]string{}
	err = fs.WalkDir(docs.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" || strings.HasPrefix(name, "reference/") || strings.HasPrefix(name, "design/") ||
			name == "glossary.md" || name == "conformance.md" {
			return err
		}
		page, err := docs.Files.ReadFile(name)
		for _, word := range abbreviation.FindAllString(prose(string(page)), -1) {
			if !slices.Contains(known, word) && !slices.Contains(known, strings.TrimSuffix(word, "s")) &&
				!strings.HasPrefix(word, "Threeds") && !slices.Contains(users[word], name) {
				users[word] = append(users[word], name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for word, pages := range users {
		if len(pages) > 1 {
			t.Errorf("%s is on %q: say in docs/glossary.md what it means", word, pages)
		}
	}
}

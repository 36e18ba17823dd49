package docs_test

import (
	"image"
	"image/png"
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

// maxPictures is how many bytes all pictures of pages have.
const maxPictures = 1 << 20

// imageInPage is an image in Markdown: its text and its file.
var imageInPage = regexp.MustCompile(`!\[([^\]]*)\]\(([^)\s]+)\)`)

// TestPicturesThatPagesNameAreThere: each picture that a page names exists and has a text for those who do not see it.
// One of a page of the product is there in both colours, with the same size. A page names the light one, which is
// lighter than the other. All of them are small.
func TestPicturesThatPagesNameAreThere(t *testing.T) {
	named := map[string]bool{}
	err := fs.WalkDir(docs.Files, ".", func(page string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(page) != ".md" {
			return err
		}
		text, err := docs.Files.ReadFile(page)
		for _, m := range imageInPage.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			file := path.Join(path.Dir(page), m[2])
			if _, err := fs.Stat(docs.Files, file); err != nil {
				t.Errorf("docs/%s: %v: make pictures makes those of pages", page, err)
			}
			if len(strings.Fields(m[1])) < 4 {
				t.Errorf("docs/%s: the text in the place of %s is %q: say in some words what one sees there", page, file, m[1])
			}
			if named[file] = true; path.Ext(file) == ".png" && !strings.HasSuffix(file, "-light.png") {
				t.Errorf("docs/%s names %s: name the light one, of which a site in dark colours shows the dark one", page, file)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pictures, err := fs.Glob(docs.Files, "images/pages/*")
	size := 0
	for _, file := range pictures {
		data, err := docs.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		size += len(data)
		name, isLight := strings.CutSuffix(file, "-light.png")
		if !isLight {
			if dark, isDark := strings.CutSuffix(file, "-dark.png"); !isDark || !slices.Contains(pictures, dark+"-light.png") {
				t.Errorf("docs/%s is no picture in dark colours of one in light colours", file)
			}
			continue
		}
		if !named[file] {
			t.Errorf("no page shows docs/%s", file)
		}
		light, dark := readPicture(t, file), readPicture(t, name+"-dark.png")
		if light.Bounds() != dark.Bounds() {
			t.Errorf("docs/%s has %v, and in dark %v", file, light.Bounds(), dark.Bounds())
		}
		if l, d := brightness(light), brightness(dark); l < 0.7 || d > l-0.15 { // the page of a bank is light in both
			t.Errorf("docs/%s has the brightness %.2f, and in dark %.2f: want 0.7 at least, and 0.15 less", file, l, d)
		}
	}
	if err != nil || len(pictures) < 10 || size > maxPictures {
		t.Errorf("%d pictures of pages with %d bytes; want 10 at least, with %d bytes at most, %v",
			len(pictures), size, maxPictures, err)
	}
}

// readPicture returns a picture of the documentation.
func readPicture(t *testing.T, name string) image.Image {
	t.Helper()
	file, err := docs.Files.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	picture, err := png.Decode(file)
	if err != nil {
		t.Fatalf("docs/%s: %v", name, err)
	}
	return picture
}

// brightness returns how bright a picture is on average, by its green: 0 for black, 1 for white.
func brightness(picture image.Image) float64 {
	const step = 4 // every fourth pixel of every fourth row counts
	sum, n := 0.0, 0
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y += step {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x += step {
			_, green, _, _ := picture.At(x, y).RGBA()
			sum, n = sum+float64(green)/0xffff, n+1
		}
	}
	return sum / float64(n)
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

package threeds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// maxSentence is how many words a sentence of a page, or of a help text, may have. A colon ends one, too, and in a
// table a semicolon.
const maxSentence = 25

// A proseRule is a habit that makes English hard to read, and what to write in its place.
type proseRule struct {
	pattern *regexp.Regexp
	instead string
}

// proseRules are the habits in the table "Not, But" of CONTRIBUTING.md.
var proseRules = []proseRule{
	{regexp.MustCompile(`(?i)\b(?:has|have|had) (?:the|its|their) \w+ (?:read|kept|checked|made|written|sent|changed|tested|asked)\b`),
		"who acts is the subject: reads the range, keeps the id"},
	{regexp.MustCompile(`(?i)\bas (?:\w+ ){1,3}(?:has|have) (?:it|them)\b|\bas (?:it is|they are) told\b|\btold of\b`), "as X says; reported; sent to"},
	{regexp.MustCompile(`(?i)\bbe (?:it|they)\b|\bof which\b|\bwhat of (?:it|them)\b`), "a second sentence"},
	{regexp.MustCompile(`(?i)\b(?:nobody|whoever|has no place)\b`), "the party: the merchant, an operator, a caller; the thing"},
	{regexp.MustCompile(`(?i)\bshall\b`), "must, will, should, or what a person does"},
	{regexp.MustCompile(`(?i)\b(?:is|are) dear\b`), "expensive"},
	{regexp.MustCompile(`(?i)\bformer(?:ly)?\b`), "previous, before"},
	{regexp.MustCompile(`(?i)\banew\b`), "again"},
	{regexp.MustCompile(`(?i)\bat once\b`), "immediately, or concurrent, together"},
	{regexp.MustCompile(`(?i)\bbeside\b`), "next to, as well"},
	{regexp.MustCompile(`(?i)\b(?:hence|thereof|therewith|wherein|lest|thus)\b`), "so, of it, with it, in which, so that … not"},
}

var (
	fencedBlock   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	codeSpan      = regexp.MustCompile("`[^`]*`")
	generatedPart = regexp.MustCompile(`(?s)<!-- [a-z]+: generated .*?<!-- end of [a-z]+ -->`)
	htmlComment   = regexp.MustCompile(`(?s)<!--.*?-->`)
	linkTarget    = regexp.MustCompile(`\]\([^)]*\)`)
	newBlock      = regexp.MustCompile(`\n\s*\n|\n\s*(?:[-*]|\d+\.) |\n[|#]`)
	listMark      = regexp.MustCompile(`^\s*(?:[-*]|\d+\.) `)
	sentenceEnd   = regexp.MustCompile(`[.?!:]\s+|\s+·\s+`)
	clauseEnd     = regexp.MustCompile(`[.?!:;]\s+|\s+·\s+`)
)

// plainProse returns the text of a page without code, comments, targets of links and marks of emphasis. Code in a
// sentence counts as a word.
func plainProse(page string) string {
	page = codeSpan.ReplaceAllString(fencedBlock.ReplaceAllString(page, "\n\n"), "X")
	page = linkTarget.ReplaceAllString(htmlComment.ReplaceAllString(page, ""), "]")
	return strings.NewReplacer("**", "", "[", "", "]", "").Replace(page)
}

// sentencesOf returns the sentences of a page, those of tables cell by cell. Headings are none.
func sentencesOf(page string) []string {
	var all []string
	page = plainProse(generatedPart.ReplaceAllString(page, ""))
	for at := 0; at < len(page); {
		end := len(page)
		if next := newBlock.FindStringIndex(page[at:]); next != nil {
			end = at + next[0]
		}
		block := page[at:end]
		at = end + 1
		switch first := strings.TrimSpace(block); {
		case strings.HasPrefix(first, "#"):
		case strings.HasPrefix(first, "|"):
			for cell := range strings.SplitSeq(strings.Trim(first, "|"), " | ") {
				all = append(all, clauseEnd.Split(cell, -1)...)
			}
		default:
			all = append(all, sentenceEnd.Split(listMark.ReplaceAllString(block, ""), -1)...)
		}
	}
	return all
}

// checkProse reports what makes a text hard to read.
func checkProse(t *testing.T, where, words string, sentences []string) {
	t.Helper()
	words = strings.Join(strings.Fields(words), " ")
	for _, rule := range proseRules {
		for _, at := range rule.pattern.FindAllStringIndex(words, -1) {
			t.Errorf("%s: %q in …%s…: write %s", where, words[at[0]:at[1]], words[max(0, at[0]-40):min(len(words), at[1]+20)], rule.instead)
		}
	}
	for _, sentence := range sentences {
		if n := len(strings.Fields(sentence)); n > maxSentence {
			t.Errorf("%s: a sentence of %d words, want %d at most: %s", where, n, maxSentence, strings.Join(strings.Fields(sentence), " "))
		}
	}
}

// TestPagesAreInPlainEnglish: the pages that people read have no habit of proseRules, and no sentence of more than
// maxSentence words. Tables that are generated have no limit of words.
func TestPagesAreInPlainEnglish(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "web/*/*.md"} {
		some, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, some...)
	}
	n := 0
	for _, page := range pages {
		name := filepath.ToSlash(page)
		if name == "CHANGELOG.md" || name == "docs/conformance.md" || strings.HasPrefix(name, "docs/reference/") {
			continue // not pages to read through: a list of changes, and two that are generated
		}
		words := text(t, page)
		sentences := sentencesOf(words)
		checkProse(t, name, plainProse(words), sentences)
		n += len(sentences)
	}
	if n < 5000 {
		t.Errorf("%d sentences, fewer than there must be", n)
	}
}

// TestHelpIsInPlainEnglish: what commands and flags say of themselves keeps the same rules.
func TestHelpIsInPlainEnglish(t *testing.T) {
	files, err := filepath.Glob("cmd/threeds/*.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(node ast.Node) bool {
			for _, words := range helpTexts(node) {
				n++
				checkProse(t, file, words, clauseEnd.Split(words, -1))
			}
			return true
		})
	}
	if n < 120 {
		t.Errorf("%d texts, fewer than there must be", n)
	}
}

// flagMethods are the methods of a set of flags whose last argument says what the flag is for.
var flagMethods = regexp.MustCompile(`^(?:Bool|Duration|Func|Int|String|Uint|Var)(?:Var)?$`)

// helpTexts returns the texts of a node that help shows: what a command does, and what a flag is for.
func helpTexts(node ast.Node) (texts []string) {
	add := func(e ast.Expr) {
		if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if words, err := strconv.Unquote(literal.Value); err == nil {
				texts = append(texts, strings.Join(strings.Fields(words), " "))
			}
		}
	}
	switch node := node.(type) {
	case *ast.KeyValueExpr:
		if key, ok := node.Key.(*ast.Ident); ok && key.Name == "Does" {
			add(node.Value)
		}
	case *ast.CallExpr:
		if method, ok := node.Fun.(*ast.SelectorExpr); ok && flagMethods.MatchString(method.Sel.Name) && len(node.Args) > 1 {
			add(node.Args[len(node.Args)-1])
		}
	}
	return texts
}

// TestProseRules: a habit and a long sentence are found, and what is code, a heading or generated is not.
func TestProseRules(t *testing.T) {
	long := strings.Repeat("word ", maxSentence+1)
	for page, want := range map[string]int{
		long + ".\n": 1, "A list:\n\n- " + long + "\n- short\n": 1, "| " + long + " | b |\n": 1, "# " + long + "\n": 0,
		"```\n" + long + "\n```\n": 0, "`" + long + "`\n": 0, "<!-- keys: generated from x -->\n" + long + "\n<!-- end of keys -->\n": 0,
		"Two " + strings.Repeat("word ", 20) + ". And " + strings.Repeat("word ", 20) + ".\n": 0, "[a](" + strings.ReplaceAll(long, " ", "/") + ")\n": 0,
	} {
		found := 0
		for _, sentence := range sentencesOf(page) {
			if len(strings.Fields(sentence)) > maxSentence {
				found++
			}
		}
		if found != want {
			t.Errorf("%d long sentences in %.60q, want %d", found, page, want)
		}
	}
	for words, want := range map[string]bool{
		"The server has the range read.": true, "It is as the store has it.": true, "be it expired": true, "Nobody knows.": true,
		"What shall happen": true, "All of them at once": true, "The server reads the range.": false, "It has the key file.": false,
		"The merchant knows the information.": false,
	} {
		found := false
		for _, rule := range proseRules {
			found = found || rule.pattern.MatchString(words)
		}
		if found != want {
			t.Errorf("%q is found: %t, want %t", words, found, want)
		}
	}
}

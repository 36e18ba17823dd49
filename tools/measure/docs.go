package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

const (
	longSentence = 25  // words
	longPage     = 200 // lines
)

// docs is what measuring the Markdown pages of a checkout gives.
type docs struct {
	sentences, pages []string
	generated        []string // pages that were left out
}

func reportDocs(w io.Writer, dir string) error {
	d, err := measureDocs(os.DirFS(dir))
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "Not counted: tables and code blocks, whose lines are no sentences, and generated pages, which nobody writes.")
	printList(w, "generated pages", d.generated)
	printList(w, fmt.Sprintf("sentences longer than %d words", longSentence), d.sentences)
	printList(w, fmt.Sprintf("pages longer than %d lines", longPage), d.pages)
	return nil
}

func measureDocs(root fs.FS) (*docs, error) {
	d := new(docs)
	err := walkFiles(root, ".md", func(name string, text []byte) error {
		if isGenerated(text) {
			d.generated = append(d.generated, name)
			return nil
		}
		prose := findProse(string(text))
		if n := countPageLines(string(text)); n > longPage {
			d.pages = append(d.pages, fmt.Sprintf("%s (%d lines)", name, n))
		}
		for _, p := range prose {
			for _, s := range splitSentences(p.text) {
				if n := len(strings.Fields(s)); n > longSentence {
					d.sentences = append(d.sentences, fmt.Sprintf("%s:%d (%d words) %s", name, p.line, n, s))
				}
			}
		}
		return nil
	})
	return d, err
}

// isGenerated reports whether a page says in its first lines that it is generated.
func isGenerated(text []byte) bool {
	head := bytes.ToLower(text[:min(len(text), 600)])
	return bytes.Contains(head, []byte("do not edit")) || bytes.Contains(head, []byte("<!-- generated"))
}

// A paragraph is prose that ends at a blank line, a heading, a list item, a table or
// a code block.
type paragraph struct {
	line int // of its beginning
	text string
}

var listItem = regexp.MustCompile(`^\s*([-*+]|\d+\.)\s+`)

// isCodeFence reports whether a line begins or ends a code block.
func isCodeFence(line string) bool {
	return strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")
}

// findProse returns the paragraphs of a page.
func findProse(page string) []paragraph {
	var all []paragraph
	inCode, open := false, false
	number := 0
	for line := range strings.Lines(page) {
		number++
		text := strings.TrimSpace(line)
		switch {
		case isCodeFence(text):
			inCode, open = !inCode, false
		case inCode, text == "", text[0] == '|', text[0] == '#', text[0] == '<':
			open = false
		case open && !listItem.MatchString(line):
			all[len(all)-1].text += " " + text
		default:
			all = append(all, paragraph{number, listItem.ReplaceAllString(text, "")})
			open = true
		}
	}
	return all
}

// countPageLines counts the lines of a page outside tables and code blocks.
func countPageLines(page string) int {
	n, inCode := 0, false
	for line := range strings.Lines(page) {
		text := strings.TrimSpace(line)
		switch {
		case isCodeFence(text):
			inCode = !inCode
		case !inCode && !strings.HasPrefix(text, "|"):
			n++
		}
	}
	return n
}

// sentenceEnd is a mark that ends a sentence and the space after it.
var sentenceEnd = regexp.MustCompile(`[.!?:;][)"*_]*\s+`)

// splitSentences splits prose at full stops, question marks, colons and semicolons.
func splitSentences(text string) []string {
	var all []string
	for {
		at := sentenceEnd.FindStringIndex(text)
		if at == nil {
			return append(all, text)
		}
		all, text = append(all, strings.TrimSpace(text[:at[1]])), text[at[1]:]
	}
}

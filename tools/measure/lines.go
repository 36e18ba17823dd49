package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// How many characters a line of Go may have. A tab counts as one.
const (
	longLine     = 120
	longTestLine = 160 // of what is no product: a row of a table of tests may stay on one line
)

var (
	generatedCode = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	structTag     = regexp.MustCompile("`\\w+:\"[^`]*`$")
	directive     = regexp.MustCompile(`^//[a-z]+:\S`)
	// oneText is a line of one string, with the name that it gets and what closes behind it.
	oneText = regexp.MustCompile("^((const |var )?[\\w.]+ +:?= |(([\\w.]+|\"[^\"]*\"|`[^`]*`): *\\{?)*)" +
		"(\"([^\"\\\\]|\\\\.)*\"|`[^`]*`|`[^`]*$)[,;:+ )}\\]{]*$")
)

// findLongLines returns the lines of a Go file that are too long, as "file.go:12 (130 characters)". It leaves out those
// that no line break makes shorter: a string, a struct tag, a directive, a URL, indented text in a comment, and
// generated code.
func findLongLines(name string, text []byte) (found []string) {
	limit := longTestLine
	if path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") && isProduct(name) {
		limit = longLine
	}
	var strs map[int]int
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if n := utf8.RuneCountInString(line); n > limit {
			if strs == nil {
				strs = measureStrings(text)
			}
			if strs[number] < limit && !isUnbreakable(line) {
				found = append(found, fmt.Sprintf("%s:%d (%d characters)", name, number, n))
			}
		}
	}
	if found != nil && generatedCode.Match(text) {
		return nil
	}
	return found
}

// isUnbreakable reports whether a line cannot be broken, as far as the line alone tells.
func isUnbreakable(line string) bool {
	line = strings.TrimLeft(line, "\t")
	comment, isComment := strings.CutPrefix(line, "//")
	if !isComment {
		return oneText.MatchString(line) || structTag.MatchString(line)
	}
	isIndented := strings.HasPrefix(comment, "\t") || strings.HasPrefix(comment, "   ")
	return isIndented || directive.MatchString(line) || len(strings.Fields(comment)) == 1
}

// measureStrings returns by the number of a line how many characters it would have if the longest string on it stood
// alone there. A line that begins in a raw string has too many.
func measureStrings(text []byte) map[int]int {
	const tooMany = 1 << 20
	longest := map[int]int{}
	lines := strings.Split(string(text), "\n")
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, kind, value := s.Scan()
		if kind == token.EOF {
			return longest
		}
		if kind != token.STRING {
			continue
		}
		at := file.Line(pos)
		for part := range strings.Lines(value) {
			line := lines[at-1]
			indent := len(line) - len(strings.TrimLeft(line, "\t"))
			longest[at] = max(longest[at], indent+utf8.RuneCountInString(strings.TrimRight(part, "\n")))
			at++
		}
		for more := file.Line(pos) + 1; more < at; more++ {
			longest[more] = tooMany
		}
	}
}

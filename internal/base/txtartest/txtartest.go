// Package txtartest reads and writes test data in the txtar format: several text files in one. Use [ParseFile] to read
// such a file and [Format] to write it again. The format is that of golang.org/x/tools/txtar:
//
//	comment
//	-- name of the first file --
//	its content
//	-- name of the second file --
//	its content
package txtartest

import (
	"bytes"
	"os"
	"strings"
)

// An Archive is several files, and a comment before them.
type Archive struct {
	Comment []byte
	Files   []File
}

// A File is one file of an archive.
type File struct {
	Name string
	Data []byte
}

// Parse reads an archive. Every text is one: without a line that names a file it is all comment. The comment and each
// file end with a newline, which is added where it is missing.
func Parse(data []byte) *Archive {
	a := new(Archive)
	current := &a.Comment
	for line := range bytes.Lines(data) {
		if name, ok := markedName(line); ok {
			a.Files = append(a.Files, File{Name: name})
			current = &a.Files[len(a.Files)-1].Data
			continue
		}
		*current = append(*current, withNewline(line)...)
	}
	return a
}

// markedName returns the name in a line of the form "-- name --", and whether the line has that form.
func markedName(line []byte) (string, bool) {
	text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
	if len(text) < len("-- -- ") || !strings.HasPrefix(text, "-- ") || !strings.HasSuffix(text, " --") {
		return "", false
	}
	name := strings.TrimSpace(text[len("-- ") : len(text)-len(" --")])
	return name, name != ""
}

// ParseFile reads the archive in a file.
func ParseFile(name string) (*Archive, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(data), nil
}

// Format returns the text of an archive, which [Parse] reads.
func Format(a *Archive) []byte {
	text := withNewline(a.Comment)
	for _, f := range a.Files {
		text = append(text, "-- "+f.Name+" --\n"...)
		text = append(text, withNewline(f.Data)...)
	}
	return text
}

// withNewline returns a copy of text that ends with a newline, unless it is empty.
func withNewline(text []byte) []byte {
	text = bytes.Clone(text)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return text
}

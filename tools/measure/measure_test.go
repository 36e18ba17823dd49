package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func fileSystem(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestCodeIsCounted(t *testing.T) {
	long := "func tooLong() {\n" + strings.Repeat("\t_ = 0\n", 60) + "}\n"
	c, err := measureCode(fileSystem(map[string]string{
		"a/a.go": "package a\n\nconst A, b = 1, 2\n\ntype T struct{}\n\nfunc (t *T) Do() {}\n\ntype u struct{}\n\nfunc (u) Do() {}\n\n" +
			"func take() {}\n\nfunc init() {}\n\n" + long,
		"a/wide.go":                     "package a\n\n//" + strings.Repeat(" é", 60) + "\n",
		"a/btest/b.go":                  "package btest\n",
		"a/a_test.go":                   "package a\n\nfunc ExampleT() {}\n\nfunc ExampleWith(n int) {}\n",
		"testing/bench/b.go":            "package bench\n",
		"a/testdata/x.go":               "package no go",
		"testing/conformance/c_test.go": "package conformance\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if c.product != 16+62+3 || c.tests != 5+1 || c.examples != 1 {
		t.Errorf("product %d, tests %d, examples %d", c.product, c.tests, c.examples)
	}
	if len(c.packages) != 1 || *c.packages["a"] != (packageCount{files: 2, lines: 81, exported: 3}) {
		t.Errorf("packages %v", c.packages["a"])
	}
	if c.functions != 2 || c.oneWord != 1 {
		t.Errorf("%d of %d functions are named by one word", c.oneWord, c.functions)
	}
	if want := []string{"a/a.go:17 tooLong (62 lines)"}; !slices.Equal(c.longFunctions, want) {
		t.Errorf("long functions %q", c.longFunctions)
	}
	if want := []string{"a/wide.go:3 (122 characters)"}; !slices.Equal(c.longLines, want) {
		t.Errorf("long lines %q", c.longLines)
	}
}

func TestCodeThatIsNotGoIsAnError(t *testing.T) {
	if _, err := measureCode(fileSystem(map[string]string{"a.go": "no"})); err == nil {
		t.Error("no error")
	}
}

func TestDocsAreCounted(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("word ", 26))
	d, err := measureDocs(fileSystem(map[string]string{
		"a.md": "# " + words + "\n\nShort. " + words + ".\n\n| " + words + " |\n\n```\n" + words + "\n```\n\n- One\n- two: and\n  three\n",
		"b.md": strings.Repeat("A line.\n", 201) + strings.Repeat("| a table |\n", 50),
		"c.md": "<!-- Generated. Do not edit. -->\n" + words + "\n",
		"d.md": strings.Repeat("A line.\n", 200) + strings.Repeat("| a table |\n", 50),
	}))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a.md:3 (26 words) " + words + "."}; !slices.Equal(d.sentences, want) {
		t.Errorf("sentences %q", d.sentences)
	}
	if want := []string{"b.md (201 lines)"}; !slices.Equal(d.pages, want) {
		t.Errorf("pages %q", d.pages)
	}
	if want := []string{"c.md"}; !slices.Equal(d.generated, want) {
		t.Errorf("generated %q", d.generated)
	}
}

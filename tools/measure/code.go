package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
)

const longFunction = 60 // lines

// notProduct are the folders that hold no part of the server: programs that test
// or measure it. Folders whose name ends in
// "test" are left out too: by the convention of httptest they are for tests.
var notProduct = []string{"testing", "tools"}

// code is what measuring a checkout gives.
type code struct {
	product, tests int // lines
	packages       map[string]*packageCount
	functions      int      // unexported functions and methods of the product
	oneWord        int      // those of them whose name is one word
	longFunctions  []string // "file.go:12 name (61 lines)"
	longLines      []string // "file.go:12 (130 characters)", of all code
	examples       int
}

// packageCount counts one package of the product.
type packageCount struct{ files, lines, exported int }

func reportCode(w io.Writer, dir string) error {
	c, err := measureCode(os.DirFS(dir))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "lines of product  %d (without tests, folders named …test, and %s)\n", c.product, strings.Join(notProduct, ", "))
	fmt.Fprintf(w, "lines of tests    %d\n", c.tests)
	fmt.Fprintf(w, "examples          %d\n", c.examples)
	fmt.Fprintf(w, "unexported functions named by one word  %d of %d (%d %%)\n", c.oneWord, c.functions, 100*c.oneWord/max(1, c.functions))
	fmt.Fprintf(w, "\nfiles   lines   exported   package\n")
	for _, name := range slices.Sorted(maps.Keys(c.packages)) {
		p := c.packages[name]
		fmt.Fprintf(w, "%5d   %5d   %8d   %s\n", p.files, p.lines, p.exported, name)
	}
	printList(w, fmt.Sprintf("functions longer than %d lines", longFunction), c.longFunctions)
	printList(w, fmt.Sprintf("lines longer than %d characters, %d in tests", longLine, longTestLine), c.longLines)
	return nil
}

// printList prints a heading with the number of lines, and the lines.
func printList(w io.Writer, heading string, lines []string) {
	fmt.Fprintf(w, "\n%s: %d\n", heading, len(lines))
	for _, line := range lines {
		fmt.Fprintln(w, "  "+line)
	}
}

func measureCode(root fs.FS) (*code, error) {
	c := &code{packages: make(map[string]*packageCount)}
	err := walkFiles(root, ".go", func(name string, text []byte) error {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		c.add(name, text, file)
		return nil
	})
	return c, err
}

// walkFiles calls f with each file of that ending, without those in folders that
// hold no code of the module.
func walkFiles(root fs.FS, ending string, f func(name string, text []byte) error) error {
	return fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			base := d.Name()
			if name != "." && (base[0] == '.' || base == "testdata" || base == "node_modules" || base == "vendor") {
				return fs.SkipDir
			}
			return nil
		case path.Ext(name) != ending || !d.Type().IsRegular():
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return f(name, text)
	})
}

// add counts one Go file.
func (c *code) add(name string, text []byte, file *ast.File) {
	lines := bytes.Count(text, []byte("\n"))
	c.longLines = append(c.longLines, findLongLines(name, text)...)
	if strings.HasSuffix(name, "_test.go") {
		c.tests += lines
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && isExample(f) {
				c.examples++
			}
		}
		return
	}
	if !isProduct(name) {
		return
	}
	c.product += lines
	p := c.packages[path.Dir(name)]
	if p == nil {
		p = new(packageCount)
		c.packages[path.Dir(name)] = p
	}
	p.files++
	p.lines += lines
	for _, d := range file.Decls {
		p.exported += countExported(d)
		if f, ok := d.(*ast.FuncDecl); ok {
			c.addFunction(name, text, f)
		}
	}
}

// addFunction counts one function of the product.
func (c *code) addFunction(name string, text []byte, f *ast.FuncDecl) {
	// A file set of one file begins at position 1.
	first := 1 + bytes.Count(text[:f.Pos()-1], []byte("\n"))
	last := 1 + bytes.Count(text[:f.End()-1], []byte("\n"))
	if n := last - first + 1; n > longFunction {
		c.longFunctions = append(c.longFunctions, fmt.Sprintf("%s:%d %s (%d lines)", name, first, f.Name.Name, n))
	}
	if f.Name.IsExported() || f.Name.Name == "main" || f.Name.Name == "init" || f.Name.Name == "_" {
		return
	}
	c.functions++
	if isOneWord(f.Name.Name) {
		c.oneWord++
	}
}

// isProduct reports whether a file that is no test is part of the product.
func isProduct(name string) bool {
	for _, folder := range strings.Split(path.Dir(name), "/") {
		if strings.HasSuffix(folder, "test") {
			return false
		}
	}
	return !slices.ContainsFunc(notProduct, func(dir string) bool { return strings.HasPrefix(name, dir+"/") })
}

func isExample(f *ast.FuncDecl) bool {
	return f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example") && len(f.Type.Params.List) == 0
}

// isOneWord reports whether a name has neither a capital letter, a digit nor an
// underscore. It does not look the word up: "toJSON" is two words, "mkdir" one.
func isOneWord(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLower(r) })
}

// countExported counts the exported names that a declaration adds to its package.
// A method counts if its receiver is exported too; fields do not count.
func countExported(d ast.Decl) int {
	n := 0
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiverName(d.Recv.List[0].Type))) {
			n++
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					n++
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						n++
					}
				}
			}
		}
	}
	return n
}

// receiverName returns the name of the type of a receiver.
func receiverName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiverName(t.X)
	case *ast.IndexExpr:
		return receiverName(t.X)
	case *ast.IndexListExpr:
		return receiverName(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

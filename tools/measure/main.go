// Command measure counts what a reader of this module has to live with: lines,
// files, names, long functions, long lines and long sentences.
//
//	go run ./tools/measure [-C dir]        Go code
//	go run ./tools/measure [-C dir] docs   Markdown pages
//
// Lines of product are the lines, blank ones and comments included, of Go files
// that are neither tests, nor below one of the folders in notProduct, nor in a folder
// whose name ends in "test". Lines of
// tests are those of *_test.go in the whole module.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	dir := flag.String("C", ".", "folder of the checkout to measure")
	flag.Parse()
	var err error
	switch flag.Arg(0) {
	case "":
		err = reportCode(os.Stdout, *dir)
	case "docs":
		err = reportDocs(os.Stdout, *dir)
	default:
		err = fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

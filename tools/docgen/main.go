// Docgen writes those documents that would otherwise drift away from the code: the reference of all fields and the
// OpenAPI description, from the tables of package message; the tables of test cards, from the text that the sandbox
// runs; and those of card schemes, from the text that the server runs. Run it with
//
//	go generate ./...
//
// It explains nothing: pages that explain are written by hand, and have what is generated between two marks. Its tests
// hold what is generated fresh, and the pages' links, names and examples right.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: docgen DIRECTORY-OF-THE-MODULE [RELEASE]")
		os.Exit(2)
	}
	var err error
	if len(os.Args) == 3 { // the rules of schemes as they are now become those of the last release
		err = writeReleased(os.Args[1], os.Args[2])
	}
	if err == nil {
		err = writeFiles(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

// Docgen writes the generated documents of the module in the directory given.
package main

import (
	"fmt"
	"os"

	"github.com/openthreeds/threeds/internal/docgen"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docgen DIRECTORY-OF-THE-MODULE")
		os.Exit(2)
	}
	if err := docgen.Write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

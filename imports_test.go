package threeds_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// may lists, for each package, which packages of this module it may import. A
// package that is not listed may import none. cmd wires and may import all.
var may = map[string]string{
	"message":                  "internal/iso",
	"message/messagetest":      "message internal/iso",
	"sandbox":                  "message",
	"sandbox/shop":             "",
	"conformance":              "sandbox/shop", // the requestor's page, which is not the server
	"internal/keyring":         "internal/transid",
	"internal/ranges":          "message",
	"internal/directory":       "message internal/ranges internal/revocation internal/store internal/suite internal/thrift internal/tunnel internal/wire",
	"internal/tunnel":          "internal/suite",
	"internal/wire":            "internal/socket",
	"internal/store/linear":    "internal/store",
	"internal/store/sqlite":    "internal/store",
	"internal/store/postgres":  "internal/store internal/socket",
	"internal/store/storetest": "internal/store",
	"internal/account":         "internal/store",
	"internal/scheme":          "message",
	"internal/auth":            "message internal/scheme internal/ranges internal/transid internal/store internal/account",
	"internal/v1":              "internal/xmldsig internal/iso",
	"internal/mpi":             "internal/iso internal/v1 internal/xmldsig internal/store internal/account",
	"internal/api":             "message internal/auth internal/mpi internal/account internal/gate internal/obs",
	"internal/results":         "message internal/auth internal/gate internal/obs internal/revocation internal/suite",
	"internal/obs":             "internal/gate",
	"internal/gate":            "internal/socket",
	"internal/docgen":          "message internal/scheme",
	"internal/docgen/cmd":      "internal/docgen",
}

// TestImports keeps the arrows of doc.go true. It reads the files itself and
// does not ask the go command, so that the test cache knows what it read.
func TestImports(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "bench") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			dep, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "github.com/openthreeds/threeds/")
			if ours && !strings.Contains(" "+may[pkg]+" ", " "+dep+" ") {
				t.Errorf("%s imports %s, see doc.go", path, dep)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

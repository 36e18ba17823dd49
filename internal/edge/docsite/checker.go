package docsite

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// checkerPage is the page that has the checker: a program that checks messages in the browser. Tools/checker builds it.
const checkerPage = "check.md"

// gzipType is the type of a file that is compressed already.
const gzipType = "application/gzip"

// A checker is what the page of the checker shows.
type checker struct {
	Size    string   // Size is how much the browser loads; "" if this build has no checker.
	Schemes []string // Schemes are the card schemes that a reader can choose.
}

// NewWithChecker returns the site with the checker that tools/checker has built into a folder. [New] takes the one that
// this program was built with.
func NewWithChecker(folder fs.FS) (*Site, error) { return newSite(nil, folder) }

// addChecker adds the checker to the site, if there is one in a folder.
func (s *Site) addChecker(folder fs.FS) error {
	const program = "checker/checker.wasm.gz"
	info, err := fs.Stat(folder, program)
	if err != nil {
		return nil // this program was built without it, and the page says so
	}
	s.checker = checker{fmt.Sprintf("%.1f MB", float64(info.Size())/1e6), scheme.Names()}
	s.add("assets/checker.wasm.gz", gzipType, func() ([]byte, error) { return fs.ReadFile(folder, program) })
	s.add("assets/wasm_exec.js", scriptType, func() ([]byte, error) { return fs.ReadFile(folder, "checker/wasm_exec.js") })
	s.add("assets/check.js", scriptType, func() ([]byte, error) { return assets.ReadFile("assets/check.js") })
	s.files[pathOf(checkerPage, ".html")].policy = func() (string, error) { return checkerPolicy, nil }
	return nil
}

// checkerPolicy is what the page of the checker may load in addition: the checker, which is WebAssembly.
var checkerPolicy = strings.Replace(policy, "script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'", 1) +
	"; connect-src 'self'"

package threeds_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// foreignHosts are hosts that the program may name. It calls none of them.
var foreignHosts = map[string]string{
	"www.w3.org": "names of XML, which are no addresses",
	"github.com": "a link for people, on a page or in a text",
}

// TestNoAddressOfAnybodyIsBuiltIn: the program calls addresses of its configuration and of its callers only, as
// docs/project/telemetry.md promises. So its source has no address of a real host.
func TestNoAddressOfAnybodyIsBuiltIn(t *testing.T) {
	address := regexp.MustCompile(`https?://([A-Za-z0-9.-]+)`)
	found := map[string]int{}
	sources(t, 0, func(pkg, file string, f *ast.File) {
		if first, _, _ := strings.Cut(pkg, "/"); slices.Contains([]string{"testing", "tools"}, first) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Errorf("%s: %s: %v", file, literal.Value, err)
			}
			for _, m := range address.FindAllStringSubmatch(text, -1) {
				if host := m[1]; isRealHost(host) {
					if found[host]++; foreignHosts[host] == "" {
						t.Errorf("%s has the address of %s: who calls it, and why?", file, host)
					}
				}
			}
			return true
		})
	})
	for host := range foreignHosts {
		if found[host] == 0 {
			t.Errorf("%s is nowhere: take it off the list", host)
		}
	}
}

// isRealHost reports whether a host may be one of the internet. Names without a dot, or with one at an end, are pieces
// that are put together; .example and .invalid are nobody's; numbers are this machine's.
func isRealHost(host string) bool {
	_, top, hasDot := strings.Cut(strings.TrimSuffix(host, "."), ".")
	if !hasDot || strings.HasSuffix(host, ".") {
		return false
	}
	top = top[strings.LastIndex(top, ".")+1:]
	return top != "example" && top != "invalid" && !regexp.MustCompile(`^[0-9]+$`).MatchString(top)
}

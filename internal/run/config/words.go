package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// checkWords checks the words of the schemes against each other, and those that merchants name against the
// directories.
func (l *loader) checkWords() {
	var words []string
	for i, d := range l.config.Directories {
		at := fmt.Sprintf("directories[%d].scheme", i)
		if d.Scheme == "" {
			continue
		}
		if other := scheme.SameNumber(d.Scheme, words); other != "" {
			l.fault(at, "has the same number in transaction ids as %s (choose another word for one of them)", other)
		}
		if hint := hint.For(d.Scheme, scheme.Names()...); hint != "" && !scheme.IsName(d.Scheme) {
			l.warn(at, "is a scheme of your own%s", hint)
		}
		words = append(words, d.Scheme)
	}
	for i, m := range l.config.Merchants {
		l.checkPerDirectory(fmt.Sprintf("merchants[%d]", i), m)
	}
}

// checkPerDirectory checks the words in per_directory of a merchant, whose keys begin with path.
func (l *loader) checkPerDirectory(path string, m Merchant) {
	allowed := scheme.Names()
	for _, d := range l.config.Directories {
		if d.Scheme != "" && !slices.Contains(allowed, d.Scheme) {
			allowed = append(allowed, d.Scheme)
		}
	}
	for _, word := range slices.Sorted(maps.Keys(m.PerDirectory)) {
		if !slices.Contains(allowed, word) {
			l.fault(join(join(path, "per_directory"), word), "unknown key: not a known word%s (allowed: %s)",
				hint.For(word, allowed...), strings.Join(allowed, ", "))
		}
	}
}

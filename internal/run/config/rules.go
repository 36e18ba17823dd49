package config

import (
	"strings"

	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// maxRulesFile is the size of the largest file of rules that is read, in bytes.
const maxRulesFile = 256 << 10

// loadRules reads the operator's rules of a directory. A fault in them is one of the configuration, not of the
// directory: a running server keeps the previous rules.
func (l *loader) loadRules(d *Directory, path string) {
	data, ok := l.openFile(d.Rules.File, path)
	switch {
	case !ok:
		return
	case len(data) > maxRulesFile:
		l.fault(path, "%s: larger than %d KiB", d.Rules.File, maxRulesFile>>10)
		return
	}
	d.Rules.Text = string(data)
	var err error
	if d.Rules.Rules, err = scheme.ReadOwn(d.Scheme, d.Rules.Text); err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		text := strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(text, "line "); ok {
			text = rest
		}
		l.fault(path, "%s:%s", d.Rules.File, text)
	}
}

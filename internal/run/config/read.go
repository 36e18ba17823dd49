package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/token"

	"github.com/openthreeds/threeds/internal/peers/certs"
)

// A Fault is one thing that is wrong with a configuration, or that is worth a warning.
type Fault struct {
	File      string
	Line, Col int
	Key       string // "directories[0].areq_url"; empty for the file as a whole
	Text      string // what is wrong, and in brackets what is allowed; never a value
}

// String is FILE:LINE:COL: key: what is wrong. Without a file it has no place.
func (f Fault) String() string {
	if f.File == "" && f.Key != "" {
		return f.Key + ": " + f.Text
	}
	if f.Key == "" {
		return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Col, f.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", f.File, f.Line, f.Col, f.Key, f.Text)
}

// Faults are everything that is wrong with a configuration, in the order of the file.
type Faults []Fault

// Lines returns a line for each fault.
func (f Faults) Lines() []string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return lines
}

// Error returns the lines of all faults.
func (f Faults) Error() string { return strings.Join(f.Lines(), "\n") }

// Read reads a configuration file and checks it, without the files that it names. The key
// commands need none of those.
func Read(file string) (*Config, error) {
	l, err := newLoader(file)
	if err != nil {
		return nil, err
	}
	return l.finish()
}

// ReadForWebhooks is Read with the files that deliveries of events need.
func ReadForWebhooks(file string, now time.Time) (*Config, error) {
	l, err := newLoader(file)
	if err != nil {
		return nil, err
	}
	l.loadWebhookFiles(now)
	return l.finish()
}

// Parse is Read for a file whose content is data.
func Parse(file string, data []byte) (*Config, error) { return parseConfig(file, data).finish() }

// Load reads a configuration file and the files that it names, ready to serve. Certificates must be valid at now. It
// returns the files that it read, also with an error.
func Load(file string, now time.Time) (*Config, Files, error) {
	l, err := newLoader(file)
	if err != nil {
		return nil, nil, err
	}
	l.loadFiles(now)
	c, err := l.finish()
	if err != nil {
		l.config.Helper.Close()
	}
	return c, l.files, err
}

// Reload reads the file again for a process in which c is in use. It refuses what a running
// process cannot change. A part of the server whose files cannot be used keeps those of c
// and is degraded. checkKeys checks the key file, unless the store is a different one.
func (c *Config) Reload(file string, now time.Time, checkKeys func(file string) error) (*Config, Files, error) {
	l, err := newLoader(file)
	if err != nil {
		return nil, nil, err
	}
	l.former, l.knownLists = c, c.revocationLists()
	l.config.Helper = c.Helper // it runs, and Load would start another one
	l.refuseFixedChanges(c)
	if l.config.Store.URL.isSamePlace(c.Store.URL) {
		l.checkKeys(checkKeys)
	}
	l.loadFiles(now)
	next, err := l.finish()
	if err == nil && len(next.Certificates.Faults(now)) > 0 { // a part of it may have kept a certificate of c
		next.heldKeys = append(next.heldKeys, c.heldKeys...)
	}
	return next, l.files, err
}

// checkKeys reads and checks the key file.
func (l *loader) checkKeys(check func(file string) error) {
	if _, ok := l.openFile(l.config.Keys, "keys"); !ok {
		return
	}
	if err := check(l.config.Keys); err != nil {
		l.fault("keys", "%v", err)
	}
}

// finish returns the configuration with its warnings, or all faults.
func (l *loader) finish() (*Config, error) {
	l.addWarnings()
	if err := l.err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(l.warnings, byPosition)
	for _, w := range l.mergeWarnings() {
		l.config.Warnings = append(l.config.Warnings, w.String())
	}
	return l.config, nil
}

// A fixedKey is a key that a running process cannot change.
type fixedKey struct {
	path string
	same bool // the new configuration has the same key
}

// fixedKeys returns all of them, and compares c with the configuration in use.
func (c *Config) fixedKeys(inUse *Config) []fixedKey {
	return []fixedKey{
		{"api.listen", c.API.Listen == inUse.API.Listen},
		{"results.listen", c.Results.Listen == inUse.Results.Listen},
		{"console.listen", c.Console.Listen == inUse.Console.Listen},
		{"console.metrics_listen", c.Console.MetricsListen == inUse.Console.MetricsListen},
		{"console.url", c.Console.URL == inUse.Console.URL},
		{"browser.listen", c.Browser.listen() == inUse.Browser.listen()},
		{"key_helper", reflect.DeepEqual(c.KeyHelper, inUse.KeyHelper)},
		{"keys", c.Keys == inUse.Keys || !c.Store.URL.isSamePlace(inUse.Store.URL)},
		{"store.url", c.Store.URL.isSamePlace(inUse.Store.URL)},
		{"store.engine", c.Store.Engine == inUse.Store.Engine},
		{"limits.connections", c.Limits.Connections == inUse.Limits.Connections},
		{"limits.wait", c.Limits.Wait == inUse.Limits.Wait},
		{"tracing", c.Tracing.isSame(inUse.Tracing)},
		{"journal", c.HasJournal() == inUse.HasJournal()},
		{"journal.url", c.Journal.URL == inUse.Journal.URL || !c.HasJournal() || !inUse.HasJournal()},
		{"journal.keys", c.Journal.Keys == inUse.Journal.Keys || c.Keys != inUse.Keys},
	}
}

// refuseFixedChanges refuses what a running process cannot change.
func (l *loader) refuseFixedChanges(inUse *Config) {
	for _, fixed := range l.config.fixedKeys(inUse) {
		if !fixed.same {
			l.fault(fixed.path, "cannot change in a running process (restart it to apply this)")
		}
	}
}

// A loader reads one configuration and collects its faults and warnings.
type loader struct {
	file       string
	dir        string // of the file, which relative paths start from
	config     *Config
	faults     Faults
	warnings   Faults
	positions  map[string]*token.Position // of every key that is there, by path
	files      Files                      // that it has read
	knownLists []*certs.RevocationList    // of the previous configuration, and those of this one
	former     *Config                    // in use while this one is loaded; nil: at the start

	described func(key, page, standard string) // for tests: called with each key that is read
}

// maxFile is how long a configuration may be, in bytes. Reading YAML takes many times as much memory.
const maxFile = 4 << 20

func newLoader(file string) (*loader, error) {
	if info, err := os.Stat(file); err == nil && info.Size() > maxFile {
		return nil, fmt.Errorf("%s: has %d bytes, and a configuration at most %d (--config FILE names another)", file,
			info.Size(), maxFile)
	}
	files := Files{}
	data, err := files.Read(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file (--config FILE names another)", file)
	}
	if err != nil {
		return nil, err
	}
	l := parseConfig(file, data)
	l.files = files
	return l, nil
}

// parseConfig reads the content of a file without the files that it names.
func parseConfig(file string, data []byte) *loader {
	l := newParser(file)
	l.parseFile(data)
	return l
}

// newParser returns a loader that has read nothing yet.
func newParser(file string) *loader {
	return &loader{
		file: file, dir: filepath.Dir(file),
		config:    &Config{Ends: map[string]time.Time{}, ListTerms: map[string]Term{}, lines: map[string]int{}},
		positions: map[string]*token.Position{}, files: Files{},
	}
}

// parseFile reads the content of the file.
func (l *loader) parseFile(data []byte) {
	if root, ok := l.parseYAML(data); ok {
		l.readFile(l.newSection(root, ""))
		l.checkRelations()
	}
}

func (l *loader) err() error {
	if len(l.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(l.faults, byPosition)
	return l.faults
}

func byPosition(a, b Fault) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
}

// fault adds a fault of the key at path. Its place is that of the key, or of the nearest
// section around it if the file does not have the key.
func (l *loader) fault(path, format string, args ...any) {
	l.faults = append(l.faults, l.newFault(path, format, args...))
}

// warn adds a warning, as fault adds a fault.
func (l *loader) warn(path, format string, args ...any) {
	l.warnings = append(l.warnings, l.newFault(path, format, args...))
}

// faultAt adds a fault at a place of its own.
func (l *loader) faultAt(at *token.Position, path, format string, args ...any) {
	l.faults = append(l.faults, Fault{l.file, at.Line, at.Column, path, fmt.Sprintf(format, args...)})
}

func (l *loader) newFault(path, format string, args ...any) Fault {
	f := Fault{File: l.file, Line: 1, Col: 1, Key: path, Text: fmt.Sprintf(format, args...)}
	for at := path; at != ""; at = at[:max(strings.LastIndexAny(at, ".["), 0)] {
		if pos := l.positions[at]; pos != nil {
			f.Line, f.Col = pos.Line, pos.Column
			break
		}
	}
	return f
}

package linear

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// patience is how long the check of one history may take. One that takes longer counts as a
// violation; histories are kept so short that none does.
const patience = 30 * time.Second

// A line is the history of one name.
type line struct {
	name       string
	of         string       // what is called so: "txn", "key" or "lease"
	generation atomic.Int64 // the last one of its snapshots

	mu      sync.Mutex
	calls   []porcupine.Operation
	unknown int     // how many of them have an unknown outcome
	known   []known // leases that were acquired, the newest last
}

func (l *line) add(client int64, in input, began int64, out output, ended int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, porcupine.Operation{ClientId: int(client), Input: in, Call: began, Output: out, Return: ended})
	switch {
	case out.Outcome == Unknown:
		l.unknown++
	case in.Kind == Acquire && out.Outcome == Done:
		l.known = append(l.known, known{in.Holder, out.Token})
	}
}

// full reports whether there should be no further write, see maxUnknown.
func (l *line) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unknown >= maxUnknown
}

// holding is one of the leases that were acquired, mostly the newest.
func (l *line) holding() (known, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch n := len(l.known); {
	case n == 0:
		return known{}, false
	case rand.IntN(3) == 0:
		return l.known[rand.IntN(n)], true
	default:
		return l.known[n-1], true
	}
}

// model is the model that the history is checked against.
func (l *line) model() porcupine.Model {
	switch l.of {
	case "txn":
		return model(stepTxn)
	case "key":
		return model(stepKey)
	}
	return model(stepLease)
}

// check reports whether the history is linearizable. If not, it returns the result and the
// page in dir where the history is drawn.
func (l *line) check(dir string) (page string, ok bool) {
	l.contend()
	result, info := porcupine.CheckOperationsVerbose(l.model(), l.calls, patience)
	if result == porcupine.Ok {
		return "", true
	}
	page = filepath.Join(dir, fmt.Sprintf("linear-%d-%s.html", os.Getpid(), l.name))
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		err = porcupine.VisualizePath(l.model(), info, page)
	}
	if err != nil {
		page = fmt.Sprintf("%s (not drawn: %v)", l.name, err)
	}
	return fmt.Sprintf("%s: %s", result, page), false
}

// contend marks calls that overlap with a PutSnapshot: one that is a PutSnapshot itself may
// be refused because of it.
func (l *line) contend() {
	puts := slices.DeleteFunc(slices.Clone(l.calls), func(o porcupine.Operation) bool { return o.Input.(input).Kind != PutSnapshot })
	for i, o := range l.calls {
		in := o.Input.(input)
		in.Contended = slices.ContainsFunc(puts, func(p porcupine.Operation) bool {
			return p.Call != o.Call && p.Call < o.Return && p.Return > o.Call
		})
		l.calls[i].Input = in
	}
}

// Artifacts returns the directory artifacts/ at the root of the repository, for pages that CI keeps. That is
// where the go.mod of the product is, one directory above that of the tests. Outside of a module it returns
// the temporary directory.
func Artifacts() string {
	hasModule := func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		return err == nil
	}
	dir, err := os.Getwd()
	for err == nil && !hasModule(dir) {
		if dir == filepath.Dir(dir) {
			return os.TempDir()
		}
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return os.TempDir()
	}
	if hasModule(filepath.Dir(dir)) {
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, "artifacts")
}

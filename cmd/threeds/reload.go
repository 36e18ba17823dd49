package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/openthreeds/threeds/internal/keyring"
)

// pollEvery is how often the files are looked at. A change is applied when the files
// are the same at two looks in a row.
const pollEvery = 2 * time.Second

// Marks tell whether files have changed: a digest of the content of each, by path, zero
// for a file that cannot be read. Modification times are not looked at, so a file may be
// replaced in any way, by a swapped link too.
type marks map[string][sha256.Size]byte

var errMoving = errors.New("the file changes while it is read")

// file reads a file and marks it.
func (m marks) file(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		m[path] = [sha256.Size]byte{}
		return nil, err
	}
	mark := sha256.Sum256(data)
	if before, ok := m[path]; ok && before != mark {
		return nil, errMoving
	}
	m[path] = mark
	return data, nil
}

// again marks the same files as they are now. One that could not be opened because this
// process, or the machine, has too many open keeps its mark: that says nothing of it.
func (m marks) again() marks {
	now := make(marks, len(m))
	for path, was := range m {
		mark, err := markOf(path)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			mark = was
		}
		now[path] = mark
	}
	return now
}

// markOf marks a file without holding its content in memory: revocation lists are long.
func markOf(path string) (mark [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return mark, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return mark, err
	}
	sum.Sum(mark[:0])
	return mark, nil
}

// A reloader applies a changed configuration while the node serves: all of it, or
// nothing if anything in it is wrong.
type reloader struct {
	file    string
	node    *node
	log     *slog.Logger
	level   *slog.LevelVar
	manager *manager

	inUse *config
	ring  *keyring.Ring
	tried marks // of the files, at the last attempt
	seen  marks // at the last look, if they differed from tried
}

// run reloads when the files have changed, and at a signal, until ctx ends.
func (r *reloader) run(ctx context.Context, again <-chan os.Signal, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
			r.reload(ctx, "signal")
		case <-ticker.C:
			if r.changed() {
				r.reload(ctx, "changed files")
			}
		}
	}
}

// changed reports whether the files differ from those of the last attempt, and are as
// they were at the last look: those that are still being written are not.
func (r *reloader) changed() bool {
	now := r.tried.again()
	if maps.Equal(now, r.tried) {
		r.seen = nil
		return false
	}
	still := maps.Equal(now, r.seen)
	r.seen = now
	return still
}

// reload applies what is in the files, or logs an error that says why not.
func (r *reloader) reload(ctx context.Context, why string) {
	r.manager.reloading()
	defer r.manager.ready()
	warnings, err := r.attempt(ctx)
	defer func() { r.node.metrics.Reloaded(err == nil) }()
	if err != nil {
		r.log.Error("configuration refused, the former one stays in use", "because_of", why, "faults", strings.Split(err.Error(), "\n"))
		return
	}
	for _, w := range warnings {
		r.log.Warn("configuration", "warning", w)
	}
	r.log.Info("configuration taken up", "because_of", why)
}

// attempt loads and builds as serve does at the start.
func (r *reloader) attempt(ctx context.Context) (warnings []string, err error) {
	next := r.tried.again() // files that this attempt does not come to read are still watched
	defer func() { r.tried, r.seen = next, nil }()
	l, err := newLoader(r.file)
	if err != nil {
		return nil, err
	}
	l.former = r.inUse
	l.unchangeable(r.inUse)
	l.known = r.inUse.lists()
	ring := l.nextRing(r.ring, r.inUse.Store.URL, r.node.book.NoneJudged())
	c, warnings, err := l.load(time.Now())
	if err != nil {
		maps.Copy(next, l.read)
		return nil, err
	}
	next = l.read
	if err := r.node.adopt(ctx, *c.node(r.log, ring)); err != nil {
		return nil, err
	}
	r.level.Set(c.level())
	c.certs.log(r.log, time.Now())
	r.inUse, r.ring = c, ring
	return warnings, nil
}

// unchangeable refuses what a running process cannot change.
func (l *loader) unchangeable(inUse *config) {
	c := l.config
	for _, fixed := range []struct {
		path string
		same bool
	}{
		{"api.listen", c.API.Listen == inUse.API.Listen},
		{"results.listen", c.Results.Listen == inUse.Results.Listen},
		{"console.listen", c.Console.Listen == inUse.Console.Listen},
		{"store.url", c.Store.URL == inUse.Store.URL},
		{"limits.connections", c.Limits.Connections == inUse.Limits.Connections},
		{"limits.wait", c.Limits.Wait == inUse.Limits.Wait},
		{"tracing", c.Tracing.same(inUse.Tracing)},
	} {
		if !fixed.same {
			l.fault(fixed.path, "cannot change in a running process (restart it to apply this)")
		}
	}
}

// nextRing reads the key file. It must still hold the secret that is in use: ids are made,
// and results and rows of API keys sealed with that until the moment of the change. A node
// that is replaceable can judge no API key with it, so it has made nothing, and takes any
// other file. If the store is another one, which is a fault already, the key file is not
// read.
func (l *loader) nextRing(inUse *keyring.Ring, store storeAt, replaceable bool) *keyring.Ring {
	if l.config.Store.URL != store {
		return nil
	}
	if _, ok := l.open(l.config.Keys, "keys"); !ok {
		return nil
	}
	ring, err := keyring.Load(l.config.Keys)
	if err != nil {
		l.fault("keys", "%v", err)
		return nil
	}
	if !replaceable && !ring.Opens(inUse) {
		l.fault("keys", "the value in use is not in the file any more (keep it there as previous or next)")
		return nil
	}
	return ring
}

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyhelper"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/console"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/keyring"
)

// pollEvery is how often the files are read for changes. A change is applied when two
// readings in a row are the same.
const pollEvery = 2 * time.Second

// A reloader applies a changed configuration while the server runs: all of it, or
// nothing if anything in it is wrong.
type reloader struct {
	file     string
	server   *Server
	log      *slog.Logger
	level    *slog.LevelVar
	notifier *notifier

	release string

	inUse atomic.Pointer[config.Config]

	mu         sync.Mutex   // guards what follows
	tried      config.Files // as they were at the last attempt
	seen       config.Files // at the last reading, if they differed from tried
	inUseFiles config.Files // that inUse was read from

	// awaitsHelper is set when the last attempt has failed, in whole or in part, while requests to the key helper failed.
	// Only run uses it.
	awaitsHelper bool
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
			switch {
			case r.hasChanged():
				r.reload(ctx, "changed files")
			case r.awaitsHelper && r.inUse.Load().Helper.Problem() == "":
				r.reload(ctx, "the key helper answers again")
			}
		}
	}
}

// hasChanged reports whether the files differ from those of the last attempt and are the same
// as at the last reading. Files that are still being written are not.
func (r *reloader) hasChanged() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.tried.Current()
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
	r.notifier.reloading()
	defer r.notifier.ready()
	former := r.inUse.Load()
	var helper *keyhelper.Helper
	if former != nil {
		helper = former.Helper
		helper.Keep(former.HelperKeys()) // what an earlier attempt has asked for counts no more
	}
	failures := helper.Failures()
	warnings, changed, err := r.load(ctx)
	defer func() { r.server.metrics.Reloaded(err == nil) }()
	r.awaitsHelper = helper.Failures() > failures
	if err != nil {
		lines := faultLines(err)
		text := r.describeRefusal(lines)
		if r.awaitsHelper {
			text += triedAgain
		}
		r.log.Error("configuration refused, the previous one stays in use", "because_of", why, "faults", lines,
			"tried_again", r.awaitsHelper)
		r.server.configProblem.Store(&text)
		return
	}
	inUse := r.inUse.Load()
	helper.Keep(inUse.HelperKeys())
	r.server.configProblem.Store(nil)
	if r.awaitsHelper = r.awaitsHelper && len(inUse.Certificates.Faults(time.Now())) > 0; r.awaitsHelper {
		text := "is in use in part, for the key helper has failed" + triedAgain
		r.log.Warn("configuration in use in part, and tried again when the key helper answers")
		r.server.configProblem.Store(&text)
	}
	for _, w := range warnings {
		r.log.Warn("configuration", "warning", w)
	}
	r.log.Info("configuration taken up", "because_of", why, "former", former.Hash(), "config", r.inUse.Load().Hash(),
		"changed", changed)
	r.record(ctx, former.Hash(), why)
}

// triedAgain says in /readyz when a configuration is tried again that the key helper has kept from use.
const triedAgain = "; it is tried again when the key helper answers"

// faultLines returns each fault of a configuration.
func faultLines(err error) []string {
	if faults, ok := errors.AsType[config.Faults](err); ok {
		return faults.Lines()
	}
	return []string{err.Error()}
}

// describeRefusal says in words for /readyz that a configuration was refused, by its faults, and whether a start would
// refuse it too.
func (r *reloader) describeRefusal(lines []string) string {
	how := "is not in use until a restart: "
	if c, _, err := config.Load(r.file, time.Now()); err == nil {
		c.Helper.Close()
	} else {
		how, lines = "is refused, and the next start would fail: ", faultLines(err)
	}
	text := how + lines[0]
	if more := len(lines) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// describe returns the configuration in use, and how that in the file differs from it.
func (r *reloader) describe() *admin.Configuration {
	inUse := r.inUse.Load()
	shown := &admin.Configuration{
		File: r.file, Settings: []admin.Setting{}, Changes: []admin.SettingChange{}, Faults: []string{},
	}
	for _, s := range inUse.Settings() {
		shown.Settings = append(shown.Settings,
			admin.Setting{Key: s.Key, Value: s.Value, SecretFile: s.SecretFile, Source: string(s.Source), Line: s.Line})
	}
	next, _, err := config.Load(r.file, time.Now())
	if err != nil {
		shown.Faults = faultLines(err)
		return shown
	}
	defer next.Helper.Close()
	for _, ch := range inUse.Diff(next) {
		shown.Changes = append(shown.Changes, admin.SettingChange(ch))
	}
	return shown
}

// configCondition says whether the configuration on disk is in use.
func (s *Server) configCondition() console.Condition {
	return console.Condition{Name: "configuration", Check: func() (string, bool) {
		if problem := s.configProblem.Load(); problem != nil {
			return *problem, true
		}
		return "", true
	}}
}

// recordLimit is how long the audit trail may keep a reload from its end.
const recordLimit = 5 * time.Second

// reloadHash is what the audit trail says of a configuration: its hash, which /readyz has, too.
type reloadHash struct {
	Config string `json:"config"`
}

// record adds a reload to the audit trail. The configuration is in use already, so an unreachable store does not
// matter.
func (r *reloader) record(ctx context.Context, before, why string) {
	ctx, stop := context.WithTimeout(ctx, recordLimit)
	defer stop()
	err := r.server.operators.Record(ctx, operator.Entry{
		Who: nodeActor(), From: why, Action: "config.reload", Object: filepath.Base(r.file),
		Before: reloadHash{before}, After: reloadHash{r.inUse.Load().Hash()},
	})
	if err != nil {
		r.log.Warn("reload not in the audit trail", "err", err)
	}
}

// nodeActor is how the audit trail calls this server.
func nodeActor() string {
	host, _ := os.Hostname() // without a name the entry says so
	return "node:" + cmp.Or(host, "unknown")
}

// load loads and builds as Serve does at the start. It returns the warnings, and the keys that have changed.
func (r *reloader) load(ctx context.Context) (warnings, changed []string, err error) {
	r.mu.Lock()
	next := r.tried.Current() // files that this attempt does not come to read are still watched
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tried, r.seen = next, nil
	}()
	var ring *keyring.Ring
	c, files, err := r.inUse.Load().Reload(r.file, time.Now(), func(file string) (err error) {
		ring, err = r.loadNextRing(file)
		return err
	})
	if err != nil {
		maps.Copy(next, files)
		return nil, nil, err
	}
	next = files
	if err := r.server.activate(ctx, *newConfig(c, r.log, nil, r.release)); err != nil {
		return nil, nil, err
	}
	r.server.setFileRing(ring)
	r.level.Set(logLevel(c))
	c.Certificates.Log(r.log, time.Now())
	r.mu.Lock()
	changed = r.inUse.Load().ChangedKeys(c, r.inUseFiles, files)
	r.inUseFiles = maps.Clone(files)
	r.mu.Unlock()
	r.inUse.Store(c)
	return c.Warnings, changed, nil
}

// loadNextRing reads the key file. It must still hold the secret that is in use: ids are made,
// and results and rows of API keys sealed with that until the moment of the change. A
// server that is replaceable can judge no API key with it, so it has made nothing, and
// takes any other file. Secrets that have come by a rotation since count as if the file had them.
func (r *reloader) loadNextRing(file string) (*keyring.Ring, error) {
	ring, err := keyring.LoadIn(r.inUse.Load().Vault(), file)
	if err != nil {
		return nil, err
	}
	s := r.server
	extended := ring
	if s.follower != nil {
		extended = s.follower.Extended(ring)
	}
	if s.apiKeys.CanJudge() && !extended.Opens(s.ring.Load()) {
		return nil, errors.New("the value in use is no longer in the file (keep it there as previous or next)")
	}
	return ring, nil
}

// fileReplaced keeps the key file, which this process has replaced, from being reloaded.
func (r *reloader) fileReplaced(file string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, isWatched := r.tried[file]; isWatched {
		now := config.Files{}
		if _, err := now.Read(file); err == nil {
			r.tried[file] = now[file]
			r.inUseFiles[file] = now[file]
		}
	}
}

package server

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/engine/mpi"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/account"
)

// TestChangeIsAppliedOnce: a change is tried once, at the second look that finds it, and what does not
// change is never tried.
func TestChangeIsAppliedOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	synctest.Test(t, func(t *testing.T) {
		var log waittest.Log
		r := &reloader{
			file: filepath.Join(dir, "none"), server: &Server{metrics: obs.NewMetrics()},
			log: slog.New(slog.NewTextHandler(&log, nil)), tried: config.Files{file: {}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.run(ctx, nil, pollEvery)
		for i, content := range []string{"", "a", "b"} {
			if content != "" {
				write(t, file, []byte(content))
			}
			for look := range 5 {
				time.Sleep(pollEvery)
				synctest.Wait()
				want := i
				if look == 0 && i > 0 {
					want--
				}
				if got := strings.Count(log.String(), "configuration refused"); got != want {
					t.Fatalf("%d changes, look %d: tried %d times, want %d", i, look, got, want)
				}
			}
		}
	})
}

// TestHalfWrittenFileIsNoChange: what is still being written is not taken.
func TestHalfWrittenFileIsNoChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	r := &reloader{tried: config.Files{}}
	if _, err := r.tried.Read(file); err == nil {
		t.Fatal("it is there")
	}
	for i, step := range []struct {
		content string
		want    bool
	}{
		{"", false}, {"a", false}, {"ab", false}, {"abc", false}, {"abc", true},
	} {
		if step.content != "" {
			write(t, file, []byte(step.content))
		}
		if got := r.hasChanged(); got != step.want {
			t.Errorf("look %d at %q: changed = %t", i, step.content, got)
		}
	}
	r.tried, r.seen = r.tried.Current(), nil
	if r.hasChanged() {
		t.Error("changed after it was taken")
	}
	write(t, file, []byte("d"))
	r.hasChanged()
	write(t, file, []byte("abc"))
	for range 2 {
		if r.hasChanged() {
			t.Error("changed though it is again as it was taken")
		}
	}
	write(t, file, []byte("d")) // a second time
	if r.hasChanged() {
		t.Error("taken at the first look, for it had been like this once")
	}
	write(t, file, []byte("abc"))
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if r.hasChanged() || !r.hasChanged() {
		t.Error("a file that is gone is a change, at the second look")
	}
}

// TestRefusedConfigurationIsTriedOnce: files are taken up when they have changed, once, though they be refused;
// one that was missing counts from when it comes.
func TestRefusedConfigurationIsTriedOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "threeds.yaml")
	write(t, file, []byte("none"))
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := &reloader{
			file: file, server: &Server{metrics: obs.NewMetrics(), apiKeys: account.New(nil, nil, nil, nil)},
			log: slog.New(slog.NewTextHandler(&log, nil)), tried: config.Files{},
		}
		r.inUse.Store(new(config.Config))
		_, err := r.tried.Read(file)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() {
			r.run(ctx, nil, pollEvery)
			close(ended)
		}()
		for _, step := range []struct {
			name, content string
			want          int
		}{
			{"threeds.yaml", "none", 0},
			{"threeds.yaml", "none: [", 1},
			{"threeds.yaml", "none: [", 1},
			{"threeds.yaml", "api: {tls: {cert: api.pem, key: api-key.pem}}", 2},
			{"api.pem", "none", 3},
			{"api.pem", "none", 3},
		} {
			write(t, filepath.Join(dir, step.name), []byte(step.content))
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := strings.Count(log.String(), "configuration refused"); n != step.want {
				t.Errorf("%s, %q: refused %d times, want %d:\n%s", step.name, step.content, n, step.want, log.String())
			}
		}
		cancel()
		<-ended
	})
}

// TestReloadThatCannotBeBuiltIsRefused: a configuration that can be read, but from which no server can be built, is
// refused like any other, once. There is no such file, so the test adds an unknown version to what was read.
func TestReloadThatCannotBeBuiltIsRefused(t *testing.T) {
	file, text := writeConfig(t)
	c, files, err := config.Load(file, time.Now())
	must(t, err)
	ring, err := LoadKeyRing(t.Context(), c)
	must(t, err)
	_, err = files.Read(c.Keys)
	must(t, err)
	n, _ := idleServer(t)
	n.ring.Store(ring)
	was, wasRing := n.active, ring
	var log bytes.Buffer
	r := &reloader{file: file, server: n, log: slog.New(slog.NewTextHandler(&log, nil)), level: new(slog.LevelVar), tried: files}
	r.inUse.Store(c)
	spoken := config.Versions
	t.Cleanup(func() { config.Versions = spoken })
	config.Versions = append(slices.Clone(config.Versions), "9.9.9")
	write(t, file, []byte(strings.NewReplacer("versions: [2.1.0, 2.2.0, 2.3.1]", "versions: [9.9.9]", "level: debug", "level: error").Replace(text)))
	r.reload(t.Context(), "signal")
	if said := log.String(); !strings.Contains(said, "configuration refused") ||
		!strings.Contains(said, "no protocol version") || strings.Contains(said, "taken up") {
		t.Errorf("said %s", said)
	}
	if n.active != was || r.inUse.Load() != c || n.ring.Load() != wasRing || r.level.Level() != slog.LevelInfo {
		t.Errorf("something of it is in use: %+v", r)
	}
	for range 2 { // a change is used once the next check finds the same content
		if r.hasChanged() {
			t.Error("it would be tried again, though nothing has changed")
		}
	}
}

// TestConsoleShowsTheConfigurationAsTheCommandsDo: every key in use with its line, what another file would change and
// whether that needs a restart, and why a start with it would fail. No secret is among it.
func TestConsoleShowsTheConfigurationAsTheCommandsDo(t *testing.T) {
	file, text := writeConfig(t)
	c, files, err := config.Load(file, time.Now())
	must(t, err)
	r := &reloader{file: file, tried: files}
	r.inUse.Store(c)
	shown := r.describe()
	if len(shown.Settings) != len(c.Settings()) || shown.File != file || len(shown.Changes)+len(shown.Faults) != 0 {
		t.Errorf("in use: %d settings of %s, %v, %v", len(shown.Settings), shown.File, shown.Changes, shown.Faults)
	}
	at := slices.IndexFunc(shown.Settings, func(s admin.Setting) bool { return s.Key == "log.level" })
	if at < 0 ||
		shown.Settings[at] != (admin.Setting{Key: "log.level", Value: "debug", Source: "file", Line: shown.Settings[at].Line}) || shown.Settings[at].Line == 0 {
		t.Errorf("log.level is not shown as the file has it: %+v", shown.Settings)
	}
	write(t, file, []byte(strings.Replace(text, "level: debug", "level: error", 1)))
	want := admin.SettingChange{Key: "log.level", Before: "debug", After: "error", Line: shown.Settings[at].Line}
	if changed := r.describe(); len(changed.Changes) != 1 || changed.Changes[0] != want {
		t.Errorf("changes are %+v, want %+v", changed.Changes, want)
	}
	write(t, file, []byte(strings.Replace(text, "level: debug", "level: loud", 1)))
	if broken := r.describe(); len(broken.Changes) != 0 || len(broken.Faults) != 1 || !strings.Contains(broken.Faults[0], "log.level") {
		t.Errorf("faults are %v, want one of log.level; changes are %v", broken.Faults, broken.Changes)
	}
}

// TestV1RangesAreOfAnAddress: card ranges of 3-D Secure 1.0.2 are asked for at the
// address that is configured, and known by it.
func TestV1RangesAreOfAnAddress(t *testing.T) {
	d := config.V1Directory{DirectoryURL: "https://ds.example/"}
	r := setNew(&d.CardRanges)
	r.AcquirerBIN, r.MerchantID = "400551", "m"
	var cfg Config
	cfg.addV1Directory(d, new(config.Config))
	if got, want := *cfg.V1Directories[0].CardRanges, (mpi.Asker{URL: d.DirectoryURL, AcquirerBIN: "400551", MerchantID: "m"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func setNew[T any](p **T) *T {
	*p = new(T)
	return *p
}

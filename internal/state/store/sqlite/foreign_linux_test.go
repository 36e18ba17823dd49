package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

// TestForeignFile: a backup that root has restored may be readable but not writable. A server that uses it would say
// that it is ready and refuse every authentication.
func TestForeignFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(dir, "threeds.db")
	if err := openIn(t, dir, newClock()).Close(); err != nil {
		t.Fatal(err)
	}
	for at, mode := range map[string]os.FileMode{
		file: 0o444, dir: 0o777, filepath.Dir(dir): 0o755, filepath.Dir(filepath.Dir(dir)): 0o755,
	} {
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
	}
	opened, untested := make(chan error, 1), make(chan error, 1)
	go func() {
		if os.Geteuid() == 0 { // a user who may write everywhere
			runtime.LockOSThread() // and the thread ends with this goroutine
			_ = syscall.Setfsuid(65534)
		}
		_, unread := os.ReadFile(file)
		if f, err := os.OpenFile(file, os.O_RDWR, 0); unread != nil || err == nil {
			_ = f.Close()
			untested <- unread
			return
		}
		db, err := sqlite.Open(dir, sqlite.Options{})
		if err == nil {
			err = errors.Join(errors.New("it opens"), db.Close())
		}
		opened <- err
	}()
	select {
	case err := <-untested:
		t.Skipf("NOT TESTED: a user of little rights cannot be played here: %v", err)
	case err := <-opened:
		if !strings.Contains(err.Error(), "threeds.db cannot be written to") {
			t.Errorf("Open of a file that can only be read: %v", err)
		}
	}
}

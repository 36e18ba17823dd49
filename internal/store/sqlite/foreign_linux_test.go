package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/internal/store/sqlite"
)

// TestForeignFile: a backup that root has put back may be read and not written. A server
// on it would say that it is ready and refuse every authentication.
func TestForeignFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := openIn(t, dir, newClock()).Close(); err != nil {
		t.Fatal(err)
	}
	for at, mode := range map[string]os.FileMode{
		filepath.Join(dir, "threeds.db"): 0o444, dir: 0o777, filepath.Dir(dir): 0o755, filepath.Dir(filepath.Dir(dir)): 0o755,
	} {
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
	}
	opened := make(chan error)
	go func() {
		if os.Geteuid() == 0 { // who may write everywhere
			runtime.LockOSThread() // and the thread ends with this goroutine
			_ = syscall.Setfsuid(65534)
		}
		db, err := sqlite.Open(dir, sqlite.Options{})
		if err == nil {
			err = errors.Join(errors.New("it opens"), db.Close())
		}
		opened <- err
	}()
	if err := <-opened; !strings.Contains(err.Error(), "threeds.db cannot be written to") {
		t.Errorf("Open of a file that can only be read: %v", err)
	}
}

//go:build unix

package operators

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestRootMakesFilesForTheUserOfTheServer: a command that root runs before the first start makes the store
// and the key files. They belong to whom the directory belongs to that they are in, so that a server which is
// not root can read them.
func TestRootMakesFilesForTheUserOfTheServer(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the test is about files that root makes: only root can give files to another user")
	}
	const server = 65534
	for name, makeData := range map[string]bool{"the directory of the store is the server's": true, "the one above is": false} {
		t.Run(name, func(t *testing.T) {
			file := checkSite(t, rig.Plan{Sections: "journal: {keep: 30d}\n"})
			data := filepath.Join(filepath.Dir(file), "data")
			if makeData {
				rig.Must(t, os.Mkdir(data, 0o700))
				rig.Must(t, os.Chown(data, server, server))
			} else {
				rig.Must(t, os.Chown(filepath.Dir(file), server, server))
			}
			for _, line := range []string{"key create --name Shop", "journal generate --authentications 2 --days 1 --merchants 1"} {
				var out, errs strings.Builder
				args := append(strings.Fields(line), "--config", file)
				if code := rig.Run(t.Context(), args, strings.NewReader(""), &out, &errs); code != 0 {
					t.Fatalf("%s: exit status %d: %s", line, code, errs.String())
				}
			}
			seen := map[string]bool{}
			rig.Must(t, filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := entry.Info()
				if err != nil {
					return err
				}
				owner := info.Sys().(*syscall.Stat_t)
				if owner.Uid != server || owner.Gid != server || info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s is of %d:%d with mode %v", path, owner.Uid, owner.Gid, info.Mode())
				}
				seen[entry.Name()[:min(len(entry.Name()), 7)]] = true
				return nil
			}))
			for _, want := range []string{"threeds", "keys.js", "journal"} {
				if !seen[want] {
					t.Errorf("no %s… was made: the test shows little", want)
				}
			}
		})
	}
}

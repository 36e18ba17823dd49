//go:build unix

package keyring

import (
	"io/fs"
	"os"
	"syscall"
)

// isForeign reports whether a file belongs to another user than this process.
func isForeign(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) != os.Geteuid()
}

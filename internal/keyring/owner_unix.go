//go:build unix

package keyring

import (
	"io/fs"
	"os"
	"syscall"
)

// foreign reports whether a file belongs to another user than this process.
func foreign(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) != os.Geteuid()
}

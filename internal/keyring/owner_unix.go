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

// keepOwner gives f the owner and the group of another file.
func keepOwner(f *os.File, was fs.FileInfo) error {
	owner, ok := was.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if now, ok := info.Sys().(*syscall.Stat_t); ok && now.Uid == owner.Uid && now.Gid == owner.Gid {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

//go:build unix

package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// isForeign reports whether a file belongs to another user than this process.
func isForeign(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) != os.Geteuid()
}

// InheritOwner gives a new file that root has made the owner and the group of its directory, unless that is root's. So
// a server that runs as another user can read what a command of root has made for it.
func InheritOwner(f *os.File) error {
	owner, err := heir(f.Name())
	if owner == nil || err != nil {
		return err
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

// inheritOwnerOfDir is InheritOwner for a new directory. A link that somebody has put in its place is not followed.
func inheritOwnerOfDir(dir string) error {
	owner, err := heir(dir)
	if owner == nil || err != nil {
		return err
	}
	return os.Lchown(dir, int(owner.Uid), int(owner.Gid))
}

// heir returns whose a new file has to be, by the directory that it is in; nil means this process's user.
func heir(path string) (*syscall.Stat_t, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil, nil
	}
	return owner, nil
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

// lockDir keeps other processes of this machine that call it from making and replacing files of a directory until
// unlock is called. It removes temporary files that a process has left which was killed: they have secrets. A file
// system without locks is taken as it is.
func lockDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX)
	}
	if err == nil { // else they may be of a process that goes on
		if err := removeTemps(dir); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return func() { _ = d.Close() }, nil // which ends the lock
}

// removeTemps removes the temporary files of a directory, but for those of others that it may not remove.
func removeTemps(dir string) error {
	all, err := os.ReadDir(dir)
	for _, entry := range all {
		number, isTemp := strings.CutPrefix(entry.Name(), tempPrefix)
		if isTemp && strings.Trim(number, "0123456789") == "" && entry.Type().IsRegular() {
			if failed := os.Remove(filepath.Join(dir, entry.Name())); !errors.Is(failed, fs.ErrPermission) {
				err = errors.Join(err, failed)
			}
		}
	}
	return err
}

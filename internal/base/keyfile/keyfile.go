// Package keyfile reads and writes files of secrets, which are for their owner alone.
package keyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// maxFile is more than the secrets of most files need, in bytes.
	maxFile = 8192

	// maxSealed is more than such a file needs when it is sealed by a [Vault].
	maxSealed = 4 * maxFile

	// tempPrefix begins the name of a temporary file, before a number. Who makes one has locked the folder, so one that is
	// there before was left by a process that was killed.
	tempPrefix = ".keys-"

	// maxLarge is more than the keys of a journal need from which ten thousand authentications were erased.
	maxLarge = 32 << 20
)

// Read returns the content of a file. It refuses a file that others than its owner may
// read or write. One that belongs to somebody else may be read by its group: that is how a
// manager of containers hands us a secret. Errors show nothing of the content.
func Read(path string) ([]byte, error) {
	data, err := read(path, maxSealed)
	if err == nil && len(data) > maxFile && parseSealed(data) == nil {
		return nil, tooLarge(path, maxFile)
	}
	return data, err
}

// ReadLarge is Read for a file that may have megabytes.
func ReadLarge(path string) ([]byte, error) { return read(path, maxLarge) }

func read(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && (mode&0o037 != 0 || !isForeign(info)) {
		return nil, fmt.Errorf("%s has mode %04o, others than its owner must have no access: chmod 600 %s", path, mode, path)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, tooLarge(path, limit)
	}
	return data, nil
}

func tooLarge(path string, limit int64) error {
	return fmt.Errorf("%s is larger than %d bytes", path, limit)
}

// CreateNew makes a file for its owner only, as [Create] does. The error is [fs.ErrExist] if there is one already.
func CreateNew(path string, data []byte) error { return create(path, data) }

// CheckCreateNew returns the error that [CreateNew] would return. It makes a temporary file in the
// folder, and removes it.
func CheckCreateNew(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix+"*")
	if err != nil {
		return err
	}
	return errors.Join(InheritOwner(f), f.Close(), os.Remove(f.Name()))
}

// Create makes a file if there is none, for its owner only. The content is written under
// another name, which is linked to path when it is whole and on disk. So when several
// processes make the file at once, all find that of one of them.
func Create(path string, data []byte) error {
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := create(path, data); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func create(path string, data []byte) error {
	dir := filepath.Dir(path)
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	f, err := os.CreateTemp(dir, tempPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	err = InheritOwner(f)
	if err = errors.Join(err, finish(f, data)); err == nil {
		err = os.Link(f.Name(), path)
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return err
	}
	return SyncDir(dir)
}

// MakeDir makes a directory for its owner alone, and those above it that are missing. One that root makes belongs to
// the owner of the directory that it is in, as with [InheritOwner].
func MakeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o700) // which says what is wrong
	}
	if err := MakeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) { // somebody else has just made it
		return nil
	} else if err != nil {
		return err
	}
	return inheritOwnerOfDir(dir)
}

// finish writes data to a new file, and has it on disk.
func finish(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Replace replaces a file. A reader sees the old or the new content, also after a crash. Mode and owner stay; if that
// is not possible nothing is changed.
func Replace(path string, data []byte) error {
	path, was, err := resolve(path)
	if err != nil {
		return err
	}
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	return writeLike(was, path, data)
}

// ErrChanged says that a file was replaced meanwhile.
var ErrChanged = errors.New("has changed meanwhile: run this again")

// ReplaceIf is Replace for a file that still has the content was; else the error is [ErrChanged]. Between the look and
// the change no other process of this machine replaces the file by Replace.
func ReplaceIf(path string, was, data []byte) error {
	path, info, err := resolve(path)
	if err != nil {
		return err
	}
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	now, err := ReadLarge(path)
	if err == nil && !bytes.Equal(now, was) {
		err = fmt.Errorf("%s %w", path, ErrChanged)
	}
	if err != nil {
		return err
	}
	return writeLike(info, path, data)
}

// CheckReplace returns an error if [Replace] could not replace a file. It makes a temporary file in the folder, with
// the mode and the owner of the file, and removes it. It also refuses a file that is mounted by itself, for no other
// file can take its place.
func CheckReplace(path string) error {
	path, was, err := resolve(path)
	if err != nil {
		return err
	}
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	f, err := tempLike(was, filepath.Dir(path))
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return err
	}
	// A link from another mount is refused. Any other refusal says nothing: not all file systems have hard links.
	switch err := os.Link(path, f.Name()); {
	case errors.Is(err, syscall.EXDEV):
		return &fs.PathError{Op: "replace", Path: path, Err: errors.New("the file is mounted by itself: mount its folder")}
	case err == nil:
		return os.Remove(f.Name())
	}
	return nil
}

// pendingSuffix ends the name of the file in which [WritePending] keeps what is to replace another.
const pendingSuffix = ".new"

// PendingPath returns the path of the file in which [WritePending] keeps what is to replace a file.
func PendingPath(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	return path + pendingSuffix, err
}

// WritePending keeps what is to replace a file, in a file of the same mode and owner next to it: see [PendingPath]. One
// that is there is replaced, as [Replace] does.
func WritePending(path string, data []byte) error {
	path, was, err := resolve(path)
	if err != nil {
		return err
	}
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	return writeLike(was, path+pendingSuffix, data)
}

// RemovePending removes the file that [WritePending] has made, if there is one.
func RemovePending(path string) error {
	pending, err := PendingPath(path)
	if err == nil {
		var unlock func()
		if unlock, err = lockDir(filepath.Dir(pending)); err == nil {
			defer unlock()
		}
	}
	if err == nil {
		_, err = os.Lstat(pending) // a file system that is read-only refuses to remove what is not there
	}
	if err == nil {
		err = os.Remove(pending)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return SyncDir(filepath.Dir(pending))
}

// resolve returns the file that a path leads to.
func resolve(path string) (target string, info fs.FileInfo, err error) {
	if target, err = filepath.EvalSymlinks(path); err != nil {
		return "", nil, err
	}
	info, err = os.Stat(target)
	return target, info, err
}

// tempLike makes a temporary file with the mode and the owner of another, in a folder that is locked.
func tempLike(was fs.FileInfo, dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, tempPrefix+"*") // mode 0600
	if err != nil {
		return nil, err
	}
	if err := errors.Join(keepOwner(f, was), f.Chmod(was.Mode().Perm())); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, nil
}

// writeLike makes a file with the mode and the owner of another, in the place of one that is there.
func writeLike(was fs.FileInfo, path string, data []byte) error {
	dir := filepath.Dir(path)
	f, err := tempLike(was, dir)
	if err != nil {
		return err
	}
	err = finish(f, data)
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(dir)
}

// SyncDir makes new names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

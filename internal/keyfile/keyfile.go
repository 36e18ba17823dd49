// Package keyfile reads and writes files of secrets, which are for their owner alone.
package keyfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFile is more than the secrets of any file need.
const maxFile = 4096

// Read returns the content of a file. It refuses a file that others than its owner may
// read or write. One that belongs to somebody else may be read by its group: that is how a
// manager of containers hands us a secret. Errors show nothing of the content.
func Read(path string) ([]byte, error) {
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
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return data, nil
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
	f, err := os.CreateTemp(dir, ".keys-*") // mode 0600
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
	return syncDir(dir)
}

// MakeDir makes a directory for its owner alone, and those above it that are missing. One that root makes belongs to the
// owner of the directory that it is in, as with [InheritOwner].
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

// Replace replaces a file. Whoever reads it sees the content before or after, also after a
// crash. Mode and owner stay; if that is not possible nothing is changed.
func Replace(path string, data []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	was, err := os.Stat(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".keys-*") // mode 0600
	if err != nil {
		return err
	}
	if err := errors.Join(keepOwner(f, was), f.Chmod(was.Mode().Perm())); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	err = finish(f, data)
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// syncDir makes a new name in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

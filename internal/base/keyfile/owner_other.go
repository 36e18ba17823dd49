//go:build !unix

package keyfile

import (
	"io/fs"
	"os"
)

// isForeign reports whether a file belongs to another user than this process, which this system does not say.
func isForeign(fs.FileInfo) bool { return false }

// InheritOwner gives a new file the owner of its directory, which cannot be done here.
func InheritOwner(*os.File) error { return nil }

func inheritOwnerOfDir(string) error { return nil }

// lockDir keeps other processes from replacing files of a directory, which cannot be done here.
func lockDir(string) (unlock func(), err error) { return func() {}, nil }

// keepOwner gives f the owner of another file, which cannot be done here.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

package config

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"syscall"
)

// Files are the files that a configuration was read from, with a digest of the content of
// each, by path. The digest is zero for a file that cannot be read. Comparing two Files shows whether any file has
// changed. Modification times do not count, so a file may be replaced in any way, by a swapped link too.
type Files map[string][sha256.Size]byte

var errFileChanges = errors.New("the file changes while it is read")

// Read returns the content of a file and adds the file to f. It is an error if the file
// was added before with another content.
func (f Files) Read(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		f[path] = [sha256.Size]byte{}
		return nil, err
	}
	digest := sha256.Sum256(data)
	if before, ok := f[path]; ok && before != digest {
		return nil, errFileChanges
	}
	f[path] = digest
	return data, nil
}

// Current returns the same files as they are now. A file that cannot be opened because
// this process, or the machine, has too many open files keeps its digest: that is no
// change of the file.
func (f Files) Current() Files {
	now := make(Files, len(f))
	for path, was := range f {
		digest, err := digestOf(path)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			digest = was
		}
		now[path] = digest
	}
	return now
}

// digestOf reads a file without holding its content in memory: revocation lists are long.
func digestOf(path string) (digest [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return digest, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return digest, err
	}
	sum.Sum(digest[:0])
	return digest, nil
}

package difftest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
)

// SumFiles returns SHA-256 over the names and the contents of all files of a folder, in hexadecimal. Use it where a
// test has what a slower one made of these files, and has to know whether it is still that.
func SumFiles(dir fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(dir, name)
		fmt.Fprintf(sum, "%q %d %s", name, len(text), text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

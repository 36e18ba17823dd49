package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A ReadyFile is the file of --ready-file: it is there while everything that it names
// accepts connections. Without a path there is none.
type ReadyFile struct {
	Path    string
	content []byte
}

// RemoveStale removes the file that a sandbox which was killed has left.
func (a *ReadyFile) RemoveStale() error {
	switch info, err := os.Lstat(a.Path); {
	case a.Path == "" || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("--ready-file %s: there is something else than a file", a.Path)
	}
	return os.Remove(a.Path)
}

// publish makes the file appear with its whole content in one step.
func (a *ReadyFile) publish(members map[string]any) error {
	if a.Path == "" {
		return nil
	}
	text, err := json.MarshalIndent(members, "", "  ")
	if err != nil {
		return err
	}
	a.content = append(text, '\n')
	// The name of the temporary file is random, since the directory may be one of all users.
	f, err := os.CreateTemp(filepath.Dir(a.Path), filepath.Base(a.Path)+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(a.content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), a.Path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// remove removes the file, unless another sandbox has written its own there.
func (a *ReadyFile) remove() error {
	if text, err := os.ReadFile(a.Path); err != nil || !bytes.Equal(text, a.content) {
		return nil
	}
	return os.Remove(a.Path)
}

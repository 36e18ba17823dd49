package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A readyFile is the file of --ready-file: it is there while everything that it names
// accepts connections. Without a path there is none.
type readyFile struct {
	path    string
	content []byte
}

// removeStale removes the file that a sandbox which was killed has left.
func (a *readyFile) removeStale() error {
	switch info, err := os.Lstat(a.path); {
	case a.path == "" || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("--ready-file %s: there is something else than a file", a.path)
	}
	return os.Remove(a.path)
}

// publish makes the file appear with its whole content in one step.
func (a *readyFile) publish(members map[string]any) error {
	if a.path == "" {
		return nil
	}
	text, err := json.MarshalIndent(members, "", "  ")
	if err != nil {
		return err
	}
	a.content = append(text, '\n')
	// The name of the temporary file is random, since the directory may be one of all users.
	f, err := os.CreateTemp(filepath.Dir(a.path), filepath.Base(a.path)+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(a.content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), a.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// remove removes the file, unless another sandbox has written its own there.
func (a *readyFile) remove() error {
	if text, err := os.ReadFile(a.path); err != nil || !bytes.Equal(text, a.content) {
		return nil
	}
	return os.Remove(a.path)
}

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

// An announcement is the ready file, if one is asked for: it is there while all
// that it names accepts.
type announcement struct {
	file string
	text []byte
}

// clear takes away what a sandbox that was killed has left.
func (a *announcement) clear() error {
	switch info, err := os.Lstat(a.file); {
	case a.file == "" || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("--ready-file %s: there is something else than a file", a.file)
	}
	return os.Remove(a.file)
}

// publish makes the file appear, with all of its content at once.
func (a *announcement) publish(members map[string]any) error {
	if a.file == "" {
		return nil
	}
	text, err := json.MarshalIndent(members, "", "  ")
	if err != nil {
		return err
	}
	a.text = append(text, '\n')
	// Under a name that nobody knows before: it may be a directory of all users.
	f, err := os.CreateTemp(filepath.Dir(a.file), filepath.Base(a.file)+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(a.text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), a.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// withdraw takes the file away, unless another sandbox has written its own there.
func (a *announcement) withdraw() error {
	if text, err := os.ReadFile(a.file); err != nil || !bytes.Equal(text, a.text) {
		return nil
	}
	return os.Remove(a.file)
}

// Package seed puts faults into the source code, to see whether tests notice them. Use [Read] for the faults of a file
// and [Fault.Overlay] for the argument of the go command that builds with one of them; the tree stays as it is.
package seed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Fault is a change of one file.
type Fault struct {
	Name     string // what has to notice it: a package, or a row of the conformance suite
	File     string // from the root of the repository
	Old, New string // whole lines
}

// Read reads a file of faults: for each of them a line with its name and its file, lines that begin with "-" for
// what stands in the file, and lines that begin with "+" for what replaces it. Empty lines, and those that begin
// with "#", are left out.
func Read(path string) ([]Fault, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Fault
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		isChange := line != "" && (line[0] == '-' || line[0] == '+')
		switch {
		case line == "" || line[0] == '#':
		case isChange && len(all) == 0:
			return nil, fmt.Errorf("%s: %s stands before the first fault", path, line)
		case isChange && line[0] == '-':
			all[len(all)-1].Old += line[1:] + "\n"
		case isChange:
			all[len(all)-1].New += line[1:] + "\n"
		default:
			name, file, ok := strings.Cut(line, " ")
			if !ok {
				return nil, fmt.Errorf("%s: %s: want a name and a file", path, line)
			}
			all = append(all, Fault{Name: name, File: file})
		}
	}
	return all, nil
}

// Source returns the source of the file with the fault. It is an error if the old lines are not in the file exactly
// once. root is the path of the repository.
func (f *Fault) Source(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, f.File))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), f.Old); n != 1 {
		return "", fmt.Errorf("%s has these lines %d times, want once:\n%s", f.File, n, f.Old)
	}
	return strings.Replace(string(source), f.Old, f.New, 1), nil
}

// Overlay writes the changed file into dir, and returns the argument with which the go command reads it in place of the
// one in the repository.
func (f *Fault) Overlay(root, dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(root, f.File))
	if err != nil {
		return "", err
	}
	source, err := f.Source(root)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, filepath.Base(f.File)), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(source), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return "", err
	}
	return "-overlay=" + overlay, os.WriteFile(overlay, list, 0o600)
}

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// must fails the test immediately if there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readFile returns what a file holds.
func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return data
}

// writeFile writes a file that its owner alone may read.
func writeFile(t *testing.T, name string, data []byte) {
	t.Helper()
	must(t, os.WriteFile(name, data, 0o600))
}

// listFiles returns the paths of all files in a directory and in the directories below it.
func listFiles(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, path)
		}
		return err
	}))
	return all
}

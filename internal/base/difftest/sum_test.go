package difftest

import (
	"testing"
	"testing/fstest"
)

// TestSumOfFilesHasNamesAndContents: another name, another content and another file are another sum, and the same files
// have the same.
func TestSumOfFilesHasNamesAndContents(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	seen := map[string]int{}
	for n, dir := range []fstest.MapFS{
		{"a": file("x"), "b/c": file("y")}, {"a": file("xy")}, {"a": file("x")}, {"d": file("x")},
		{"a": file("x"), "b/c": file("z")}, {}, {"b/c": file("y"), "a": file("x")},
	} {
		sum, err := SumFiles(dir)
		if err != nil {
			t.Fatal(err)
		}
		if was, ok := seen[sum]; ok != (n == 6) {
			t.Errorf("folder %d has the sum of folder %d", n, was)
		}
		seen[sum] = n
	}
}

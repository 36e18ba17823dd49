package config

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestLongFileAllocatesLittle: that a file is long costs no memory each time it is looked at.
func TestLongFileAllocatesLittle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "long.crl")
	data := bytes.Repeat([]byte("list"), 2<<20)
	write(t, file, data)
	read, looked := Files{}, Files{file: {}}
	if _, err := read.Read(file); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	looked = looked.Current()
	runtime.ReadMemStats(&after)
	if !maps.Equal(looked, read) {
		t.Error("a file that was looked at is another than the one that was read")
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("a look at %d bytes takes %d", len(data), took)
	}
}

// TestFileThatChangesWhileReadIsRefused: of a file that two places name both get the same, or the reload
// is refused: a certificate and its key may be in one.
func TestFileThatChangesWhileReadIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	read := Files{}
	for _, step := range []struct {
		content string
		want    error
	}{
		{"a", nil}, {"a", nil}, {"b", errFileChanges}, {"a", nil},
	} {
		write(t, file, []byte(step.content))
		if data, err := read.Read(file); !errors.Is(err, step.want) || (string(data) == step.content) != (err == nil) {
			t.Errorf("%q: %q, %v; want %v", step.content, data, err, step.want)
		}
	}
}

// TestReadRefusesWhatIsNoConfiguration: a file that is too long, such as a log, is refused before it is read.
func TestReadRefusesWhatIsNoConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "threeds.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 4<<20+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "has 4194305 bytes, and a configuration at most 4194304") {
		t.Errorf("%v", err)
	}
}

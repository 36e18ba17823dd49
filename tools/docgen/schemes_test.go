package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// TestSchemePageShowsWhatChangedSinceTheRelease: new lines and lines that are gone, and nothing right after a release.
func TestSchemePageShowsWhatChangedSinceTheRelease(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(releasedFile)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeReleased(root, "9.9.9"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, releasedFile))
	if err != nil {
		t.Fatal(err)
	}
	released := string(data)
	for _, tt := range []struct{ released, want string }{
		{released, "## What has changed since 9.9.9\n\nNothing.\n\n"},
		{strings.Replace(released, "visa require cardExpiryDate\n", "", 1), "| `visa` | new | `require cardExpiryDate` |\n"},
		{released + "jcb require email\n", "| `jcb` | gone | `require email` |\n"},
	} {
		got, err := schemeChanges(tt.released, scheme.Profiles())
		if err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%v: %q, want %q in it", err, got, tt.want)
		}
	}
	if _, err := schemeChanges("visa require email\n", scheme.Profiles()); err == nil {
		t.Error("a file without the name of its release was read")
	}
	if len(statements(scheme.Profiles())) < 100 || slices.Contains(statements(scheme.Profiles()), "visa ") {
		t.Error("statements are missing")
	}
}

package operators

import (
	"debug/buildinfo"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD114LicensesOfTheBinary builds the program as users do: it prints each module that go version -m lists, its own
// and the standard library, each with version, licence and text.
func TestD114LicensesOfTheBinary(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "threeds")
	build := exec.Command("go", "build", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	info, err := buildinfo.ReadFile(binary)
	rig.Must(t, err)
	out, err := exec.Command(binary, "licenses").Output()
	rig.Must(t, err)
	printed := string(out)
	if len(info.Deps) < 20 || !strings.HasPrefix(printed, info.Main.Path+" ") || !strings.Contains(printed, "\nstd "+info.GoVersion+" BSD-3-Clause\n\nCopyright") {
		t.Errorf("%d modules; threeds licenses begins with %.300q", len(info.Deps), printed)
	}
	for _, m := range info.Deps {
		_, after, isPrinted := strings.Cut(printed, fmt.Sprintf("\n%s %s ", m.Path, m.Version))
		license, text, _ := strings.Cut(after, "\n\n")
		if !isPrinted || license == "" || len(license) > 40 || len(text) < 500 {
			t.Errorf("%s %s: %t, %q", m.Path, m.Version, isPrinted, license)
		}
	}
}

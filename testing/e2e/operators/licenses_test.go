package operators

import (
	"debug/buildinfo"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD114LicensesOfTheBinary runs the program: it prints each module that go version -m lists, its own
// and the standard library, each with version, licence and text.
func TestD114LicensesOfTheBinary(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("threeds")
	rig.Must(t, err)
	info, err := buildinfo.ReadFile(binary)
	rig.Must(t, err)
	out, err := exec.Command("threeds", "licenses").Output()
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

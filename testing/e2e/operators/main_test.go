// Package operators tests what operators use: the command line, tokens, keys, certificates, merchants and health, with
// the program in processes of its own.
package operators

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

var update = flag.Bool("update", false, "rewrite the files that tests compare with")

// TestScripts runs the scripts in testdata: what is typed, what is said, how
// the process ends.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata", UpdateScripts: *update, Cmds: scriptCommands, Setup: func(env *testscript.Env) error {
		env.Vars = append(env.Vars, rig.ShortLived...)
		return nil
	}})
}

// Package lifecycle tests how servers start, reload, restart, end and are deployed, with the program
// in processes of its own.
package lifecycle

import (
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

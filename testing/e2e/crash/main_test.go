// Package crash tests kills, power failures and broken disks, with the program in processes of its own.
package crash

import (
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

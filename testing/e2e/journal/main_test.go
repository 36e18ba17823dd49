// Package journal tests the journal, the log of requests and traces: what they hold and what they must not hold, with
// the program in processes of its own.
package journal

import (
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

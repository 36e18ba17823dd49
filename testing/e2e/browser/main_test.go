// Package browser tests payments in browsers and by cards of the sandbox, and the pages that shoppers and developers
// see, with the program in processes of its own.
package browser

import (
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

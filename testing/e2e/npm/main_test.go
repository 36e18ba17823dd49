// Package npm tests the npm packages of a release: it packs them, installs the tarballs without a network, and
// runs what their users run.
package npm

import (
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// Package install tests what brings the program to where people test: the GitHub Action, the feature for devcontainers,
// and the recipes of docs/testing.md.
package install

import (
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

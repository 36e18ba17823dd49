// Package cluster tests several nodes with one store, with the program in processes of its own.
package cluster

import (
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// Package ranges tests card ranges, and directory servers that misbehave, with the program in processes of its own.
package ranges

import (
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

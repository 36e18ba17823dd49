// Package api tests what docs/api.md promises of requests and answers, row by row, with the program
// in processes of its own.
package api

import (
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

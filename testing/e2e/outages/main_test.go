// Package outages plays outages of one of two installations that a real Prometheus scrapes. For each it holds what the
// console and the alerts say, and when, against what an operator needs; see docs/operating/alerts.md.
package outages

import (
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

package sqlite_test

import (
	"testing"

	"github.com/openthreeds/threeds/internal/base/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

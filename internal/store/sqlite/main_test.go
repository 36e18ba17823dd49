package sqlite_test

import (
	"testing"

	"github.com/openthreeds/threeds/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Package docs runs in real browsers the scripts that the pages of docs print.
package docs

import (
	"os"
	"testing"

	"github.com/openthreeds/threeds/testing/browsertest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }

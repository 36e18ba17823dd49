// Package console has the tests of the operators' console and its login in real browsers.
package console

import (
	"os"
	"testing"

	"github.com/openthreeds/threeds/testing/browsertest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

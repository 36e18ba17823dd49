package conformance

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestMain lets many checks run at once: most of their time they wait for the
// server, or for a floor between two messages.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set("24")
	}
	os.Exit(m.Run())
}

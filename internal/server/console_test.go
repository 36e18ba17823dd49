package server

import (
	"log/slog"
	"net"
	"strings"
	"testing"
)

// TestConsoleBeyondLoopbackIsAWarning: other machines must not reach the console unless an operator means it.
func TestConsoleBeyondLoopbackIsAWarning(t *testing.T) {
	for address, isWarning := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		warnOfConsole(slog.New(slog.NewTextHandler(&out, nil)), l)
		if strings.Contains(out.String(), "beyond this machine") != isWarning {
			t.Errorf("%s: the log is %q, want a warning: %t", address, out.String(), isWarning)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	warnOfConsole(slog.New(slog.DiscardHandler), nil) // there need not be one
}

package pgtest

import (
	"errors"
	"testing"
)

// TestServerOnTheSamePortIsNoticed: a server whose port is taken ends, and the other one answers in its place.
func TestServerOnTheSamePortIsNoticed(t *testing.T) {
	t.Parallel()
	first := Start(t)
	second, err := place(first.bin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	if err := second.create(); err != nil {
		t.Fatal(err)
	}
	second.port = first.port
	if err := second.Start(); !errors.Is(err, errForeign) {
		t.Errorf("a server whose port is taken: %v", err)
	}
	if err := first.Halt(); err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Errorf("the first one, started again: %v", err)
	}
}

package journal

import (
	"slices"
	"testing"
)

// TestFaultsWaitForNobody: what does not fit is listed also while a seal is made, which may wait for a lock of the
// database that a node holds that was stopped: as it was known before.
func TestFaultsWaitForNobody(t *testing.T) {
	t.Parallel()
	e := &evidence{faults: []string{"seal 3 is gone"}, known: newKnown()}
	before := e.list()
	e.mu.Lock() // until the end of the test, as by a seal that waits
	if while := e.list(); len(before) != 1 || !slices.Equal(while, before) {
		t.Errorf("the faults are %q, and %q while a seal is made", before, while)
	}
	l := &lazyStore{}
	l.mu.Lock() // as by a journal that is being opened
	if faults, n := l.Faults(), l.CountChanged(); len(faults) > 0 || n != 0 {
		t.Errorf("a journal that is being opened has %q, %d", faults, n)
	}
}

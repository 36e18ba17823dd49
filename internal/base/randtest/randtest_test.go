package randtest

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

// A failing test collects what the test of a property would print.
type failing struct {
	testing.TB
	failed bool
	log    string
}

func (f *failing) Helper()      {}
func (f *failing) Failed() bool { return f.failed }
func (f *failing) Logf(format string, args ...any) {
	f.log += fmt.Sprintf(format, args...) + "\n"
}
func (f *failing) Errorf(format string, args ...any) { f.failed = true }
func (f *failing) Fatal(...any) {
	f.failed = true
	runtime.Goexit()
}

// run runs Check as a test would, and returns what it printed.
func run(property func(t *T)) *failing {
	f := new(failing)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		Check(f, property)
	}()
	<-done
	return f
}

// draw draws a value of each kind.
func draw(t *T) []any {
	return []any{
		t.Uint64Range(0, 1<<64-1), t.Uint64Range(5, 50), t.IntRange(-3, 3), t.Bool(), t.Bytes(20), t.Text(0, 9), t.Digits(1, 3), Pick(t, "a", "b"),
	}
}

// TestCheckReportsTheSeedOfACase: however a case fails, its seed is printed, no other case runs after it, and the seed
// gives the same values again.
func TestCheckReportsTheSeedOfACase(t *testing.T) {
	for name, fail := range map[string]func(t *T){
		"Errorf": func(t *T) { t.Errorf("bad") },
		"Fatal":  func(t *T) { t.Fatal("bad") },
		"panic":  func(*T) { panic("bad") },
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			var last []any
			f := run(func(t *T) {
				n++
				if last = draw(t); n == 7 {
					fail(t)
				}
			})
			if n != 7 || strings.Count(f.log, seedVariable) != 1 {
				t.Fatalf("%d cases: %q, want that the seventh is the last one, with its seed", n, f.log)
			}
			seed, _, _ := strings.Cut(strings.TrimPrefix(f.log, seedVariable+"="), " ")
			t.Setenv(seedVariable, seed)
			var again [][]any
			if f := run(func(t *T) { again = append(again, draw(t)) }); f.failed || len(again) != 1 || !reflect.DeepEqual(again[0], last) {
				t.Errorf("%q, want %q", again, last)
			}
		})
	}
}

// TestCheckRunsManyCases: a property that holds is asked for many different values.
func TestCheckRunsManyCases(t *testing.T) {
	n, seen := 0, map[uint64]bool{}
	if f := run(func(t *T) { n++; seen[t.Uint64()] = true }); f.failed || f.log != "" || n < 100 || len(seen) != n {
		t.Errorf("%d cases with %d values: %q", n, len(seen), f.log)
	}
}

// TestValuesAreInBounds: each value keeps to its bounds, and reaches them.
func TestValuesAreInBounds(t *testing.T) {
	lows, highs := map[string]bool{}, map[string]bool{}
	note := func(name string, isLow, isHigh bool) {
		lows[name], highs[name] = lows[name] || isLow, highs[name] || isHigh
	}
	Check(t, func(t *T) {
		if n := t.Uint64Range(5, 50); n < 5 || n > 50 {
			t.Errorf("Uint64Range: %d", n)
		} else {
			note("Uint64Range", n == 5, n == 50)
		}
		whole := t.Uint64Range(0, 1<<64-1)
		note("Uint64Range of all", whole == 0, whole == 1<<64-1)
		if n := t.IntRange(-3, 3); n < -3 || n > 3 {
			t.Errorf("IntRange: %d", n)
		} else {
			note("IntRange", n == -3, n == 3)
		}
		if data := t.Bytes(20); len(data) > 20 {
			t.Errorf("Bytes: %d", len(data))
		} else {
			note("Bytes", len(data) == 0, len(data) == 20)
		}
		text := t.Text(1, 4)
		if n := utf8.RuneCountInString(text); n < 1 || n > 4 || !utf8.ValidString(text) {
			t.Errorf("Text: %q", text)
		} else {
			note("Text", n == 1, n == 4)
		}
		digits := t.Digits(2, 4)
		if n := len(digits); n < 2 || n > 4 || strings.Trim(digits, "0123456789") != "" {
			t.Errorf("Digits: %q", digits)
		} else {
			note("Digits", n == 2, n == 4)
		}
		isFirst := Pick(t, true, false)
		note("Pick", isFirst, !isFirst)
		isTrue := t.Bool()
		note("Bool", isTrue, !isTrue)
	})
	for name := range lows {
		if !lows[name] || !highs[name] {
			t.Errorf("%s: low %t, high %t in %d cases, want both", name, lows[name], highs[name], cases)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if isChild() {
		runChild()
		return
	}
	os.Exit(m.Run())
}

// TestFigures measures figures for a moment: that they run and leave nothing behind, not what comes out. It is one of
// them for every day, and all with FIGURES=all.
func TestFigures(t *testing.T) {
	program := filepath.Join(t.TempDir(), "threeds")
	b := &bench{dir: filepath.Dir(program), progress: t.Output()}
	if err := b.build(t.Context(), sameFlags()...); err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		t.Run(f.name, func(t *testing.T) {
			if f.name != "auth" && os.Getenv("FIGURES") != "all" {
				t.Skip("measuring takes time: make test-all, or FIGURES=all")
			}
			dir := t.TempDir()
			var out bytes.Buffer
			if err := run(t.Context(), []string{"-quick", "-threeds", program, "-dir", dir, f.name}, &out, t.Output()); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(out.String(), "PASS") + strings.Count(out.String(), "MISS"); n == 0 {
				t.Errorf("no figure in\n%s", out.String())
			}
			t.Log("\n" + out.String())
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// sameFlags are the flags that this binary was built with, so that what it shares
// with the program under test need not be compiled again.
func sameFlags() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return []string{"-race"}
		}
	}
	return nil
}

// TestFailedFigure: a figure that cannot be measured is named, and the others are shown;
// after an interrupt no further figure is measured.
func TestFailedFigure(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	measured := func(context.Context, *bench) ([]row, error) { return []row{{what: "good"}}, nil }
	rows, err := (&bench{progress: io.Discard}).all(ctx, []figure{
		{"bad", time.Minute, func(context.Context, *bench) ([]row, error) { return nil, errors.New("refused") }},
		{"good", time.Minute, measured},
		{"interrupted", time.Minute, func(ctx context.Context, _ *bench) ([]row, error) { interrupt(); return nil, ctx.Err() }},
		{"never", time.Minute, measured},
	})
	if len(rows) != 1 || err == nil || err.Error() != "bad: refused\ninterrupted: context canceled" {
		t.Errorf("rows %v, error %q", rows, err)
	}
}

func TestChoose(t *testing.T) {
	if got, err := choose(nil); err != nil || len(got) != len(figures) {
		t.Errorf("choose() = %d figures, %v; want all", len(got), err)
	}
	if got, err := choose([]string{"rreq", "auth"}); err != nil || len(got) != 2 || got[0].name != "rreq" {
		t.Errorf("choose(rreq, auth) = %d figures, %v", len(got), err)
	}
	if _, err := choose([]string{"speed"}); err == nil {
		t.Error("choose(speed): no error")
	}
}

func TestPercentile(t *testing.T) {
	for _, tt := range []struct {
		values []int
		p      float64
		want   int
	}{
		{nil, 0.5, 0},
		{[]int{7}, 0.99, 7},
		{[]int{3, 1, 2}, 0.5, 2},
		{[]int{3, 1, 2}, 0, 1},
		{[]int{3, 1, 2}, 1, 3},
	} {
		if got := percentile(tt.values, tt.p); got != tt.want {
			t.Errorf("percentile(%v, %v) = %d, want %d", tt.values, tt.p, got, tt.want)
		}
	}
}

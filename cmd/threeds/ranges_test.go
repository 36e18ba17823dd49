package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/rangequery"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/run/config"
)

func TestSpan(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0s"}, {59 * time.Second, "59s"}, {time.Minute, "1m"}, {time.Hour, "1h00m"}, {6 * time.Hour, "6h00m"},
		{23*time.Hour + 59*time.Minute, "23h59m"}, {24 * time.Hour, "1d00h"}, {75 * time.Hour, "3d03h"},
	} {
		if got := formatSpan(tt.d); got != tt.want {
			t.Errorf("span(%v) = %q, want %q", tt.d, got, tt.want)
		}
	}
}

func TestDue(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		next time.Time
		want string
	}{
		{time.Time{}, "-"}, {now.Add(time.Minute), "in 1m"}, {now, "now"}, {now.Add(time.Second - 5*time.Minute), "now"}, {now.Add(-5 * time.Minute), "overdue 5m"},
	} {
		if got := describeDue(tt.next, now); got != tt.want {
			t.Errorf("due(%v) = %q, want %q", tt.next, got, tt.want)
		}
	}
}

// TestMasked: of the shortest card number not more is shown than of the longest.
func TestMasked(t *testing.T) {
	for in, want := range map[string]string{
		"400000112233": "400000112233", "4000001122334": "400000***2334", "4000001122334455667": "400000*********5667", "400000112233x": "400000112233x",
	} {
		if got := maskDigits(in); got != want {
			t.Errorf("masked(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestReportMarks(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		age  time.Duration
		want string
	}{
		{0, ""}, {6*time.Hour - time.Second, ""}, {6 * time.Hour, "warning"}, {24*time.Hour - time.Second, "warning"}, {24 * time.Hour, "error"},
	} {
		if got := reportOf(config.Directory{}, directory.RefreshStatus{Loaded: now.Add(-tt.age)}, directory.RefreshRequest{}, now); got.Mark != tt.want || got.Age != int64(tt.age.Seconds()) {
			t.Errorf("at %v: %q, %d s, want %q", tt.age, got.Mark, got.Age, tt.want)
		}
	}
	if got := reportOf(config.Directory{}, directory.RefreshStatus{}, directory.RefreshRequest{}, now); got.Mark != "error" || got.Age != 0 {
		t.Errorf("without ranges: %+v", got)
	}
}

// TestReportWishes: only the generation that is held back now was accepted.
func TestReportWishes(t *testing.T) {
	for _, tt := range []struct {
		held, accepted int64
		want           bool
	}{{0, 0, false}, {3, 0, false}, {3, 2, false}, {3, 3, true}} {
		got := reportOf(config.Directory{}, directory.RefreshStatus{Held: tt.held}, directory.RefreshRequest{Accept: tt.accepted}, time.Now())
		if got.Accepted != tt.want || got.Refreshing {
			t.Errorf("%d held, %d accepted: %t", tt.held, tt.accepted, got.Accepted)
		}
	}
}

// TestLookupKeepsTheCard is that no full card number which was asked for comes
// back, however narrow the range is that holds it.
func TestLookupKeepsTheCard(t *testing.T) {
	const pan = "4000001122334455"
	for _, bounds := range [][2]string{
		{pan, pan}, {pan, "4000001122334499"}, {"4000001122334400", pan}, {"4000001122334450", "4000001122334459"},
		{pan, "4999999999999999"}, {"4000000000000000", pan}, {"4000000000000000", "4999999999999999"},
	} {
		var b ranges.Builder
		if err := b.Add(bounds[0], bounds[1], &ranges.Info{}); err != nil {
			t.Fatal(err)
		}
		table, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		f := rangequery.Find("visa", 1, &ranges.Generation{Table: table}, pan)
		data, _ := json.Marshal(f)
		for _, text := range []string{describeMatches(pan, []*rangequery.Match{f}), string(data)} {
			if strings.Contains(text, pan) || strings.Contains(text, pan[:15]) {
				t.Errorf("%v: %s", bounds, text)
			}
			if f.Count != 1 || !strings.Contains(text, "4000") {
				t.Errorf("%v: not found: %s", bounds, text)
			}
		}
	}
}

// TestPresReader reads a PRes whose version comes last: the reader has to begin
// again, compressed or not.
func TestPresReader(t *testing.T) {
	old := `{"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000009999999999"}],"actionInd":"A","startRange":"4000000000000000","endRange":"4000000099999999",` +
		`"acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0","threeDSMethodURL":"https://acs.example/"}],` +
		`"messageType":"PRes","threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e","dsTransID":"f25084f0-5b16-4c0a-ae5d-b24808a95e4b",` +
		`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0","serialNum":"1","messageVersion":"2.1.0"}`
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(w, old)
	_ = w.Close()
	d := config.Directory{Versions: []string{"2.1.0", "2.2.0"}}
	for name, data := range map[string][]byte{"plain": []byte(old), "gzip": zipped.Bytes()} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pres")
			writeFile(t, file, data)
			var log strings.Builder
			g, err := readSet(t.Context(), file, d, nil, nil, &log)
			if err != nil {
				t.Fatal(err, log.String())
			}
			if info := g.Table.Lookup("4000000012345678"); info == nil || g.Len() != 1 || g.Serial != "1" {
				t.Errorf("%+v, %+v", g, info)
			}
			if !strings.Contains(log.String(), "100 %") {
				t.Errorf("log: %s", log.String())
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		file := filepath.Join(t.TempDir(), "pres")
		writeFile(t, file, []byte(old))
		if _, err := readSet(ctx, file, d, nil, nil, io.Discard); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
	})
}

// TestExportInterrupted: an export that was interrupted is no success.
func TestExportInterrupted(t *testing.T) {
	var b ranges.Builder
	if err := b.Add("4000000000000000", "4000009999999999", &ranges.Info{}); err != nil {
		t.Fatal(err)
	}
	table, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := writeCSV(ctx, io.Discard, &ranges.Generation{Table: table}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestProgress(t *testing.T) {
	var b strings.Builder
	p := &progress{w: &b, name: "f", size: 1000, start: time.Now()}
	for range 1000 {
		_, _ = p.Write([]byte("x"))
	}
	p.reset() // the file is read once more
	_, _ = p.Write(make([]byte, 1000))
	p.end()
	if n := strings.Count(b.String(), "\n"); n != 10 || !strings.HasPrefix(b.String(), "f: 10 %, ") || !strings.Contains(b.String(), "f: 100 %, ") {
		t.Errorf("%d lines:\n%s", n, b.String())
	}
	b.Reset()
	p = &progress{w: &b, name: "f", size: 1000, start: time.Now(), isTerminal: true}
	_, _ = p.Write(make([]byte, 500))
	_, _ = p.Write(make([]byte, 500))
	p.end()
	if got := b.String(); !strings.HasPrefix(got, "\rf  [###############...............]  50 %") || !strings.Contains(got, "["+strings.Repeat("#", 30)+"] 100 %") || !strings.HasSuffix(got, " MB/s \n") {
		t.Errorf("%q", got)
	}
}

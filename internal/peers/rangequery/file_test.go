package rangequery

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/message"
)

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
		f := Find("visa", 1, &ranges.Generation{Table: table}, pan)
		data, _ := json.Marshal(f)
		for _, text := range []string{DescribeMatches(pan, []*Match{f}), string(data)} {
			if strings.Contains(text, pan) || strings.Contains(text, pan[:15]) {
				t.Errorf("%v: %s", bounds, text)
			}
			if f.Count != 1 || !strings.Contains(text, "4000") {
				t.Errorf("%v: not found: %s", bounds, text)
			}
		}
	}
}

// openPRes returns a file with that content.
func openPRes(t *testing.T, data []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pres")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
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
	versions := []message.Version{message.V210, message.V220}
	for name, data := range map[string][]byte{"plain": []byte(old), "gzip": zipped.Bytes()} {
		t.Run(name, func(t *testing.T) {
			file := openPRes(t, data)
			var log strings.Builder
			g, err := (&File{Name: file.Name(), In: file, Versions: versions}).Read(t.Context(), &log)
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
		file := openPRes(t, []byte(old))
		if _, err := (&File{Name: file.Name(), In: file, Versions: versions}).Read(ctx, io.Discard); !errors.Is(err, context.Canceled) {
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
	if err := WriteCSV(ctx, io.Discard, &ranges.Generation{Table: table}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// TestColumns: an export says of each version what is said of it, once if it is of all.
func TestColumns(t *testing.T) {
	same := &ranges.Info{ACS: []ranges.ACSVersion{{Version: "2.1.0", MethodURL: "https://a.example/"}, {Version: "2.2.0", MethodURL: "https://a.example/"}}}
	for _, tt := range []struct {
		info *ranges.Info
		want []string
	}{
		{manyVersions, []string{
			"2.1.0 2.2.0 2.2.1 2.2.2 2.3.0 2.3.1",
			"https://a.example/%20x https://a.example/%20x https://b.example/ https://b.example/ https://b.example/ -",
			"- - - 01/02 01/02 -", "- - - - A1=1/A2=2 -", "2.2.0 2.3.1", "208",
		}},
		{same, []string{"2.1.0 2.2.0", "https://a.example/", "", "", "", ""}},
		{&ranges.Info{}, []string{"", "", "", "", "", ""}},
	} {
		if got := csvColumns(tt.info); !slices.Equal(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

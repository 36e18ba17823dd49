package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/tools/txtar"

	"github.com/openthreeds/threeds/internal/config"
	"github.com/openthreeds/threeds/internal/directory"
	"github.com/openthreeds/threeds/internal/rangequery"
	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/ranges/rangestest"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/store/sqlite"
)

// scriptCommands are what scripts have beside threeds.
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"seed":    seed,
	"pres":    writePRes,
	"gzip":    zip,
	"cut":     cut,
	"parse":   parseCSV,
	"lease":   takeLease,
	"request": checkRequest,
	"refuse":  refuseWrites,
	"field":   setField,
	"sign":    signDelivery,
	"user":    addUser,
	"certify": certify,
}

// seed SCHEME GENERATION FILE puts what a node would put into the store: the
// PRes in FILE as the next generation; without one FILE is -. GENERATION is
// "held", or "damaged" for one that cannot be read, or anything else. Then come
// members of the Standing: age, next, earliest and asked are durations around
// now, fault is a text, from an address.
func seed(ts *testscript.TestScript, _ bool, args []string) {
	scheme, word, file := args[0], args[1], args[2]
	ctx := context.Background()
	db := scriptStore(ts)
	defer db.Close()
	status, err := directory.ReadRefreshStatus(ctx, db, scheme)
	ts.Check(err)
	lease, err := db.Acquire(ctx, "ranges/"+scheme, "test", time.Minute)
	ts.Check(err)
	if file != "-" {
		put(ts, db, lease, &status, scheme, word, ts.ReadFile(file))
	}
	now := time.Now().UTC()
	for _, arg := range args[3:] {
		name, value, _ := strings.Cut(arg, "=")
		d, err := time.ParseDuration(value)
		if err != nil && name != "fault" && name != "from" {
			ts.Fatalf("seed: %v", err)
		}
		switch name {
		case "age":
			status.Loaded = now.Add(-d)
		case "asked":
			status.Asked = now.Add(-d)
		case "next":
			status.Next = now.Add(d)
		case "earliest":
			status.Earliest = now.Add(d)
		case "from":
			status.From = value
		case "fault":
			status.Fault, status.FaultAt = value, now.Add(-2*time.Minute)
		}
	}
	value, err := json.Marshal(status)
	ts.Check(err)
	ts.Check(db.PutState(ctx, "ranges/"+scheme, value, lease))
	ts.Check(db.Release(ctx, lease))
}

// scriptStore opens the store of a script.
func scriptStore(ts *testscript.TestScript) *sqlite.DB {
	dir := ts.MkAbs("threeds-data")
	ts.Check(os.MkdirAll(dir, 0o700))
	db, err := sqlite.Open(dir, sqlite.Options{})
	ts.Check(err)
	return db
}

// put stores a PRes as a generation and notes it in the status.
func put(ts *testscript.TestScript, db *sqlite.DB, lease store.Lease, status *directory.RefreshStatus, scheme, word, pres string) {
	response, problems, err := ranges.ReadPRes(strings.NewReader(pres), ranges.Options{})
	ts.Check(err)
	if len(problems) > 0 {
		ts.Fatalf("seed: %v", problems)
	}
	g, problems := response.Next(nil)
	if len(problems) > 0 {
		ts.Fatalf("seed: %v", problems)
	}
	g.Scheme, g.Loaded = scheme, time.Now().UTC()
	var content bytes.Buffer
	_, err = g.WriteTo(&content)
	ts.Check(err)
	s := store.Snapshot{Scheme: scheme, Generation: status.Generation + 1}
	switch word {
	case "held":
		s.Scheme, s.Generation = scheme+"/held", status.Held+1
		status.Held, status.HeldRanges = s.Generation, g.Len()
	case "damaged":
		content.Bytes()[content.Len()/2]++
		fallthrough
	default:
		status.Generation, status.Ranges, status.Serial = s.Generation, g.Len(), g.Serial
		status.Version, status.Loaded = g.Version.String(), g.Loaded
	}
	ts.Check(db.PutSnapshot(context.Background(), s, lease, &content, 3))
}

// pres FILE RANGES VERSION SEED writes a PRes of some size, or with the version
// "file" a card range file.
func writePRes(ts *testscript.TestScript, _ bool, args []string) {
	var n, seed int
	_, err := fmt.Sscan(args[1]+" "+args[3], &n, &seed)
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	pres := rangestest.PRes{Version: args[2], Serial: "s" + args[3]}
	if args[2] == "file" {
		pres.Version, pres.File = "2.3.1", true
	}
	ts.Check(rangestest.Set{Ranges: n, Seed: uint64(seed)}.Write(f, pres))
	ts.Check(f.Close())
}

// gzip FILE makes FILE.gz.
func zip(ts *testscript.TestScript, _ bool, args []string) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, ts.ReadFile(args[0]))
	ts.Check(err)
	ts.Check(w.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".gz"), b.Bytes(), 0o600))
}

// cut FILE HALF writes the first half of a file.
func cut(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text[:len(text)/2]), 0o600))
}

// lease SCHEME is what a node does that asks the directory server.
func takeLease(ts *testscript.TestScript, _ bool, args []string) {
	db := scriptStore(ts)
	defer db.Close()
	_, err := db.Acquire(context.Background(), "ranges/"+args[0], "node", time.Minute)
	ts.Check(err)
}

// refuse has the store fail when a generation or a request is written.
func refuseWrites(ts *testscript.TestScript, _ bool, _ []string) {
	db, err := sql.Open("sqlite", "file:"+ts.MkAbs("threeds-data/threeds.db"))
	ts.Check(err)
	defer db.Close() // what was written is written
	for _, table := range []string{"snapshot", "small_state"} {
		_, err := db.Exec("CREATE TRIGGER refuse_" + table + " BEFORE INSERT ON " + table + " BEGIN SELECT RAISE(ABORT, 'refused by the test'); END")
		ts.Check(err)
	}
}

// request SCHEME TEXT checks that a refresh request with that text was left.
func checkRequest(ts *testscript.TestScript, _ bool, args []string) {
	db := scriptStore(ts)
	defer db.Close()
	value, err := db.State(context.Background(), "ranges/"+args[0]+"/wish")
	ts.Check(err)
	if !strings.Contains(string(value), args[1]) {
		ts.Fatalf("the request is %s", value)
	}
}

// parse FILE RECORDS is whether the file is CSV with so many records, the first
// of which names the columns.
func parseCSV(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	ts.Check(err)
	if fmt.Sprint(len(all)) != args[1] || !slices.Equal(all[0], exportHeader) {
		ts.Fatalf("%d records, the first %q", len(all), all[0])
	}
	if strings.Count(text, "\r\n") != len(all) {
		ts.Fatalf("lines do not end as RFC 4180 wants it")
	}
}

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
			write(t, file, data)
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
		write(t, file, []byte(old))
		if _, err := readSet(ctx, file, d, nil, nil, io.Discard); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
	})
}

// TestRangesNotWritten: what could not be written to the end is no success.
func TestRangesNotWritten(t *testing.T) {
	script, err := txtar.ParseFile("testdata/ranges_import.txtar")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, f := range script.Files {
		write(t, f.Name, f.Data)
	}
	var errs strings.Builder
	ranges := func(stdout io.Writer, line string) int {
		return run(t.Context(), strings.Fields("ranges "+line), strings.NewReader(""), stdout, &errs)
	}
	if code := ranges(io.Discard, "import visa pres.json"); code != 0 {
		t.Fatal(errs.String())
	}
	closed, w := io.Pipe()
	_ = closed.Close()
	for _, line := range []string{
		"status", "status --json", "lookup 4", "lookup 4 --json", "diff 0 1 --scheme visa", "diff 0 1 --scheme visa --json",
		"export visa", "export visa --generation 1", "refresh visa", "import visa pres.json",
	} {
		if code := ranges(w, line); code != 1 {
			t.Errorf("ranges %s: exit status %d, want 1", line, code)
		}
	}
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

// ranges runs a command on the card ranges of a site.
func (s *site) ranges(args ...string) string {
	s.t.Helper()
	var out, errs strings.Builder
	args = append(append([]string{"ranges"}, args...), "--config", s.config)
	if code := run(s.t.Context(), args, strings.NewReader(""), &out, &errs); code != 0 {
		s.t.Fatalf("%v: %d %s", args, code, errs.String())
	}
	return out.String()
}

func (s *site) rangesStatus() rangesReport {
	s.t.Helper()
	var all []rangesReport
	if err := json.Unmarshal([]byte(s.ranges("status", "--json")), &all); err != nil || len(all) != 1 {
		s.t.Fatalf("%v, %d directories", err, len(all))
	}
	return all[0]
}

// TestRangesBesideServe runs the commands while a server has the same store.
func TestRangesBesideServe(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	var first rangesReport
	waitFor(t, "the first generation to be noted", func() bool { // it is used a moment before
		first = s.rangesStatus()
		return first.Generation > 0
	})
	if first.Generation != 1 || first.Ranges != 1 || first.Mark != "" || first.Asked.IsZero() || !first.Next.After(first.Asked) {
		t.Errorf("at first: %+v", first)
	}
	for _, pan := range []string{testPAN, testPAN + "000"} { // whose bounds are padded (PR-26)
		if got := s.ranges("lookup", pan); !strings.Contains(got, "is in a range of 1") || strings.Contains(got, testPAN) {
			t.Error(got)
		}
	}
	const other = "4200001234567890"
	enrolled := func(pan string) bool {
		code, _ := s.post("/preauth", object{"acctNumber": pan})
		return code == 200
	}
	if !enrolled(testPAN) || enrolled(other) {
		t.Fatal("not the cards that the test starts with")
	}

	var data []object
	for _, prefix := range []string{"4200", "4300", "4400", "4500"} {
		data = append(data, object{
			"startRange": prefix + "000000000000", "endRange": prefix + "009999999999",
			"acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": "2.2.0",
		})
	}
	pres := filepath.Join(t.TempDir(), "pres.json")
	write(t, pres, marshal(object{
		"messageType": "PRes", "messageVersion": "2.2.0", "threeDSServerTransID": newUUID(), "dsTransID": newUUID(),
		"dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0", "cardRangeData": data,
	}))
	if got := s.ranges("import", "visa", pres); !strings.HasPrefix(got, "visa: generation 2 with 4 ranges, in place of generation 1 with 1 range;") {
		t.Error(got)
	}
	waitFor(t, "the imported ranges to be used", func() bool { return enrolled(other) && !enrolled(testPAN) })
	if got := s.ranges("diff", "1", "2"); !strings.Contains(got, "4 added, 1 removed, 0 changed") {
		t.Error(got)
	}

	// There was no serial number, so all ranges are asked for: one again.
	if got := s.ranges("refresh", "visa"); !strings.Contains(got, "within seconds") {
		t.Error(got) // min_refresh is 1 s here
	}
	waitFor(t, "the one range to be held back", func() bool { return s.rangesStatus().Held > 0 })
	if r := s.rangesStatus(); r.HeldRanges != 1 || r.Ranges != 4 || r.Fault == "" || !r.Asked.After(first.Asked) {
		t.Errorf("%+v", r)
	}
	if got := s.ranges("diff", "2", "held"); !strings.Contains(got, "1 added, 4 removed, 0 changed") {
		t.Error(got)
	}
	if !enrolled(other) || enrolled(testPAN) {
		t.Error("what is held back is used")
	}
	waitFor(t, "the metric of that", func() bool { return s.metric(`threeds_card_ranges_held{scheme="visa"}`) == 1 })
	if got := s.ranges("accept", "visa"); !strings.HasSuffix(got, "with 1 range, in place of generation 2 with 4 ranges; a node that serves takes it within seconds\n") {
		t.Error(got)
	}
	waitFor(t, "the accepted range to be used", func() bool { return enrolled(testPAN) && !enrolled(other) })
	waitFor(t, "the metric of that", func() bool { return s.metric(`threeds_card_ranges_held{scheme="visa"}`) == 0 })
	if r := s.rangesStatus(); r.Held != 0 || r.Generation != 3 || r.Ranges != 1 || r.Fault != "" {
		t.Errorf("at last: %+v", r)
	}
}

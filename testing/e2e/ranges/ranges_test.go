package ranges

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestRangesNotWritten: what could not be written to the end is no success.
func TestRangesNotWritten(t *testing.T) {
	script, err := txtar.ParseFile("../operators/testdata/ranges_import.txtar")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, f := range script.Files {
		rig.WriteFile(t, f.Name, f.Data)
	}
	var errs strings.Builder
	ranges := func(stdout io.Writer, line string) int {
		return rig.Run(t.Context(), strings.Fields("ranges "+line), strings.NewReader(""), stdout, &errs)
	}
	if code := ranges(io.Discard, "import visa pres.json"); code != 0 {
		t.Fatal(errs.String())
	}
	full := rig.OpenFull(t)
	for _, line := range []string{
		"status", "status --json", "lookup 4", "lookup 4 --json", "diff 0 1 --scheme visa", "diff 0 1 --scheme visa --json",
		"export visa", "export visa --generation 1", "refresh visa", "import visa pres.json",
	} {
		if code := ranges(full, line); code != 1 {
			t.Errorf("ranges %s: exit status %d, want 1", line, code)
		}
	}
}

// ranges runs a command on the card ranges of a site.
func ranges(s *rig.Site, args ...string) string {
	s.T.Helper()
	var out, errs strings.Builder
	args = append(append([]string{"ranges"}, args...), "--config", s.ConfigFile)
	if code := rig.Run(s.T.Context(), args, strings.NewReader(""), &out, &errs); code != 0 {
		s.T.Fatalf("%v: %d %s", args, code, errs.String())
	}
	return out.String()
}

// A rangesReport is an entry of what ranges status --json prints.
type rangesReport struct {
	Generation int64
	Ranges     int
	Mark       string // "", warning or error
	Fault      string
	Held       int64 // the generation that is held back; 0 if there is none
	HeldRanges int
	Asked      time.Time
	Next       time.Time
}

func rangesStatus(s *rig.Site) rangesReport {
	s.T.Helper()
	var all []rangesReport
	if err := json.Unmarshal([]byte(ranges(s, "status", "--json")), &all); err != nil || len(all) != 1 {
		s.T.Fatalf("%v, %d directories", err, len(all))
	}
	return all[0]
}

// TestRangesBesideServe runs the commands while a server has the same store.
func TestRangesBesideServe(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	var first rangesReport
	waittest.Until(t, "the first generation to be noted", rig.Unhurried(func() bool { // it is used a moment before
		first = rangesStatus(s)
		return first.Generation > 0
	}))
	if first.Generation != 1 || first.Ranges != 1 || first.Mark != "" || first.Asked.IsZero() || !first.Next.After(first.Asked) {
		t.Errorf("at first: %+v", first)
	}
	for _, pan := range []string{rig.EnrolledPAN, rig.EnrolledPAN + "000"} { // whose bounds are padded (PR-26)
		if got := ranges(s, "lookup", pan); !strings.Contains(got, "is in a range of 1") || strings.Contains(got, rig.EnrolledPAN) {
			t.Error(got)
		}
	}
	const other = "4200001234567890"
	enrolled := func(pan string) bool {
		code, _ := s.Post("/preauth", rig.Object{"acctNumber": pan})
		return code == 200
	}
	if !enrolled(rig.EnrolledPAN) || enrolled(other) {
		t.Fatal("not the cards that the test starts with")
	}

	var data []rig.Object
	for _, prefix := range []string{"4200", "4300", "4400", "4500"} {
		data = append(data, rig.Object{
			"startRange": prefix + "000000000000", "endRange": prefix + "009999999999",
			"acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": "2.2.0",
		})
	}
	pres := filepath.Join(t.TempDir(), "pres.json")
	rig.WriteFile(t, pres, rig.Marshal(rig.Object{
		"messageType": "PRes", "messageVersion": "2.2.0", "threeDSServerTransID": rig.NewUUID(), "dsTransID": rig.NewUUID(),
		"dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0", "cardRangeData": data,
	}))
	if got := ranges(s, "import", "visa", pres); !strings.HasPrefix(got, "visa: generation 2 with 4 ranges, in place of generation 1 with 1 range;") {
		t.Error(got)
	}
	waittest.Until(t, "the imported ranges to be used", func() bool { return enrolled(other) && !enrolled(rig.EnrolledPAN) })
	if got := ranges(s, "diff", "1", "2"); !strings.Contains(got, "4 added, 1 removed, 0 changed") {
		t.Error(got)
	}

	// There was no serial number, so all ranges are asked for: one again.
	if got := ranges(s, "refresh", "visa"); !strings.Contains(got, "within seconds") {
		t.Error(got) // min_refresh is 1 s here
	}
	waittest.Until(t, "the one range to be held back", rig.Unhurried(func() bool { return rangesStatus(s).Held > 0 }))
	if r := rangesStatus(s); r.HeldRanges != 1 || r.Ranges != 4 || r.Fault == "" || !r.Asked.After(first.Asked) {
		t.Errorf("%+v", r)
	}
	if got := ranges(s, "diff", "2", "held"); !strings.Contains(got, "1 added, 4 removed, 0 changed") {
		t.Error(got)
	}
	if !enrolled(other) || enrolled(rig.EnrolledPAN) {
		t.Error("what is held back is used")
	}
	waittest.Until(t, "the metric of that", func() bool { return s.Metric(`threeds_card_ranges_held{scheme="visa"}`) == 1 })
	if got := ranges(s, "accept", "visa"); !strings.HasSuffix(got,
		"with 1 range, in place of generation 2 with 4 ranges; a node that serves takes it within seconds\n") {
		t.Error(got)
	}
	waittest.Until(t, "the accepted range to be used", func() bool { return enrolled(rig.EnrolledPAN) && !enrolled(other) })
	waittest.Until(t, "the metric of that", func() bool { return s.Metric(`threeds_card_ranges_held{scheme="visa"}`) == 0 })
	if r := rangesStatus(s); r.Held != 0 || r.Generation != 3 || r.Ranges != 1 || r.Fault != "" {
		t.Errorf("at last: %+v", r)
	}
}

package ranges

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/message"
)

func TestPResIsReadIntoATable(t *testing.T) {
	const methodURL = "https://acs.example/method"
	for _, test := range []struct {
		name, pres string
		source     Source
		want       map[string]*Info // by PAN
		notes      Notes
	}{
		{
			name: "2.2.0 with versions of the whole and of the range",
			pres: pres220(`
				{"startRange":"4000000000000000","endRange":"4000000999999999","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0",
				 "threeDSMethodURL":"https://acs.example/method","acsInfoInd":["01","03"]},
				{"endRange":"4100000999999999","startRange":"4100000000000000","acsStartProtocolVersion":"2.2.0","acsEndProtocolVersion":"2.4.0",
				 "dsStartProtocolVersion":"2.2.0","dsEndProtocolVersion":"2.2.0","actionInd":"D"}`),
			want: map[string]*Info{
				"4000000000000005": {
					ACSStart: "2.1.0", ACSEnd: "2.2.0", DSStart: "2.1.0", DSEnd: "2.3.1", DSVersions: []string{"2.1.0", "2.2.0", "2.3.1"},
					ACS: []ACSVersion{{Version: "2.1.0", MethodURL: methodURL, InfoInd: []string{"01", "03"}},
						{Version: "2.2.0", MethodURL: methodURL, InfoInd: []string{"01", "03"}}},
				},
				"4100000000000005": { // counts as added, although it says D: this is the complete list
					ACSStart: "2.2.0", ACSEnd: "2.4.0", DSStart: "2.2.0", DSEnd: "2.2.0", DSVersions: []string{"2.2.0"},
					ACS: []ACSVersion{{Version: "2.2.0", MethodURL: "", InfoInd: nil}, {Version: "2.3.1", MethodURL: "", InfoInd: nil}},
				},
				"4200000000000005": nil,
			},
		},
		{
			name: "2.1.0 knows no acsInfoInd",
			pres: strings.ReplaceAll(pres220(`{"startRange":"4000000000000000","endRange":"4000000999999999","acsStartProtocolVersion":"2.1.0",
				"acsEndProtocolVersion":"2.1.0","acsInfoInd":["01"]}`), `"messageVersion":"2.2.0"`, `"messageVersion":"2.1.0"`),
			want: map[string]*Info{"4000000000000005": {
				ACSStart: "2.1.0", ACSEnd: "2.1.0", DSStart: "2.1.0", DSEnd: "2.3.1", DSVersions: []string{"2.1.0", "2.2.0", "2.3.1"},
				ACS: []ACSVersion{{Version: "2.1.0", MethodURL: "", InfoInd: nil}},
			}},
		},
		{
			name: "2.3.1 lists versions, each with its own method URL",
			pres: pres231(`
				{"ranges":[{"start":"4000000000000000","end":"4000000999999999"},{"start":"4200000000000","end":"4200000000009"}],
				 "acsProtocolVersions":[{"version":"2.3.1","acsInfoInd":["01"]},{"version":"2.2.0","threeDSMethodURL":"https://acs.example/method"}]},
				{"ranges":[{"start":"4100000000000000","end":"4100000999999999"}],"dsProtocolVersions":["2.2.0","2.1.0"],
				 "acsProtocolVersions":[{"version":"2.2.0"}]}`),
			want: map[string]*Info{
				"4000000000000005": saysListed(methodURL), "4200000000005": saysListed(methodURL),
				"4100000000000005": {
					ACSStart: "2.2.0", ACSEnd: "2.2.0", DSStart: "2.1.0", DSEnd: "2.2.0", DSVersions: []string{"2.1.0", "2.2.0"},
					ACS: []ACSVersion{{Version: "2.2.0", MethodURL: "", InfoInd: nil}},
				},
			},
		},
		{
			name:  "http method URLs are withheld",
			pres:  pres231(entry231("4000000000000000", "4000000000000009", "http://acs.example/method")),
			want:  map[string]*Info{"4000000000000005": saysListed("")},
			notes: Notes{Withheld: 1},
		},
		{
			name:  "http on loopback is withheld in production",
			pres:  pres231(entry231("4000000000000000", "4000000000000009", "http://127.0.0.1:99/method")),
			want:  map[string]*Info{"4000000000000005": saysListed("")},
			notes: Notes{Withheld: 1},
		},
		{
			name:   "http on loopback is good for a laboratory",
			pres:   pres231(entry231("4000000000000000", "4000000000000009", "http://acs.localhost:99/method")),
			source: Source{Lab: true},
			want:   map[string]*Info{"4000000000000005": saysListed("http://acs.localhost:99/method")},
		},
		{
			name:   "http elsewhere is good for a laboratory too",
			pres:   pres231(entry231("4000000000000000", "4000000000000009", "http://localhost.example/method")),
			source: Source{Lab: true},
			want:   map[string]*Info{"4000000000000005": saysListed("http://localhost.example/method")},
		},
		{
			name:  "bounds of different length are skipped alone",
			pres:  pres220(entry220("4000000000000", "4000000000000009") + "," + entry220("4000000000000000", "4000000000000009")),
			want:  map[string]*Info{"4000000000005": nil, "4000000000000005": plain220()},
			notes: Notes{Skipped: 1},
		},
		{
			name: "the narrowest of nested ranges",
			pres: pres220(`{"startRange":"4000000000000003","endRange":"4000000000000005","acsStartProtocolVersion":"2.2.0","acsEndProtocolVersion":"2.2.0"},` +
				entry220("4000000000000000", "4000000000000009")),
			want: map[string]*Info{
				"4000000000000006": plain220(),
				"4000000000000005": {
					ACSStart: "2.2.0", ACSEnd: "2.2.0", DSStart: "2.1.0", DSEnd: "2.3.1", DSVersions: []string{"2.1.0", "2.2.0", "2.3.1"},
					ACS: []ACSVersion{{Version: "2.2.0", MethodURL: "", InfoInd: nil}},
				},
			},
		},
		{
			name: "escaped names and digits",
			pres: pres220(strings.NewReplacer("startRange", `\u0073tartRange`, "4000000000000000", `\u0034000000000000000`).
				Replace(entry220("4000000000000000", "4000000000000009"))),
			want: map[string]*Info{"4000000000000005": plain220()},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := parse(t, test.pres)
			table, notes, problems := readWhole(m, test.source)
			if problems != nil {
				t.Fatalf("problems: %v", problems)
			}
			if notes != test.notes {
				t.Errorf("notes = %+v, want %+v", notes, test.notes)
			}
			for pan, want := range test.want {
				if diff := difftest.Diff(want, public(table.Lookup(pan))); diff != "" {
					t.Errorf("%s (-want +got):\n%s", pan, diff)
				}
			}
		})
	}
}

// public returns what an Info says to other packages.
func public(info *Info) *Info {
	if info == nil {
		return nil
	}
	shown := *info
	shown.own = 0
	return &shown
}

func TestFaultyPResMakesNoTable(t *testing.T) {
	for _, test := range []struct {
		name, pres, detail string
		code               message.Code
	}{
		{"VP-14 overlap from 2.3.1", pres231(entry231("4000000011000", "4000000015000", "") + "," + entry231("4000000013000", "4000000017000", "")),
			"4000000011000-4000000015000,4000000013000-4000000017000", message.RangeOverlap},
		{"nested from 2.3.1", pres231(entry231("4000000000000", "4000000009999", "") + "," + entry231("4000000001000", "4000000001999", "")),
			"4000000000000-4000000009999,4000000001000-4000000001999", message.RangeOverlap},
		{"same bounds from 2.3.1", pres231(entry231("4000000000000", "4000000009999", "") + "," + entry231("4000000000000", "4000000009999", "")),
			"4000000000000-4000000009999,4000000000000-4000000009999", message.RangeOverlap},
		{"VP-14 crossing before", pres220(entry220("4000000011000", "4000000015000") + "," + entry220("4000000013000", "4000000017000")),
			"cardRangeData", message.Format},
		{"VP-09 reversed", pres220(entry220("4000000015000", "4000000011000")), "cardRangeData", message.Format},
		{"no bounds", pres220(`{"acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0"}`), "cardRangeData", message.Format},
		{"bound is a number", pres220(`{"startRange":4000000000000,"endRange":4000000000000}`), "cardRangeData", message.Format},
		{"entry is a text", pres220(`"4000000000000"`), "cardRangeData", message.Format},
	} {
		table, problems := fromPRes(parse(t, test.pres))
		code, detail := problems.Pick(message.ForPeer)
		if table != nil || code != test.code || detail != test.detail {
			t.Errorf("%s: table %v, %v %s, want %v %s", test.name, table, code, detail, test.code, test.detail)
		}
	}
}

// TestPResWithoutRangesKeepsTheTable: nil is not the empty table.
func TestPResWithoutRangesKeepsTheTable(t *testing.T) {
	for _, pres := range []string{
		`{"messageType":"PRes","messageVersion":"2.2.0"}`,
		pres220(""),
		pres220(entry220("4000000000000", "4000000000000009")), // skipped
		strings.Replace(pres231(""), `"cardRangeData":[]`, `"cardRangeDataFileURL":"https://files.example/1"`, 1),
	} {
		if table, problems := fromPRes(parse(t, pres)); table != nil || problems != nil {
			t.Errorf("%s: %v, %v, want nothing", pres, table, problems)
		}
	}
	if table, problems := fromPRes(parse(t, `{"messageType":"ARes","messageVersion":"2.2.0"}`)); table != nil || problems == nil {
		t.Error("an ARes was taken for a PRes")
	}
}

// TestEqualInfoIsShared: two million ranges may not hold two million Infos.
func TestEqualInfoIsShared(t *testing.T) {
	table, problems := fromPRes(parse(t, pres220(entry220("4000000000000", "4000000000009")+","+entry220("4100000000000", "4100000000009"))))
	if problems != nil || table.Lookup("4000000000000") == nil || table.Lookup("4000000000000") != table.Lookup("4100000000000") {
		t.Errorf("two Infos for two ranges that say the same (problems %v)", problems)
	}
}

func BenchmarkFromPRes(b *testing.B) {
	var entries strings.Builder
	const n = 100_000
	for i := range n {
		if i > 0 {
			entries.WriteByte(',')
		}
		fmt.Fprintf(&entries,
			`{"startRange":"4%08d0000000","endRange":"4%08d9999999","actionInd":"A","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0",`+
				`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0","threeDSMethodURL":"https://acs%d.example/method","acsInfoInd":["01","02"]}`, i, i, i%4000)
	}
	data := []byte(pres220(entries.String()))
	m, err := message.Parse(data, message.Limits{Members: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, problems := fromPRes(m); problems != nil {
			b.Fatal(problems)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/range")
}

func parse(t *testing.T, text string) *message.Message {
	t.Helper()
	m, err := message.Parse([]byte(text), message.Limits{Members: -1})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func pres220(entries string) string {
	return `{"messageType":"PRes","messageVersion":"2.2.0","threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e",` +
		`"dsTransID":"f25084f0-5b16-4c0a-ae5d-b24808a95e4b","dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.3.1",` +
		`"serialNum":"1","cardRangeData":[` + entries + `]}`
}

func pres231(entries string) string {
	return `{"messageType":"PRes","messageVersion":"2.3.1","threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e",` +
		`"dsTransID":"f25084f0-5b16-4c0a-ae5d-b24808a95e4b","dsProtocolVersions":["2.3.1","2.2.0"],"readOrder":"01",` +
		`"serialNum":"1","cardRangeData":[` + entries + `]}`
}

func entry220(start, end string) string {
	return fmt.Sprintf(`{"startRange":%q,"endRange":%q,"acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.1.0"}`, start, end)
}

func plain220() *Info {
	return &Info{
		ACSStart: "2.1.0", ACSEnd: "2.1.0", DSStart: "2.1.0", DSEnd: "2.3.1", DSVersions: []string{"2.1.0", "2.2.0", "2.3.1"},
		ACS: []ACSVersion{{Version: "2.1.0", MethodURL: "", InfoInd: nil}},
	}
}

func entry231(start, end, methodURL string) string {
	version := `{"version":"2.2.0"}`
	if methodURL != "" {
		version = fmt.Sprintf(`{"version":"2.2.0","threeDSMethodURL":%q}`, methodURL)
	}
	return fmt.Sprintf(`{"ranges":[{"start":%q,"end":%q}],"acsProtocolVersions":[%s,{"version":"2.3.1","acsInfoInd":["01"]}]}`, start, end, version)
}

// saysListed is what entry231 says.
func saysListed(methodURL string) *Info {
	return &Info{
		ACSStart: "2.2.0", ACSEnd: "2.3.1", DSStart: "2.2.0", DSEnd: "2.3.1", DSVersions: []string{"2.2.0", "2.3.1"},
		ACS: []ACSVersion{{Version: "2.2.0", MethodURL: methodURL, InfoInd: nil}, {Version: "2.3.1", MethodURL: "", InfoInd: []string{"01"}}},
	}
}

package ranges

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// The duties of a 3DS Server about card ranges, groups VP and PR, that this package keeps.
// VP-21, PR-01 to PR-07, PR-18, PR-20, PR-21 and PR-27 to PR-32 are those of who
// asks the directory server.

// asked is what ReadPRes makes of a PRes to a PReq with a serial number, and of
// the generation before.
func asked(t *testing.T, base *Generation, text string) (*Generation, message.Problems) {
	t.Helper()
	m := parse(t, text)
	preq := parse(t, fmt.Sprintf(
		`{"messageType":"PReq","messageVersion":%q,"threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e","serialNum":"0","cardRangeDataDownloadInd":"Y"}`,
		m.Text("messageVersion")))
	return next(t, base, text, message.Context{PReq: preq})
}

// unasked is the same for a PReq without one.
func unasked(t *testing.T, base *Generation, text string) (*Generation, message.Problems) {
	t.Helper()
	m := parse(t, text)
	preq := parse(t, fmt.Sprintf(
		`{"messageType":"PReq","messageVersion":%q,"threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e","cardRangeDataDownloadInd":"Y"}`,
		m.Text("messageVersion")))
	return next(t, base, text, message.Context{PReq: preq})
}

func next(t *testing.T, base *Generation, text string, ctx message.Context) (*Generation, message.Problems) {
	t.Helper()
	resp, problems, err := ReadPRes(strings.NewReader(text), Options{Context: ctx})
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return resp.Next(base)
}

// good fails the test when there are problems.
func good(t *testing.T, g *Generation, problems message.Problems) *Generation {
	t.Helper()
	if len(problems) > 0 {
		t.Fatal("problems:", problems)
	}
	return g
}

// wants fails the test unless a peer is told this code and detail.
func wants(t *testing.T, g *Generation, problems message.Problems, code message.Code, detail string) {
	t.Helper()
	got, said := problems.Pick(message.ForPeer)
	if g != nil || got != code || said != detail {
		t.Errorf("%v %q (generation %t), want %v %q", got, said, g != nil, code, detail)
	}
}

func old(start, end, rest string) string {
	return fmt.Sprintf(`{"startRange":%q,"endRange":%q,"acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0"%s}`, start, end, rest)
}

func recent(start, end, rest string) string {
	return fmt.Sprintf(`{"ranges":[{"start":%q,"end":%q}],"acsProtocolVersions":[{"version":"2.2.0"}]%s}`, start, end, rest)
}

// Three ranges beside each other.
const (
	lowA, highA = "4000000000000", "4000000000999"
	lowB, highB = "4000000001000", "4000000001999"
	lowC, highC = "4000000002000", "4000000002999"
)

func has(t *testing.T, g *Generation, pans ...string) {
	t.Helper()
	for _, pan := range pans {
		if g.Table.Lookup(pan) == nil {
			t.Errorf("%s is not there", pan)
		}
	}
}

func lacks(t *testing.T, g *Generation, pans ...string) {
	t.Helper()
	for _, pan := range pans {
		if g.Table.Lookup(pan) != nil {
			t.Errorf("%s is there", pan)
		}
	}
}

func TestVPFaultsOfAPResAreReported(t *testing.T) {
	for _, test := range []struct {
		id, text, detail string
		code             message.Code
	}{
		{"VP-01 bad element", pres220(strings.Replace(old(lowA, highA, ""), `"2.2.0"`, `"2"`, 1)), "cardRangeData.acsEndProtocolVersion", message.Format},
		{"VP-02", strings.Replace(pres220(old(lowA, highA, "")), "dsStartProtocolVersion", "x", 1), "dsStartProtocolVersion", message.Missing},
		{"VP-02", strings.Replace(pres220(old(lowA, highA, "")), "dsTransID", "x", 1), "dsTransID", message.Missing},
		{"VP-03", strings.Replace(pres231(recent(lowA, highA, "")), "readOrder", "x", 1), "readOrder", message.Missing},
		{"VP-03", strings.Replace(pres231(recent(lowA, highA, "")), "dsProtocolVersions", "x", 1), "dsProtocolVersions", message.Missing},
		{"VP-04", strings.Replace(pres220(old(lowA, highA, "")), `"serialNum":"1"`, `"serialNum":""`, 1), "serialNum", message.Format},
		{"VP-05", strings.Replace(pres231(""), `,"cardRangeData":[]`, "", 1), "cardRangeData", message.Missing},
		{"VP-06", pres220(""), "cardRangeData", message.Format},
		{"VP-06", pres231(""), "cardRangeData", message.Missing}, // required, and an empty one is none
		{"VP-07", pres220(strings.Replace(old(lowA, highA, ""), "startRange", "x", 1)), "cardRangeData.startRange", message.Missing},
		{"VP-07", pres220(old("400000000000", highA, "")), "cardRangeData.startRange", message.Format},
		{"VP-08", pres231(strings.Replace(recent(lowA, highA, ""), `[{"start":"`+lowA+`","end":"`+highA+`"}]`, "[]", 1)), "cardRangeData.ranges", message.Missing},
		{"VP-08", pres231(strings.Replace(recent(lowA, highA, ""), `[{"version":"2.2.0"}]`, "[]", 1)), "cardRangeData.acsProtocolVersions", message.Missing},
		{"VP-08", pres231(`{"ranges":[` + many(5001) + `],"acsProtocolVersions":[{"version":"2.2.0"}]}`), "cardRangeData.ranges", message.Format},
		{"VP-09", pres220(old(highA, lowA, "")), "cardRangeData", message.Format},
		{"VP-09", pres231(recent(highA, lowA, "")), "cardRangeData", message.Format},
		{"VP-11", pres220(old(lowA, highA, `,"acsInfoInd":["05"]`)), "cardRangeData.acsInfoInd", message.Format},
		{"VP-11", pres231(strings.Replace(recent(lowA, highA, ""), `"2.2.0"`, `"2.2.0","acsInfoInd":["12"]`, 1)),
			"cardRangeData.acsProtocolVersions.acsInfoInd", message.Reserved},
		{"VP-13", pres231(strings.Replace(recent(lowA, highA, ""), `"2.2.0"`, `"9.0.0"`, 1)), "2.1.0,2.2.0,2.3.1 (card range data)", message.UnsupportedVersion},
		{"VP-19", strings.Replace(pres231(recent(lowA, highA, "")), `"readOrder"`,
			`"dsUrlList":[{"dsCountryCode":"208"}],"readOrder"`, 1), "dsUrlList.threeDSServerToDsUrl", message.Missing},
		{"VP-20", pres231(strings.Replace(recent(lowA, highA, ""), `"2.2.0"`,
			`"2.2.0","supportedMsgExt":[{"id":"A000000802-004","version":"2"}]`, 1)),
			"cardRangeData.acsProtocolVersions.supportedMsgExt.version", message.Format},
		{"304", pres231(recent(lowA, highA, `,"issuerCountryCode":"901"`)), "cardRangeData.issuerCountryCode", message.ISOCode},
		{"204", pres231(recent(lowA, highA, "") + "," + recent(lowA, highA, "")), "cardRangeData", message.Duplicate},
		{"204", pres231(recent(lowA, highA, "") + "," + strings.ReplaceAll(recent(lowA, highA, ""), ",", ",\r\n\t ")), "cardRangeData", message.Duplicate},
		{"204", pres231(recent(lowA, highA, "") + "," + strings.Replace(recent(lowA, highA, ""), "2.2.0", `2\u002e2.0`, 1)), "cardRangeData", message.Duplicate},
		{"204", pres220(old(lowA, highA, `,"actionInd":"A","actionInd":"A"`)), "cardRangeData.actionInd", message.Duplicate},
	} {
		t.Run(test.id, func(t *testing.T) {
			g, problems := unasked(t, nil, test.text)
			wants(t, g, problems, test.code, test.detail)
		})
	}
	g, problems := unasked(t, nil, pres231(`{"ranges":[`+many(5000)+`],"acsProtocolVersions":[{"version":"2.2.0"}]}`))
	if good(t, g, problems); g.Len() != 5000 {
		t.Errorf("VP-08: %d ranges of 5000", g.Len())
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"start":"4%06d000000","end":"4%06d999999"}`, i, i)
	}
	return b.String()
}

func TestVP10UnequalLengthIsSkipped(t *testing.T) {
	g, problems := unasked(t, nil, pres220(old(lowA, "4000000000000999", "")+","+old(lowB, highB, "")))
	lacks(t, good(t, g, problems), lowA)
	has(t, g, lowB)
}

func TestVP18HTTPIsWithheld(t *testing.T) {
	g, problems := unasked(t, nil, pres220(old(lowA, highA, `,"threeDSMethodURL":"http://acs.example/m"`)))
	if info := good(t, g, problems).Table.Lookup(lowA); info.ACS[0].MethodURL != "" {
		t.Errorf("%+v", info)
	}
}

func TestVP12LaterVersionsAreAccepted(t *testing.T) {
	g, problems := unasked(t, nil, pres220(strings.Replace(old(lowA, highA, ""), `"2.2.0"`, `"2.14.10"`, 1)))
	has(t, good(t, g, problems), lowA)
}

func TestVP14OverlapIsRefused(t *testing.T) {
	g, problems := unasked(t, nil, pres231(recent("4000000011000", "4000000015000", "")+","+
		recent("4000000013000", "4000000017000", "")+","+recent("4000000016000", "4000000018000", "")))
	wants(t, g, problems, message.RangeOverlap,
		"4000000011000-4000000015000,4000000013000-4000000017000,4000000013000-4000000017000,4000000016000-4000000018000")
	g, problems = unasked(t, nil, pres220(old("4000000011000", "4000000015000", "")+","+old("4000000013000", "4000000017000", "")))
	wants(t, g, problems, message.Format, "cardRangeData")

	// In a complete set ranges nest before 2.3.1, in updates they do not.
	g, problems = unasked(t, nil, pres220(old(lowA, highC, "")+","+old(lowB, highB, `,"threeDSMethodURL":"https://acs.example/m"`)))
	if good(t, g, problems); g.Table.Lookup(lowB).ACS[0].MethodURL == "" || g.Table.Lookup(lowC).ACS[0].MethodURL != "" {
		t.Error("the narrowest range does not win")
	}
	after, problems := asked(t, g, pres220(old("4000000001100", "4000000001199", "")))
	wants(t, after, problems, message.Format, "cardRangeData")
	g, problems = unasked(t, nil, pres231(recent(lowA, highA, "")))
	after, problems = asked(t, good(t, g, problems), pres231(recent("4000000000100", "4000000000199", "")))
	wants(t, after, problems, message.RangeOverlap, lowA+"-"+highA+",4000000000100-4000000000199")
}

func TestVP15ImpossibleActionIsRefused(t *testing.T) {
	base231 := generationOf(t, pres231(recent(lowA, highA, "")))
	base220 := generationOf(t, pres220(old(lowA, highA, "")))
	for _, test := range []struct{ low, high, action string }{
		{lowB, highB, "D"}, {lowB, highB, "M"}, {lowA, highA, "A"}, {lowA, highB, "M"}, {lowA, highB, "D"},
	} {
		action := fmt.Sprintf(`,"actionInd":%q`, test.action)
		g, problems := asked(t, base231, pres231(recent(test.low, test.high, action)))
		wants(t, g, problems, message.RangeAction, test.low+"-"+test.high+" "+test.action)
		if test.action != "A" {
			g, problems = asked(t, base220, pres220(old(test.low, test.high, action)))
			wants(t, g, problems, message.Format, "cardRangeData")
		}
	}
}

func TestVP16AddOfAKnownRangeReplacesIt(t *testing.T) {
	base := generationOf(t, pres220(old(lowA, highA, "")))
	g, problems := asked(t, base, pres220(old(lowA, highA, `,"threeDSMethodURL":"https://acs.example/m"`)))
	if good(t, g, problems); g.Len() != 1 || g.Table.Lookup(lowA).ACS[0].MethodURL == "" {
		t.Error("the range added last does not count")
	}
}

func TestVP17PR13OneFaultRefusesAllUpdates(t *testing.T) {
	base := generationOf(t, pres231(recent(lowA, highA, "")))
	was := snapshot(t, base)
	var entries []string
	for i := range 99 {
		entries = append(entries, recent(fmt.Sprintf("41%05d000000", i), fmt.Sprintf("41%05d999999", i), ""))
	}
	entries = append(entries, recent(lowC, highC, `,"actionInd":"D"`))
	g, problems := asked(t, base, pres231(strings.Join(entries, ",")))
	wants(t, g, problems, message.RangeAction, lowC+"-"+highC+" D")
	if string(snapshot(t, base)) != string(was) {
		t.Error("the former generation has changed")
	}
}

func TestPR08PR09PR14UpdatesAreApplied(t *testing.T) {
	base := generationOf(t, pres231(recent(lowA, highA, "")+","+recent(lowB, highB, "")))
	g, problems := asked(t, base, strings.Replace(pres231(
		recent(lowA, highA, `,"actionInd":"D"`)+","+
			recent(lowB, highB, `,"actionInd":"M","issuerCountryCode":"208"`)+","+
			recent(lowC, highC, "")), `"serialNum":"1"`, `"serialNum":"11"`, 1)) // no action adds
	lacks(t, good(t, g, problems), lowA)
	has(t, g, lowB, highC)
	if g.Serial != "11" || g.Table.Lookup(lowB).IssuerCountry != "208" {
		t.Errorf("serial %q, %+v", g.Serial, g.Table.Lookup(lowB))
	}
	has(t, base, lowA) // for those who still look there
}

func TestPR10CompleteSetReplacesAllRanges(t *testing.T) {
	base := generationOf(t, pres220(old(lowA, highA, "")))
	for name, text := range map[string]string{
		"no serial in the PRes": strings.Replace(pres220(old(lowB, highB, `,"actionInd":"D"`)), `"serialNum":"1",`, "", 1),
		"no serial in the PReq": pres220(old(lowB, highB, `,"actionInd":"D"`)),
	} {
		ask := unasked
		if strings.HasPrefix(name, "no serial in the PRes") {
			ask = asked
		}
		g, problems := ask(t, base, text)
		lacks(t, good(t, g, problems), lowA)
		has(t, g, lowB)
	}
}

func TestPR11PR12UpdatesAreAppliedInReadOrder(t *testing.T) {
	base := generationOf(t, pres231(recent(lowA, highA, "")))
	backward := func(text string) string {
		return strings.Replace(pres231(text), `"readOrder":"01"`, `"readOrder":"02"`, 1)
	}
	again := recent(lowA, highA, `,"actionInd":"D"`) + "," + recent(lowA, highA, "")
	g, problems := asked(t, base, pres231(again))
	has(t, good(t, g, problems), lowA)
	g, problems = asked(t, base, backward(again))
	wants(t, g, problems, message.RangeAction, lowA+"-"+highA+" A")

	shifted := recent(lowA, highA, `,"actionInd":"D"`) + "," + recent("4000000000500", highB, "")
	g, problems = asked(t, base, pres231(shifted))
	has(t, good(t, g, problems), highB)
	lacks(t, g, lowA)
	g, problems = asked(t, base, backward(shifted))
	wants(t, g, problems, message.RangeOverlap, lowA+"-"+highA+",4000000000500-"+highB)
}

// TestVP05AnswerWithoutRanges: an answer without ranges to a PReq that asked since
// serial number 0.
func TestVP05AnswerWithoutRanges(t *testing.T) {
	serial := func(text, serial string) string {
		return strings.Replace(text, `"serialNum":"1","cardRangeData":[]`, serial+`"note":""`, 1)
	}
	empty := func(text, serial string) string { return strings.Replace(text, `"serialNum":"1",`, serial, 1) }
	for _, test := range []struct {
		id, text string
		code     message.Code // 0: good, and nothing changes
	}{
		{"2.3.1, the serial of the PReq", serial(pres231(""), `"serialNum":"0",`), 0},
		{"2.3.1, another serial", serial(pres231(""), `"serialNum":"1",`), message.Missing},
		{"2.3.1, no serial", serial(pres231(""), ""), message.Missing},
		{"2.3.1, another serial, empty", empty(pres231(""), `"serialNum":"1",`), message.Missing},
		{"2.3.1, the serial of the PReq, empty", empty(pres231(""), `"serialNum":"0",`), message.Format},
		{"2.3.1, a file", strings.Replace(serial(pres231(""), ""), `"readOrder"`, `"cardRangeDataFileURL":"https://files.example/1","readOrder"`, 1), 0},
		{"2.2.0, the serial of the PReq", serial(pres220(""), `"serialNum":"0",`), 0},
		{"2.2.0, another serial", serial(pres220(""), `"serialNum":"1",`), 0},
		{"2.2.0, no serial", serial(pres220(""), ""), 0},
		{"2.1.0, another serial", strings.ReplaceAll(serial(pres220(""), `"serialNum":"1",`), `2.2.0`, `2.1.0`), 0},
	} {
		t.Run(test.id, func(t *testing.T) {
			base := generationOf(t, pres220(old(lowA, highA, "")))
			base.Serial = "0"
			g, problems := asked(t, base, test.text)
			if test.code != 0 {
				wants(t, g, problems, test.code, "cardRangeData")
				return
			}
			has(t, good(t, g, problems), lowA)
			if g.Serial != "0" || g.Len() != 1 {
				t.Errorf("serial %q, %d ranges", g.Serial, g.Len())
			}
		})
	}
}

func TestPR15UnchangedKeepsTheRanges(t *testing.T) {
	for _, text := range []string{
		strings.Replace(strings.Replace(pres231(""), `,"cardRangeData":[]`, "", 1), `"serialNum":"1"`, `"serialNum":"0"`, 1),
		strings.Replace(pres220(""), `,"cardRangeData":[]`, "", 1),
	} {
		base := generationOf(t, pres220(old(lowA, highA, "")))
		base.Serial = "0"
		g, problems := asked(t, base, text)
		has(t, good(t, g, problems), lowA)
		if g.Serial != "0" || g.Len() != 1 {
			t.Errorf("serial %q, %d ranges", g.Serial, g.Len())
		}
	}
}

func TestPR16PR17SchemesAreKeptApart(t *testing.T) {
	s := NewSchemes("visa", "cb")
	s.Put("cb", generationOf(t, pres231(recent(lowA, highB, ""))))
	s.Put("visa", generationOf(t, pres220(old(lowB, highC, ""))))
	if hits := s.Lookup(lowB); len(hits) != 2 || hits[0].Scheme != "visa" || hits[1].Scheme != "cb" || hits[1].Generation != s.Generation("cb") {
		t.Errorf("Lookup = %v", hits)
	}
}

func TestPR19CardRangeFileIsRead(t *testing.T) {
	text := strings.Replace(pres231(recent(lowA, highA, "")), `"serialNum"`, `"cardRangeDataFileURL":"https://files.example/1","serialNum"`, 1)
	preq := parse(t, `{"messageType":"PReq","messageVersion":"2.3.1","cardRangeDataDownloadInd":"Y"}`)
	pres, problems, err := ReadPRes(strings.NewReader(text), Options{Context: message.Context{PReq: preq}})
	if err != nil || len(problems) > 0 || pres.Kind != File || pres.FileURL != "https://files.example/1" || pres.Serial != "" {
		t.Fatalf("%+v, %v, %v", pres, problems, err)
	}
	base := generationOf(t, pres231(recent(lowC, highC, "")))
	file := func(body string) (*Generation, message.Problems) {
		resp, problems, err := ReadFile(strings.NewReader(body), pres, Options{Context: message.Context{PReq: preq}})
		if err != nil {
			t.Fatal(err)
		}
		if len(problems) > 0 {
			return nil, problems
		}
		return resp.Next(base)
	}
	g, problems := file(`{"cardRangeData":[` + recent(lowB, highB, `,"actionInd":"D"`) + `],"other":1}`)
	has(t, good(t, g, problems), lowB)
	lacks(t, g, lowA, lowC)
	if g.Serial != "" || strings.Join(g.Table.Lookup(lowB).DSVersions, " ") != "2.2.0 2.3.1" {
		t.Errorf("serial %q, %+v", g.Serial, g.Table.Lookup(lowB))
	}
	for _, test := range []struct {
		body, detail string
		code         message.Code
	}{
		{`{}`, "cardRangeData", message.Missing},
		{`{"cardRangeData":[]}`, "cardRangeData", message.Missing},
		{`{"cardRangeData":{"x":1}}`, "cardRangeData", message.Format},
		{`{"cardRangeData":[` + recent(lowB, highB, "") + `],"cardRangeData":[]}`, "cardRangeData", message.Duplicate},
		{`{"cardRangeData":[` + recent(lowB, highB, "") + `,1]}`, "cardRangeData", message.Format},
		{`{"cardRangeData":[` + recent(highB, lowB, "") + `]}`, "cardRangeData", message.Format},
		{`{"cardRangeData":[{"ranges":[{"start":"4000000000000"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`, "cardRangeData.ranges.end", message.Missing},
		{`{"cardRangeData":[` + recent(lowA, highB, "") + "," + recent(lowB, highC, "") + `]}`, lowA + "-" + highB + "," + lowB + "-" + highC, message.RangeOverlap},
	} {
		g, problems := file(test.body)
		wants(t, g, problems, test.code, test.detail)
	}
	for _, body := range []string{"", "[]", `{"cardRangeData":[`, `{"cardRangeData":[]}x`} {
		if _, _, err := ReadFile(strings.NewReader(body), pres, Options{}); err == nil {
			t.Errorf("%q was read", body)
		}
	}
}

// TestReadSetTellsAFileFromAPRes: a file is told from a PRes, whatever stands first in it, and
// though the reader cannot begin again.
func TestReadSetTellsAFileFromAPRes(t *testing.T) {
	beside := &Response{Version: message.V231, DS: DS{Versions: []string{"2.2.0"}}, DSURLs: []DSURL{{URL: "https://ds.example/"}}}
	late := strings.Repeat(" ", 5000) // so that the version of the entries cannot be guessed
	for _, test := range []struct {
		name, text string
		kind       Kind
		version    message.Version
		code       message.Code // when it can be read again
		once       message.Code // when it cannot
	}{
		{"PRes of 2.2.0", pres220(old(lowA, highA, "")), Complete, message.V220, 0, 0},
		{"PRes of 2.3.1", pres231(recent(lowA, highA, "")), Complete, message.V231, 0, 0},
		{"file", `{"cardRangeData":[` + recent(lowA, highA, "") + `]}`, Complete, message.V231, 0, 0},
		{"file with more", `{"made":"today","cardRangeData":[` + recent(lowA, highA, "") + `],"by":1}`, Complete, message.V231, 0, 0},
		{"file, late", `{"cardRangeData":[` + late + recent(lowA, highA, "") + `]}`, Complete, message.V231, 0, message.Format},
		{"file with entries of 2.2.0", `{"cardRangeData":[` + old(lowA, highA, "") + `]}`, Complete, message.V231, message.Missing, message.Format},
		{"PRes that lacks its type", strings.Replace(pres220(old(lowA, highA, "")), "messageType", "x", 1), Complete, message.V220, message.Missing, message.Missing},
		{"nothing", `{}`, Complete, message.V231, message.Missing, message.Missing},
	} {
		t.Run(test.name, func(t *testing.T) {
			for r, code := range map[io.Reader]message.Code{
				strings.NewReader(test.text):                 test.code,
				io.MultiReader(strings.NewReader(test.text)): test.once,
			} {
				resp, problems, err := ReadSet(r, beside, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if got, _ := problems.Pick(message.ForPeer); len(problems) > 0 && got != code || len(problems) == 0 && code != 0 {
					t.Fatalf("%v, want %v", problems, code)
				}
				if code != 0 {
					continue
				}
				g, problems := resp.Next(nil)
				has(t, good(t, g, problems), lowA)
				if resp.Kind != test.kind || g.Version != test.version {
					t.Errorf("kind %d, version %v", resp.Kind, g.Version)
				}
				if file := strings.HasPrefix(test.name, "file"); file != (len(g.DSURLs) == 1) || file && g.Table.Lookup(lowA).DSVersions[0] != "2.2.0" {
					t.Errorf("what is said beside it: %v, %+v", g.DSURLs, g.Table.Lookup(lowA))
				}
			}
		})
	}
}

func TestPR23PR24DSURLsByCountry(t *testing.T) {
	list := `"dsUrlList":[{"threeDSServerToDsUrl":"https://ds.example/all"},{"threeDSServerToDsUrl":"https://ds.example/in","dsCountryCode":"356"}],"readOrder"`
	g := generationOf(t, strings.Replace(pres231(recent(lowA, highA, `,"issuerCountryCode":"356"`)), `"readOrder"`, list, 1))
	if got := strings.Join(g.URLs(g.Table.Lookup(lowA).IssuerCountry), " "); got != "https://ds.example/in https://ds.example/all" {
		t.Errorf("URLs of India: %s", got)
	}
	if got := strings.Join(g.URLs("208"), " "); got != "https://ds.example/all" {
		t.Errorf("URLs of Denmark: %s", got)
	}
	g, problems := asked(t, g, strings.Replace(strings.Replace(pres231(""), `,"cardRangeData":[]`, "", 1), `"serialNum":"1"`, `"serialNum":"0"`, 1))
	if good(t, g, problems); len(g.URLs("356")) != 0 {
		t.Error("a list that is absent was kept")
	}
}

func TestPR25VersionsOfARangeOverridePRes(t *testing.T) {
	base := generationOf(t, pres231(recent(lowA, highA, "")+","+recent(lowB, highB, `,"dsProtocolVersions":["2.1.0"]`)))
	versions := func(g *Generation, pan string) string { return strings.Join(g.Table.Lookup(pan).DSVersions, " ") }
	if versions(base, lowA) != "2.2.0 2.3.1" || versions(base, lowB) != "2.1.0" {
		t.Errorf("versions %s, %s", versions(base, lowA), versions(base, lowB))
	}
	// What a later PRes says of all ranges counts for those that it does not name.
	g, problems := asked(t, base, strings.Replace(pres231(recent(lowC, highC, "")), `["2.3.1","2.2.0"]`, `["2.3.1"]`, 1))
	good(t, g, problems)
	if versions(g, lowA) != "2.3.1" || versions(g, lowB) != "2.1.0" || versions(g, lowC) != "2.3.1" || versions(base, lowA) != "2.2.0 2.3.1" {
		t.Errorf("versions %s, %s, %s", versions(g, lowA), versions(g, lowB), versions(g, lowC))
	}
}

func TestPR26BoundsAreInclusive(t *testing.T) {
	g := generationOf(t, pres220(old(lowB, highB, "")))
	has(t, g, lowB, highB, "4000000001500", lowB+"0", highB+"9", lowB+"000000", highB+"999999")
	lacks(t, g, highA, lowC, highA+"9", lowC+"0", highA+"999999", lowC+"000000", lowB[:12])
}

func generationOf(t *testing.T, text string) *Generation {
	t.Helper()
	g, problems := unasked(t, nil, text)
	return good(t, g, problems)
}

// TestManyLookupsDuringSwaps: of a million look-ups during twenty swaps, each
// finds one generation, whole.
func TestManyLookupsDuringSwaps(t *testing.T) { lookUpDuringSwaps(t, 1_000_000) }

// TestLookupsDuringSwaps is TestManyLookupsDuringSwaps with as many look-ups as the race detector needs.
func TestLookupsDuringSwaps(t *testing.T) { lookUpDuringSwaps(t, 60_000) }

// lookUpDuringSwaps looks cards up in several goroutines while twenty generations come into use, one after the other.
func lookUpDuringSwaps(t *testing.T, lookups int) {
	const swaps, readers = 20, 4
	each := lookups / readers
	generation := func(n int) *Generation {
		var b Builder
		for i := range uint64(1000) {
			b.add(Range{4_000_000_000_000 + 1000*i, 4_000_000_000_999 + 1000*i, 13}, b.id(&Info{ACSStart: fmt.Sprint(n), ACSEnd: fmt.Sprint(i)}))
		}
		table, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return &Generation{Serial: fmt.Sprint(n), Table: table}
	}
	s := NewSchemes("visa")
	s.Put("visa", generation(0))
	var done atomic.Int64
	var wg sync.WaitGroup
	for reader := range readers {
		wg.Go(func() {
			for i := range each {
				row := (i*7919 + reader) % 1000
				hits := s.Lookup(fmt.Sprintf("4000000%03d500", row))
				if len(hits) != 1 || hits[0].Info.ACSStart != hits[0].Generation.Serial || hits[0].Info.ACSEnd != fmt.Sprint(row) {
					t.Errorf("Lookup = %v", hits)
					return
				}
				done.Add(1)
			}
		})
	}
	for n := 1; n <= swaps; n++ {
		for done.Load() < int64(n*readers*each/(swaps+1)) && !t.Failed() {
			runtime.Gosched()
		}
		s.Put("visa", generation(n))
	}
	wg.Wait()
}

func TestDiffListsWhatChanged(t *testing.T) {
	before := generationOf(t, pres220(old(lowA, highA, "")+","+old(lowB, highB, "")))
	after := generationOf(t, pres220(old(lowB, highB, `,"threeDSMethodURL":"https://acs.example/m"`)+","+old(lowC, highC, "")))
	var got []string
	for c := range Diff(before.Table, after.Table) {
		got = append(got, fmt.Sprintf("%v %t %t", c.Range, c.Old != nil, c.New != nil))
	}
	want := []string{lowA + "-" + highA + " true false", lowB + "-" + highB + " true true", lowC + "-" + highC + " false true"}
	if strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("Diff = %v", got)
	}
	for c := range Diff(nil, after.Table) {
		if c.Old != nil || c.New == nil {
			t.Error("not everything is new")
		}
		break
	}
	if !after.Table.Equal(after.Table) || after.Table.Equal(before.Table) {
		t.Error("Equal")
	}
}

func TestPrefixedYieldsRangesOfAPrefix(t *testing.T) {
	table := build(t, &Builder{},
		ranged{"4000000000000000", "4999999999999999", &Info{}},
		ranged{"4571000000000000", "4571999999999999", &Info{}},
		ranged{"4571000000000000000", "4571999999999999999", &Info{}},
		ranged{"5000000000000", "5000000000999", &Info{}},
	)
	for prefix, want := range map[string]int{
		"4571": 3, "45710000000000001": 3, "4": 3, "5000000000000": 1, "5000000000001000": 1, "5000000001000000": 0, "": 4,
		"x": 0, "6": 0, "9999999999999999999": 0,
	} {
		if got := len(maps.Collect(table.Prefixed(prefix))); got != want {
			t.Errorf("Prefixed(%q) has %d ranges, want %d", prefix, got, want)
		}
	}
}

// TestExtensionsBelongToTheirVersion: what a range lists for 2.2.0 is kept for 2.2.0 alone (MC-53).
func TestExtensionsBelongToTheirVersion(t *testing.T) {
	entry := fmt.Sprintf(`{"ranges":[{"start":%q,"end":%q}],"acsProtocolVersions":[{"version":"2.3.1"},`+
		`{"version":"2.2.0","supportedMsgExt":[{"id":"A000000802-004","version":"2.0"}]}]}`, lowA, highA)
	resp, problems, err := ReadPRes(strings.NewReader(pres231(entry)), Options{})
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	g, problems := resp.Next(nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	info := g.Table.Lookup(lowA)
	if info == nil || len(info.ACS) != 2 {
		t.Fatalf("%+v", info)
	}
	for _, acs := range info.ACS {
		isListed := slices.Contains(acs.Extensions, Extension{"A000000802-004", "2.0"})
		if isListed != (acs.Version == "2.2.0") {
			t.Errorf("%+v", acs)
		}
	}
}

package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A presFault is one change to a legal PRes, or to a range in it, and what is to come of
// it. The fields are those of a [fault].
type presFault struct {
	row, name string
	in        string
	edits     []edit    // of the PRes
	entry     overrides // changes a range
	want      string
}

// presFaults are the rows of a PRes that one change shows, in answer to a PReq
// without a serial number.
var presFaults = []presFault{
	{row: "VP-01", name: "bad element", edits: []edit{set("dsTransID", "x")}, want: "203 dsTransID"},
	{row: "VP-01", name: "missing element", edits: []edit{drop("dsTransID")}, want: "201 dsTransID"},
	{row: "VP-01", name: "another transaction", edits: []edit{set("threeDSServerTransID", newID())}, want: "301 threeDSServerTransID"},
	{row: "VP-01", name: "another type", edits: []edit{set("messageType", "ARes")}, want: "101"},

	{row: "VP-02", name: "no threeDSServerTransID", in: "2.1.0 2.2.0", edits: []edit{drop("threeDSServerTransID")}, want: "201 threeDSServerTransID"},
	{row: "VP-02", name: "no dsTransID", in: "2.1.0 2.2.0", edits: []edit{drop("dsTransID")}, want: "201 dsTransID"},
	{row: "VP-02", name: "no dsStartProtocolVersion", in: "2.1.0 2.2.0", edits: []edit{drop("dsStartProtocolVersion")}, want: "201 dsStartProtocolVersion"},
	{row: "VP-02", name: "no dsEndProtocolVersion", in: "2.1.0 2.2.0", edits: []edit{drop("dsEndProtocolVersion")}, want: "201 dsEndProtocolVersion"},

	{row: "VP-03", name: "no threeDSServerTransID", in: "2.3.1", edits: []edit{drop("threeDSServerTransID")}, want: "201 threeDSServerTransID"},
	{row: "VP-03", name: "no dsTransID", in: "2.3.1", edits: []edit{drop("dsTransID")}, want: "201 dsTransID"},
	{row: "VP-03", name: "no dsProtocolVersions", in: "2.3.1", edits: []edit{drop("dsProtocolVersions")}, want: "201 dsProtocolVersions"},
	{row: "VP-03", name: "empty dsProtocolVersions", in: "2.3.1", edits: []edit{set("dsProtocolVersions", []string{})}, want: "201 dsProtocolVersions"},
	{row: "VP-03", name: "no readOrder", in: "2.3.1", edits: []edit{drop("readOrder")}, want: "201 readOrder"},
	{row: "VP-03", name: "bad readOrder", in: "2.3.1", edits: []edit{set("readOrder", "x")}, want: "203 readOrder"},

	{row: "VP-04", name: "empty", edits: []edit{set("serialNum", "")}, want: "203 serialNum"},
	{row: "VP-04", name: "blank", edits: []edit{set("serialNum", "   ")}, want: "203 serialNum"},
	{row: "VP-04", name: "21 characters", edits: []edit{set("serialNum", strings.Repeat("9", 21))}, want: "203 serialNum"},
	{row: "VP-04", name: "a number", edits: []edit{set("serialNum", 1)}, want: "203 serialNum"},

	{row: "VP-06", name: "empty", in: "2.1.0 2.2.0", edits: []edit{set("cardRangeData", []object{})}, want: "203 cardRangeData"},
	{row: "VP-06", name: "empty where it is asked for", in: "2.3.1", edits: []edit{set("cardRangeData", []object{})}, want: "201 cardRangeData"},
	{row: "VP-06", name: "an object", edits: []edit{set("cardRangeData", object{"x": "y"})}, want: "203 cardRangeData"},

	{row: "VP-07", name: "no startRange", in: "2.1.0 2.2.0", entry: overrides{"startRange": nil}, want: "201 cardRangeData.startRange"},
	{row: "VP-07", name: "no endRange", in: "2.1.0 2.2.0", entry: overrides{"endRange": nil}, want: "201 cardRangeData.endRange"},
	{row: "VP-07", name: "no acsStartProtocolVersion", in: "2.1.0 2.2.0", entry: overrides{"acsStartProtocolVersion": nil},
		want: "201 cardRangeData.acsStartProtocolVersion"},
	{row: "VP-07", name: "no acsEndProtocolVersion", in: "2.1.0 2.2.0", entry: overrides{"acsEndProtocolVersion": nil},
		want: "201 cardRangeData.acsEndProtocolVersion"},
	{row: "VP-07", name: "12 digits", in: "2.1.0 2.2.0", entry: overrides{"startRange": "470000000000"}, want: "203 cardRangeData.startRange"},
	{row: "VP-07", name: "20 digits", in: "2.1.0 2.2.0", entry: overrides{"endRange": strings.Repeat("4", 20)}, want: "203 cardRangeData.endRange"},
	{row: "VP-07", name: "unknown action", in: "2.1.0 2.2.0", entry: overrides{"actionInd": "X"}, want: "203 cardRangeData.actionInd"},
	{row: "VP-07", name: "URL of 257 characters", in: "2.1.0 2.2.0", entry: overrides{"threeDSMethodURL": long("https://acs.example/", 257)}},
	{row: "VP-07", name: "all that may be", in: "2.1.0 2.2.0", entry: overrides{
		"threeDSMethodURL": long("https://acs.example/", 256), "actionInd": "A", "dsStartProtocolVersion": v210, "dsEndProtocolVersion": v220,
	}},

	{row: "VP-08", name: "no ranges", in: "2.3.1", entry: overrides{"ranges": []object{}}, want: "201 cardRangeData.ranges"},
	{row: "VP-08", name: "no start", in: "2.3.1", entry: overrides{"ranges[0].start": nil}, want: "201 cardRangeData.ranges.start"},
	{row: "VP-08", name: "no end", in: "2.3.1", entry: overrides{"ranges[0].end": nil}, want: "201 cardRangeData.ranges.end"},
	{row: "VP-08", name: "12 digits", in: "2.3.1", entry: overrides{"ranges[0].start": "470000000000"}, want: "203 cardRangeData.ranges.start"},
	{row: "VP-08", name: "20 digits", in: "2.3.1", entry: overrides{"ranges[0].end": strings.Repeat("4", 20)}, want: "203 cardRangeData.ranges.end"},
	{row: "VP-08", name: "5001 ranges", in: "2.3.1", entry: overrides{"ranges": manyRanges(5001)}, want: "203 cardRangeData.ranges"},
	{row: "VP-08", name: "no versions", in: "2.3.1", entry: overrides{"acsProtocolVersions": nil}, want: "201 cardRangeData.acsProtocolVersions"},
	{row: "VP-08", name: "version without one", in: "2.3.1",
		entry: overrides{"acsProtocolVersions": []object{{"acsInfoInd": []string{"01"}}}},
		want:  "201 cardRangeData.acsProtocolVersions.version"},
	{row: "VP-08", name: "URL of 2049 characters", in: "2.3.1", entry: overrides{"acsProtocolVersions[0].threeDSMethodURL": long("https://acs.example/", 2049)}},
	{row: "VP-08", name: "excluded country", in: "2.3.1", entry: overrides{"issuerCountryCode": "999"}, want: "304 cardRangeData.issuerCountryCode"},
	{row: "VP-08", name: "all that may be", in: "2.3.1", entry: overrides{
		"acsProtocolVersions[0].threeDSMethodURL": long("https://acs.example/", 2048), "acsProtocolVersions[0].acsInfoInd": []string{"01", "02"},
		"actionInd": "A", "issuerCountryCode": "208", "dsProtocolVersions": []string{v220},
	}},

	{row: "VP-09", name: "reversed", in: "2.1.0 2.2.0",
		entry: overrides{"startRange": "4700000900000000", "endRange": "4700000800000000"}, want: "203 cardRangeData"},
	{row: "VP-09", name: "reversed", in: "2.3.1",
		entry: overrides{"ranges": []object{{"start": "4700000900000000", "end": "4700000800000000"}}}, want: "203 cardRangeData"},

	{row: "VP-09", name: "reversed, behind one that is good", in: "2.1.0 2.2.0", edits: []edit{set("cardRangeData", []object{
		{"startRange": "4600000000000000", "endRange": "4600000099999999", "acsStartProtocolVersion": v210, "acsEndProtocolVersion": v220},
		{"startRange": "4600000900000000", "endRange": "4600000800000000", "acsStartProtocolVersion": v210, "acsEndProtocolVersion": v220},
	})}, want: "203 cardRangeData"},
	{row: "VP-09", name: "reversed, behind one that is good", in: "2.3.1", edits: []edit{set("cardRangeData", []object{
		{"ranges": []object{{"start": "4600000000000000", "end": "4600000099999999"}}, "acsProtocolVersions": []object{{"version": v220}}},
		{"ranges": []object{{"start": "4600000900000000", "end": "4600000800000000"}}, "acsProtocolVersions": []object{{"version": v220}}},
	})}, want: "203 cardRangeData"},

	{row: "VP-11", name: "05", in: "2.2.0", entry: overrides{"acsInfoInd": []string{"05"}}, want: "203 cardRangeData.acsInfoInd"},
	{row: "VP-11", name: "04 and 80", in: "2.2.0", entry: overrides{"acsInfoInd": []string{"04", "80"}}},
	{row: "VP-11", name: "not there yet", in: "2.1.0", entry: overrides{"acsInfoInd": []string{"01", "02"}}},
	{row: "VP-11", name: "12", in: "2.3.1", entry: overrides{"acsProtocolVersions[0].acsInfoInd": []string{"12"}},
		want: "207 cardRangeData.acsProtocolVersions.acsInfoInd"},
	{row: "VP-11", name: "11 and 99", in: "2.3.1", entry: overrides{"acsProtocolVersions[0].acsInfoInd": []string{"11", "99"}}},

	{row: "VP-12", name: "of the ACS", in: "2.2.0", entry: overrides{"acsEndProtocolVersion": "2.4.0"}},
	{row: "VP-12", name: "of the directory server", in: "2.2.0", edits: []edit{set("dsEndProtocolVersion", "2.10.15")}},
	{row: "VP-12", name: "no version", in: "2.2.0", entry: overrides{"acsEndProtocolVersion": "2.4"}, want: "203 cardRangeData.acsEndProtocolVersion"},

	{row: "VP-13", name: "of the ACS", in: "2.3.1", entry: overrides{"acsProtocolVersions[0].version": "9.0.0"}, want: "102"},
	{row: "VP-13", name: "of the directory server", in: "2.3.1", entry: overrides{"dsProtocolVersions": []string{"9.0.0"}}, want: "102"},

	{row: "VP-18", name: "no address of the web", in: "2.1.0 2.2.0", entry: overrides{"threeDSMethodURL": "ftp://acs.example/m"}},
	{row: "VP-18", name: "no address of the web", in: "2.3.1", entry: overrides{"acsProtocolVersions[0].threeDSMethodURL": "acs.example"}},

	{row: "VP-19", name: "no URL", in: "2.3.1", edits: []edit{set("dsUrlList", []object{{"dsCountryCode": "208"}})}, want: "201 dsUrlList.threeDSServerToDsUrl"},
	{row: "VP-19", name: "100 URLs", in: "2.3.1", edits: []edit{set("dsUrlList", urls(100))}, want: "203 dsUrlList"},
	{row: "VP-19", name: "no country", in: "2.3.1",
		edits: []edit{set("dsUrlList", []object{{"threeDSServerToDsUrl": "https://ds.example/", "dsCountryCode": "999"}})},
		want:  "304 dsUrlList.dsCountryCode"},
	{row: "VP-19", name: "99 URLs", in: "2.3.1", edits: []edit{set("dsUrlList", urls(99))}},

	{row: "VP-20", name: "version of one character", in: "2.3.1", entry: extensions("A000000802-004", "2"),
		want: "203 cardRangeData.acsProtocolVersions.supportedMsgExt.version"},
	{row: "VP-20", name: "id of 13 characters", in: "2.3.1", entry: extensions("A00000802-004", "2.0"),
		want: "203 cardRangeData.acsProtocolVersions.supportedMsgExt.id"},
	{row: "VP-20", name: "no id", in: "2.3.1",
		entry: overrides{"acsProtocolVersions[0].supportedMsgExt": []object{{"version": "2.0"}}},
		want:  "201 cardRangeData.acsProtocolVersions.supportedMsgExt.id"},
	{row: "VP-20", name: "whole", in: "2.3.1", entry: extensions("A000000802-004", "2.0")},
}

func extensions(id, version string) overrides {
	return overrides{"acsProtocolVersions[0].supportedMsgExt": []object{{"id": id, "version": version}}}
}

func manyRanges(n int) []object {
	all := make([]object, n)
	for i := range all {
		all[i] = object{"start": fmt.Sprintf("46%06d00000000", i), "end": fmt.Sprintf("46%06d99999999", i)}
	}
	return all
}

func urls(n int) []object {
	all := make([]object, n)
	for i := range all {
		all[i] = object{"threeDSServerToDsUrl": fmt.Sprintf("https://ds.example/%d", i), "dsCountryCode": "208"}
	}
	return all
}

// checkPRes puts the faults of one row into PRes on one scripted directory server.
func checkPRes(t *T, a *scriptedDS, faults []presFault) {
	a.loadUsual(t, "")
	for _, f := range faults {
		end := t.nameCase(fmt.Sprintf("%s %s, %s", f.row, f.name, a.version))
		if f.want != "" {
			a.wantRefused(t, f.want, a.pres("", []object{a.entry(7, f.entry)}, f.edits...))
		} else {
			a.wantAccepted(t, a.pres("", append(a.entries(0, 1, 2), a.entry(7, f.entry)), f.edits...))
			a.wantRanges(t, 0, 1, 2, 7)
		}
		end()
	}
}

// presChecks is the validation of PRes.
var presChecks = vpChecks(presFaults, []check{
	{id: "VP-05", waits: true, do: func(t *T) { // cardRangeData is required when the serial number changed, or none was sent
		t.onScripted(allVersions, func(a *scriptedDS) {
			if a.version != v231 { // before, it is optional
				a.loadUsual(t, "1")
				a.wantAccepted(t, a.pres("2", nil))
				a.wantRanges(t, 0, 1, 2, 3)
				return
			}
			a.loadUsual(t, "")
			a.wantRefused(t, "201 cardRangeData", a.pres("", nil))
			a.loadUsual(t, "1")
			a.wantRefused(t, "201 cardRangeData", a.pres("2", nil))
			a.loadUsual(t, "1") // it may ask for everything after that
			a.wantAccepted(t, a.pres("1", nil))
			a.wantRanges(t, 0, 1, 2, 3)
		})
	}},
	{id: "VP-10", waits: true, do: func(t *T) { // a range whose bounds differ in length is left out
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "")
			low, _ := a.rangeBounds(7)
			odd := a.between(low[:13], low[:15]+"9")
			for _, ranges := range [][]object{append(a.entries(0, 1, 2), odd), append([]object{odd}, a.entries(0, 1, 3)...)} {
				a.wantAccepted(t, a.pres("", ranges))
			}
			a.wantRanges(t, 0, 1, 3)
		})
	}},
	{id: "VP-14", waits: true, do: func(t *T) { // overlapping ranges
		t.onScripted(allVersions, func(a *scriptedDS) {
			want := "203 cardRangeData"
			if a.version == v231 {
				want = "205"
			}
			first, last := a.rangeBounds(0)
			within := a.between(first, first[:10]+"000999")
			for _, update := range [][]object{{a.entry(5), a.between(a.card(5), a.card(6))}, {within}, {a.between(first, last[:15]+"8")}} {
				a.loadUsual(t, "1")
				a.wantRefused(t, want, a.pres("2", update))
			}
			a.wantRefused(t, want, a.pres("", append(a.entries(0, 1, 2), a.between(a.card(2), a.card(3)))))
			if a.version == v231 {
				a.wantRefused(t, want, a.pres("", append(a.entries(0, 1, 2), within)))
				return
			}
			// In a complete set ranges may lie within each other; the narrowest counts.
			narrow := a.between(first, first[:10]+"000999", overrides{"threeDSMethodURL": "https://acs.example/narrow"})
			a.wantAccepted(t, a.pres("", append(a.entries(0, 1, 2), narrow)))
			if got := a.crd(t, first).text("threeDSMethodURL"); got != "https://acs.example/narrow" {
				t.Errorf("%s: threeDSMethodURL %q, want that of the narrowest range", a.version, got)
			}
			a.wantRanges(t, 0, 1, 2)
		})
	}},
	{id: "VP-15", waits: true, do: func(t *T) { // impossible actions
		t.onScripted(allVersions, func(a *scriptedDS) {
			refused := func(want string, n int, action string) {
				a.loadUsual(t, "1")
				a.wantRefused(t, want, a.pres("2", []object{a.entry(n, overrides{"actionInd": action})}))
			}
			if a.version != v231 {
				refused("203 cardRangeData", 5, "D")
				refused("203 cardRangeData", 5, "M")
				return
			}
			refused("206", 5, "M")
			refused("206", 1, "A")
			refused("206", 5, "D")
			low, high := a.rangeBounds(5)
			erros := a.requests("Erro", "")
			if detail := erros[len(erros)-1].o.text("errorDetail"); !strings.Contains(detail, low+"-"+high) || !strings.HasSuffix(detail, "D") {
				t.Errorf("errorDetail %q, want range and action", detail)
			}
		})
	}},
	{id: "VP-16", waits: true, do: func(t *T) { // the same range again
		t.onScripted(until220, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			a.wantAccepted(t, a.pres("2", []object{a.entry(1, overrides{"actionInd": "A", "threeDSMethodURL": "https://acs.example/again"})}))
			if got := a.crd(t, a.card(1)).text("threeDSMethodURL"); got != "https://acs.example/again" {
				t.Errorf("%s: threeDSMethodURL %q, want that of the range added last", a.version, got)
			}
			a.wantRanges(t, 0, 1, 2, 3)
		})
	}},
	{id: "VP-17", waits: true, do: func(t *T) { // one bad of a hundred: none is applied, the serial number stays
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "7")
			var ranges []object
			for n := 4; n < 100; n++ {
				ranges = append(ranges, a.entry(n))
			}
			bad := a.entry(0, overrides{"actionInd": "X"})
			a.wantRefused(t, "203 cardRangeData.actionInd", a.pres("8", append(ranges, a.entry(1, overrides{"actionInd": "D"}), bad)))
			a.pending = a.nextPReq(t)
			if got := a.pending.o.text("serialNum"); got != "7" && got != "" {
				t.Errorf("%s: after a bad PRes the PReq has serialNum %q, want the one before it or none", a.version, got)
			}
			a.wantRanges(t, 0, 1, 2, 3)
		})
	}},
	{id: "VP-21", waits: true, do: func(t *T) { // an Erro does not empty the ranges
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			for _, code := range []string{"103", "201", "203", "404", "999", "307"} {
				before := a.wantAccepted(t, a.erro(code)).at
				a.wantRanges(t, 0, 1, 2, 3)
				a.pending = a.nextPReq(t)
				if gap := a.pending.at.Sub(before); gap < minRefresh {
					t.Errorf("%s: %v after Erro %s the next PReq came, the minRefresh is %v", a.version, gap, code, minRefresh)
				}
			}
		})
	}},
})

// vpChecks makes one check of the faults of each row, adds the others, and sorts all.
func vpChecks(faults []presFault, others []check) []check {
	cases := make(map[string]map[string][]presFault)
	for _, f := range faults {
		if cases[f.row] == nil {
			cases[f.row] = make(map[string][]presFault)
		}
		versions := allVersions
		if f.in != "" {
			versions = strings.Fields(f.in)
		}
		for _, v := range versions {
			cases[f.row][v] = append(cases[f.row][v], f)
		}
	}
	for row, byVersion := range cases {
		others = append(others, check{id: row, waits: true, do: func(t *T) {
			t.onScripted(slices.Sorted(maps.Keys(byVersion)), func(a *scriptedDS) {
				checkPRes(t, a, byVersion[a.version])
				switch row {
				case "VP-12":
					a.laterVersions(t)
				case "VP-18":
					a.badMethodURLs(t)
				}
			})
		}})
	}
	slices.SortFunc(others, func(a, b check) int { return strings.Compare(a.id, b.id) })
	return others
}

// laterVersions: of a range whose issuer knows later versions than we do, and so does
// the directory server, the requestor is told those that we know (row VP-12).
func (a *scriptedDS) laterVersions(t *T) {
	later := overrides{"acsEndProtocolVersion": "2.4.0"}
	a.wantAccepted(t, a.pres("", append(a.entries(0, 1, 2), a.entry(7, later)), set("dsEndProtocolVersion", "2.10.15")))
	crd := a.crd(t, a.card(7))
	for _, list := range []string{"acsProtocolVersions[1].version", "dsProtocolVersions[1]"} {
		if got := crd.text(list); got != v220 {
			t.Errorf("%s: /preauth: %s is %q, want %q", a.version, list, got, v220)
		}
	}
}

// badURLs are URLs that no browser may be sent to, of each kind.
var badURLs = []string{
	"http://acs.example/c", "javascript://acs.example/%0aalert(1)", `https://acs.example/"onload="x`, "https://acs.example/<script>",
	"https://bank.example@evil.example/", `https://acs.example\@evil.example/`, "https://acs.example:99999/", "https://acs.example/\u202ex",
	"https://b\u0430nk.example/", "https://%61cs.example/", "https://127.0.0.1/", "https://2130706433/", "https://0x7f.1/", "https://[::1]/",
	"https://localhost./", "https://169.254.169.254/", "https://0.0.0.0/",
}

// badMethodURLs: a threeDSMethodURL that no browser may be sent to is no reason to refuse
// a PRes, but the requestor does not get it (rows VP-18 and TL-12).
func (a *scriptedDS) badMethodURLs(t *T) {
	values := []any{"ftp://acs.example/m", "acs dot example", "", 7, object{}, long("https://acs.example/", 2049)}
	for _, url := range badURLs {
		values = append(values, url)
	}
	for _, value := range values {
		bare := overrides{"threeDSMethodURL": value}
		if a.version == v231 {
			bare = overrides{"acsProtocolVersions[0].threeDSMethodURL": value, "acsProtocolVersions[1].threeDSMethodURL": value}
		}
		a.wantAccepted(t, a.pres("", append(a.entries(0, 1, 2), a.entry(7, bare))))
		crd := a.crd(t, a.card(7))
		if crd == nil || strings.Contains(string(crd.bytes()), "threeDSMethodURL") {
			t.Errorf("%s: threeDSMethodURL %.80v: /preauth says %s, want the card without the URL", a.version, value, crd.bytes())
		}
	}
}

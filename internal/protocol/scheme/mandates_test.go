package scheme

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/message"
)

//go:embed testdata/mandates.txt
var mandatesText string

// A mandateRow is a row of testdata/mandates.txt.
type mandateRow struct {
	text                               string
	scheme, version, channel, category string
	day                                time.Time
	has, told                          []string
	source                             string
}

func mandateRows(t testing.TB) []mandateRow {
	t.Helper()
	words := func(text string) []string {
		if text == "-" {
			return nil
		}
		return strings.Fields(text)
	}
	var rows []mandateRow
	for line := range strings.Lines(mandatesText) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 4 {
			t.Fatalf("%d parts: %s", len(parts), line)
		}
		where := strings.Fields(parts[0])
		day, err := time.Parse(time.DateOnly, where[4])
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, mandateRow{line, where[0], where[1], where[2], where[3], day, words(parts[1]), words(parts[2]), parts[3]})
	}
	return rows
}

// areq is the request of a row. It has what every scheme asks for that the table is not about.
func (r *mandateRow) areq() string {
	channel := map[string]string{"APP": "01", "BRW": "02", "3RI": "03"}[r.channel]
	category := map[string]string{"PA": "01", "NPA": "02"}[r.category]
	id := map[string]string{"visa": "12345678*M1", "jcb": "12345678MCT123456789012345"}[r.scheme]
	if id == "" {
		id = "MER_1"
	}
	s := fmt.Sprintf(
		`{"messageType":"AReq","messageVersion":%q,"deviceChannel":%q,"messageCategory":%q,"threeDSRequestorID":%q,"cardExpiryDate":"3012","transType":"01"`,
		r.version, channel, category, id)
	for _, name := range r.has {
		name, value, _ := strings.Cut(name, "=")
		if value == "" {
			value = "1"
		}
		s += fmt.Sprintf(`,%q:%q`, name, value)
	}
	return s + "}"
}

// tell returns what the request of a row is told beyond advice, in the words of the table, and the sources of it.
func (r *mandateRow) tell(t testing.TB, lib library) (told, sources []string) {
	t.Helper()
	prefix := map[Kind]string{Ignore: "ignored:", Forbid: "forbidden:", Ended: "ended:"}
	for _, f := range lib.sheets[r.scheme].Check(parse(t, r.areq()), r.day) {
		if f.Rule == Advise {
			continue
		}
		text := prefix[f.Rule] + f.Element
		if !f.InForce {
			text += "@later"
		}
		told = append(told, text)
		for _, s := range f.Sources {
			sources = append(sources, s.Word)
		}
	}
	return told, sources
}

// isTrue reports whether the rules say what the row says.
func (r *mandateRow) isTrue(t testing.TB, lib library) bool {
	t.Helper()
	told, _ := r.tell(t, lib)
	slices.Sort(told)
	return slices.Equal(told, slices.Sorted(slices.Values(r.told)))
}

// TestMandatesOfSchemes is the truth table of what schemes ask for: scheme by category, channel, which of several
// elements, and day; each row has its source.
func TestMandatesOfSchemes(t *testing.T) {
	t.Parallel()
	rows := mandateRows(t)
	if len(rows) < 60 {
		t.Errorf("%d rows, want 60 at least", len(rows))
	}
	known := map[string]bool{}
	for _, p := range public().profiles {
		for _, f := range p.Facts {
			for _, s := range f.Sources {
				known[s.Word] = s.URL != "" && s.Date != ""
			}
		}
	}
	for _, r := range rows {
		told, sources := r.tell(t, *public())
		if !r.isTrue(t, *public()) {
			t.Errorf("told %q by %s", told, r.text)
		}
		if !known[r.source] {
			t.Errorf("no source with address and date: %s", r.text)
		}
		if len(told) > 0 && !slices.Contains(sources, r.source) {
			t.Errorf("the sources are %q: %s", sources, r.text)
		}
	}
}

// TestMandatesTableNoticesATurnedRow: each row is false when it says the opposite.
func TestMandatesTableNoticesATurnedRow(t *testing.T) {
	t.Parallel()
	for _, r := range mandateRows(t) {
		turned := r
		if turned.told = nil; len(r.told) == 0 {
			turned.told = []string{"email"}
		}
		if turned.isTrue(t, *public()) {
			t.Errorf("the opposite is true as well: %s", r.text)
		}
	}
}

// TestMandatesTableNoticesATurnedRule: each of the mandates, changed by a little, makes a row of the table false.
func TestMandatesTableNoticesATurnedRule(t *testing.T) {
	t.Parallel()
	rows := mandateRows(t)
	for _, turn := range [][2]string{
		{"scheme visa Visa", "scheme mastercard Visa"}, // and Mastercard's rules become Visa's
		{"require cardholderName in PA APP BRW", "advise cardholderName in PA APP BRW"},
		{"require cardholderName in PA APP BRW", "require cardholderName in APP BRW"},
		{"require cardholderName in PA APP BRW", "require cardholderName in PA"},
		{"require cardholderName in PA APP BRW since 2024-08-12", "require cardholderName in PA APP BRW since 2024-08-13"},
		{"require cardholderName in PA APP BRW since 2024-08-12", "require cardholderName in PA APP BRW since 2024-08-12 until 2025"},
		{"one-of email homePhone mobilePhone workPhone in PA", "one-of email homePhone mobilePhone in PA"},
		{"one-of email homePhone mobilePhone workPhone in PA", "one-of homePhone mobilePhone workPhone in PA"},
		{"one-of email homePhone mobilePhone workPhone in PA", "one-of cardholderName email homePhone mobilePhone workPhone in PA"},
		{"require browserIP in PA BRW since 2024-08-12", "require browserIP in PA BRW since 2024-08-11"},
		{"require browserIP in PA BRW", "where-due browserIP in PA BRW"},
		{"require appIp in PA APP since", "require appIp in PA APP 2.2.0 since"},
		{"require acquirerBIN in NPA", "where-due acquirerBIN in NPA"},
		{"if threeRIInd is 01 02 ;", "if threeRIInd is 01 ;"},
		{"one-of cardholderName email homePhone mobilePhone workPhone in PA since 2025",
			"one-of cardholderName email homePhone mobilePhone workPhone in PA since 2024-12"},
		{"one-of cardholderName email homePhone mobilePhone workPhone in PA since 2025", "one-of cardholderName email homePhone mobilePhone workPhone since 2025"},
		{"one-of billAddrLine1 shipAddrLine1", "one-of billAddrLine1 shipAddrCity"},
		{"one-of billAddrLine1 shipAddrLine1 in PA", "one-of billAddrLine1 shipAddrLine1 in PA BRW"},
		{"one-of browserIP appIp in PA APP BRW", "one-of browserIP cardholderName in PA APP BRW"},
		{"if threeRIInd is 06 ;", "if threeRIInd is 07 ;"},
		{"forbid threeRIInd if", "require threeRIInd if"},
		{"is 05 06 07", "is 05 06"},
		{"is 05 06 07", "is 04 05 06 07"},
		{"ended messageVersion in 2.1.0 since 2024-09-25", "ended messageVersion in 2.2.0 since 2024-09-25"},
		{"ended messageVersion in 2.1.0 since 2024-09-25", "ended messageVersion in 2.1.0 since 2024-09-24"},
		{"ended messageVersion in 2.1.0 since 2024-09-24 ; cardinal", "ended messageVersion in 2.1.0 since 2024-09-25 ; cardinal"},
		{"ended messageVersion in 2.1.0 since 2024-09-24 ; elavon one-source", "ended messageVersion in 2.1.0 until 2025 ; elavon one-source"},
	} {
		if !strings.Contains(profilesText, turn[0]) {
			t.Errorf("the profiles have no %q", turn[0])
			continue
		}
		text := profilesText
		if strings.HasPrefix(turn[0], "scheme ") {
			text = strings.ReplaceAll(text, "scheme mastercard ", "scheme visa ")
		}
		profiles, err := read(strings.Replace(text, turn[0], turn[1], 1))
		if err != nil {
			t.Errorf("%s: %v", turn[1], err)
			continue
		}
		lib := compile(profiles)
		if !slices.ContainsFunc(rows, func(r mandateRow) bool { return !r.isTrue(t, lib) }) {
			t.Errorf("no row notices %q in place of %q", turn[1], turn[0])
		}
	}
}

// TestMandatesTableHasARowForEachRule: without any one of the lines that require or forbid an element, a row of
// the table is false. What the protocol requires itself is not asked for by a scheme, and each request of the
// table has an expiry date.
func TestMandatesTableHasARowForEachRule(t *testing.T) {
	t.Parallel()
	rows, lines := mandateRows(t), 0
	for line := range strings.Lines(profilesText) {
		if !strings.HasPrefix(line, "require ") && !strings.HasPrefix(line, "forbid ") ||
			strings.Contains(line, "; emvco sure") || strings.HasPrefix(line, "require cardExpiryDate") {
			continue
		}
		lines++
		profiles, err := read(strings.Replace(profilesText, line, "", 1))
		if err != nil {
			t.Fatal(err)
		}
		lib := compile(profiles)
		if !slices.ContainsFunc(rows, func(r mandateRow) bool { return !r.isTrue(t, lib) }) {
			t.Errorf("testdata/mandates.txt has no row that is false without %q", strings.TrimSpace(line))
		}
	}
	if lines < 10 {
		t.Errorf("%d lines require or forbid something, fewer than there must be", lines)
	}
}

// TestRulesHaveASourceWithAddressAndDate: what is asked of requests, and may be checked, has a source that can be read.
func TestRulesHaveASourceWithAddressAndDate(t *testing.T) {
	t.Parallel()
	for _, p := range public().profiles {
		for _, f := range p.Facts {
			switch f.Kind {
			case Require, Ignore, Forbid, Ended:
			default:
				continue
			}
			for _, s := range f.Sources {
				if (s.URL == "" || s.Date == "") && f.Certainty != Disputed {
					t.Errorf("%s: %s: the source %s has no address or no date", p.Scheme, f.Statement(), s.Word)
				}
			}
		}
	}
}

// TestFindingsSayWhatHappens: the text of a mandate says that requests do not fail for it.
func TestFindingsSayWhatHappens(t *testing.T) {
	t.Parallel()
	areq := strings.NewReplacer("email", "x", "homePhone", "y", "mobilePhone", "z", "workPhone", "v", "cardholderName", "w").Replace(visaPayment)
	for scheme, want := range map[string]string{
		"visa":       "one of email, homePhone, mobilePhone, workPhone: required; counted as missing data, and requests do not fail for it by themselves",
		"mastercard": "one of cardholderName, email, homePhone, mobilePhone, workPhone: required; no fee and no decline has been announced",
	} {
		if got := findings(t, scheme, areq); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q in it", scheme, got, want)
		}
	}
	before := Public("visa").Check(parse(t, areq), time.Date(2024, 8, 11, 23, 59, 59, 0, time.UTC))
	for _, f := range before {
		if f.Element == "cardholderName" && (f.InForce || f.Code != 0 || !strings.HasPrefix(f.Text, "cardholderName: required from 2024-08-12 on;")) {
			t.Errorf("before its day: %+v", f)
		}
	}
}

// TestRequirementsOfAVersion: what /lookup says of a scheme.
func TestRequirementsOfAVersion(t *testing.T) {
	t.Parallel()
	find := func(all []Requirement, element string, level api.Level) *Requirement {
		i := slices.IndexFunc(all, func(r Requirement) bool { return slices.Contains(r.Elements, element) && r.Level == level })
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	visa := Public("visa").Requirements(message.V220, today)
	contact := find(visa, "email", api.LevelRequired)
	if contact == nil || len(contact.Elements) != 4 || contact.Since.String() != "2024-08-12" || !contact.InForce || contact.Sources[0].URL == "" ||
		len(contact.Channels) != 2 || len(contact.Categories) != 1 || contact.Effect == "" {
		t.Errorf("Visa's contact: %+v", contact)
	}
	if r := find(visa, "appIp", api.LevelRequired); r != nil {
		t.Errorf("2.2.0 has no appIp: %+v", r)
	}
	if r := find(visa, "billAddrLine1", api.LevelAdvised); r == nil || find(visa, "billAddrLine1", api.LevelRequired) != nil {
		t.Errorf("Visa's billing address: %+v", r)
	}
	if r := find(Public("amex").Requirements(message.V220, today), "threeDSRequestorChallengeInd", api.LevelIgnored); r == nil || r.If.Element == "" {
		t.Errorf("American Express: %+v", r)
	}
	if r := find(Public("visa").Requirements(message.V220, today.AddDate(-3, 0, 0)), "email", api.LevelRequired); r == nil || r.InForce {
		t.Errorf("three years before: %+v", r)
	}
	own, err := ReadOwn("girocard", "scheme girocard Ours\nrequire mcc in NPA until 2025 ; vendor-doc sure\nforbid email ; vendor-doc sure\n")
	if err != nil {
		t.Fatal(err)
	}
	all := NewSheet("girocard", own).Requirements(message.V220, today)
	if find(all, "mcc", api.LevelRequired) != nil || find(all, "email", api.LevelForbidden) == nil {
		t.Errorf("an operator's rules: %+v", all)
	}
	if (*Sheet)(nil).Requirements(message.V220, today) != nil {
		t.Error("no rules ask for something")
	}
}

// TestD23EveryFindingCanBeLookedUp: a public rule whose source has neither an address nor a title is not found on
// payments. A payment with the least that the protocol asks for has few findings.
func TestD23EveryFindingCanBeLookedUp(t *testing.T) {
	isKnown := func(s Source) bool { return s.Word != "vendor-doc" && s.Word != memory }
	for _, name := range Names() {
		for _, v := range message.Versions() {
			for _, channel := range []string{"01", "02", "03"} {
				for _, category := range []string{"01", "02"} {
					areq := fmt.Sprintf(`{"messageType":"AReq","messageVersion":%q,"deviceChannel":%q,"messageCategory":%q}`, v, channel, category)
					m, err := message.Parse([]byte(areq), message.Limits{})
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range Public(name).Check(m, time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)) {
						if !slices.ContainsFunc(f.Sources, isKnown) {
							t.Errorf("%s %s %s %s: %s: its source is not known", name, v, channel, category, f.Text)
						}
					}
				}
			}
		}
	}
}

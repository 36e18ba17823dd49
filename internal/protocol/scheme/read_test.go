package scheme

import (
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// TestReadRefusesWhatItDoesNotUnderstand: what is not understood is refused, with its line.
func TestReadRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"require cardExpiryDate ; vendor-doc sure", ""},
		{"require cardExpiryDate in PA 2.2.0 BRW ; vendor-doc unsure ; a remark", ""},
		{`format threeDSRequestorID an8 "*" an1-26 ; vendor-doc sure`, ""},
		{"code acsInfoInd 90-94 a family ; vendor-doc sure", ""},
		{"code eci N2 authenticated ; vendor-doc sure", ""},
		{"extension A000000001-x ARes 2.3.1 critical A Name ; public-standard sure", ""},
		{"extension A000000001-x unknown A Name ; public-standard sure", ""},
		{"rid A000000001 ; memory unsure", ""},
		{"require one-of email homePhone in PA BRW if threeRIInd is 01 02 since 2024-08-12 until 2026 ; vendor-doc public-standard one-source ; a ; b", ""},
		{"forbid email until 2026-01 ; vendor-doc disputed ; ; refused", ""},
		{"ignore email since 2024 in 2.3.1 ; vendor-doc sure", ""},
		{"ended messageVersion in 2.1.0 ; vendor-doc sure", ""},
		{"format email an1-8 in PA since 2024 ; vendor-doc sure", ""},
		{"require email ; letter sure", ""},

		{"require one-of email ; vendor-doc sure", "one-of wants two elements"},
		{"require one-of email email ; vendor-doc sure", "email twice in one-of"},
		{"require one-of email mail ; vendor-doc sure", `"mail" is no element of an AReq`},
		{"forbid one-of email homePhone ; vendor-doc sure", `"one-of" is no element of an AReq`},
		{"require email since ; vendor-doc sure", "want since and a date"},
		{"require email since 12.8.2024 ; vendor-doc sure", "want since and a date"},
		{"require email since 2024-02-30 ; vendor-doc sure", "want since and a date"},
		{"require email until 2024 2025 ; vendor-doc sure", "want until and a date"},
		{"require email since 2024 since 2025 ; vendor-doc sure", "since twice"},
		{"require email since 2024-08-12 until 2024-08-11 ; vendor-doc sure", "until lies before since"},
		{"require email if threeRIInd 01 ; vendor-doc sure", "want if ELEMENT is, and values"},
		{"require email if threeRIInd is ; vendor-doc sure", "want if ELEMENT is, and values"},
		{"require email if threeRI is 01 ; vendor-doc sure", `"threeRI" is no element of an AReq`},
		{"ended messageVersion in PA ; vendor-doc sure", "want ended messageVersion in, and versions"},
		{"ended email in 2.1.0 ; vendor-doc sure", "want ended messageVersion in, and versions"},
		{"source letter 2026 - Again", "source letter twice"},
		{"source other 2026 -", "want source WORD DATE URL TITLE"},
		{"source other soon - Title", `"soon" is no date`},
		{"source other 2026 http://a.example/ Title", "is an https URL, or -"},
		{"source Other 2026 - Title", `"Other" is no word for a source`},
		{"source sure 2026 - Title", `"sure" is no word for a source`},
		{"note eci words ; memory unsure", ""},

		{"require cardExpiryDate", "want a fact"},
		{"require cardExpiryDate ; vendor-doc sure ; a ; b ; c", "want a fact"},
		{"require cardExpiryDate ; vendor-doc sure ; a ;", "an empty remark"},
		{"require cardExpiryDate ; vendor-doc sure ;", "an empty remark"},
		{"require cardExpiryDate ; vendor-doc", "want a source and a certainty"},
		{"require cardExpiryDate ; hearsay sure", `unknown source "hearsay"`},
		{"require cardExpiryDate ; vendor-doc maybe", `unknown certainty "maybe"`},
		{"require cardExpiryDate ; memory sure", "memory is always unsure"},
		{"require ; vendor-doc sure", "a fact that says nothing"},
		{"demand cardExpiryDate ; vendor-doc sure", `unknown kind of fact "demand"`},
		{"require cardExpirationDate ; vendor-doc sure", `"cardExpirationDate" is no element of an AReq`},
		{"require dsTransID ; vendor-doc sure", `"dsTransID" is no element of an AReq`},
		{"advise eci ; vendor-doc sure", `"eci" is no element of an AReq`},
		{"where-due chAccAgeInd ; vendor-doc sure", `"chAccAgeInd" is no element of an AReq`},
		{"closed nothing ; vendor-doc sure", `"nothing" is no element of an AReq`},
		{"closed threeRIInd 80 ; vendor-doc sure", `want in, if, since or until, and not "80"`},
		{"require email in ; vendor-doc sure", "want in, and columns"},
		{"require email PA ; vendor-doc sure", `want in, if, since or until, and not "PA"`},
		{"require email in XY ; vendor-doc sure", `unknown column "XY"`},
		{"require email in PA PA ; vendor-doc sure", `column "PA" twice`},
		{"format email ; vendor-doc sure", "an empty pattern"},
		{"format email an ; vendor-doc sure", `"an" has no size`},
		{"format email an9-8 ; vendor-doc sure", `"an9-8" has no size`},
		{"format email an0 ; vendor-doc sure", `"an0" has no size`},
		{"format email an101 ; vendor-doc sure", `"an101" has no size`},
		{"format email q8 ; vendor-doc sure", `unknown part "q8"`},
		{`format email " ; vendor-doc sure`, `is no text in quotes`},
		{`format email "MCT ; vendor-doc sure`, `is no text in quotes`},
		{`format email an1-8 n2 ; vendor-doc sure`, `where the part before "n2" ends is not clear`},
		{`format email an1-8 "MCT" ; vendor-doc sure`, "is not clear"},
		{"code transStatusReason 80 ; vendor-doc sure", "want a code and its meaning"},
		{"code transStatusReason 8 x ; vendor-doc sure", `"8" is no code`},
		{"code transStatusReason 94-90 x ; vendor-doc sure", `"94-90" is no code`},
		{"code transStatusReason 79 x ; vendor-doc sure", `"79" is not left to the schemes`},
		{"code transStatusReason A0 x ; vendor-doc sure", `"A0" is not left to the schemes`},
		{"code eci N0-N2 x ; vendor-doc sure", `"N0-N2" is no code`},
		{"code eci 05-N2 x ; vendor-doc sure", `"05-N2" is no code`},
		{"code nothing 80 x ; vendor-doc sure", `"nothing" is no element of any message`},
		{"note nothing x ; vendor-doc sure", `"nothing" is no element of any message`},
		{"note eci ; vendor-doc sure", "an empty note"},
		{"rid 000000003 ; vendor-doc sure", `"000000003" is no RID`},
		{"rid A000000003 x ; vendor-doc sure", `nothing may follow: "x"`},
		{"extension A1 critical x ; vendor-doc sure", `"A1" is no id of an extension`},
		{"extension A000000001-x ARes maybe x ; vendor-doc sure", `critical, non-critical or unknown: "maybe"`},
		{"extension A000000001-x ARes critical ; vendor-doc sure", "an extension without a name"},
		{"extension A000000001-x ARes ; vendor-doc sure", "an extension without a name"},
		{"scheme Maestro Maestro", `"Maestro" is no word for a scheme`},
		{"scheme visa", "unknown"},
		{"scheme jcb", "a scheme without a name"},
		{"scheme amex American Express", "scheme amex twice"},
	} {
		_, err := read("# a comment\nsource letter 2026-03-03 - A letter\nscheme amex American Express\n" + tt.line + "\n")
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.line, err)
		case tt.want == "" || tt.line == "scheme visa":
		case err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "line 4: "):
			t.Errorf("%s: %v, want line 4: … %s …", tt.line, err, tt.want)
		}
	}
}

func TestReadOfAWholeText(t *testing.T) {
	const fact = " ; vendor-doc sure\n"
	for text, want := range map[string]string{
		"":                           "line 1: no scheme",
		"require email" + fact:       "line 1: a fact before the first scheme",
		"scheme visa\nscheme amex\n": "line 1: a scheme without a name\nline 2: a scheme without a name",
		"scheme visa V\nrequire email" + fact + "advise email" + fact:                                      "line 3: advise email twice",
		"scheme visa V\nrequire email in PA" + fact + "advise email in NPA" + fact:                         "",
		"scheme visa V\nrequire email until 2024" + fact + "advise email since 2025" + fact:                "",
		"scheme visa V\nrequire email until 2024-12" + fact + "advise email since 2024-12-31" + fact:       "line 3: advise email twice",
		"scheme visa V\nrequire email" + fact + "advise email ; vendor-doc disputed\n":                     "",
		"scheme visa V\nrequire email" + fact + "forbid email if threeRIInd is 01" + fact:                  "",
		"scheme visa V\nrequire one-of email homePhone" + fact + "require one-of email workPhone" + fact:   "",
		"scheme visa V\nrequire one-of email homePhone" + fact + "require  one-of email  homePhone" + fact: "line 3: require email|homePhone twice",
		"scheme visa V\ncode eci 05 a" + fact + "code eci 05 b" + fact:                                     "line 3: code eci twice",
		"scheme visa V\ncode threeRIInd 80-85 a" + fact + "code threeRIInd 83 b" + fact:                    "line 3: code threeRIInd twice",
	} {
		if _, err := read(text); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("read(%q) = %v, want %s", text, err, want)
		}
	}
}

// FuzzRead: what is read can be used, and no doubtful line of it can refuse a
// request.
func FuzzRead(f *testing.F) {
	f.Add(profilesText)
	for _, line := range strings.Split(profilesText, "\n") {
		f.Add("scheme visa V\n" + line)
	}
	areq, err := message.Parse([]byte(visaPayment), message.Limits{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		profiles, err := read(text)
		if err != nil {
			if msg := err.Error(); !strings.HasPrefix(msg, "line ") {
				t.Errorf("an error without its line: %v", err)
			}
			return
		}
		for name, s := range compile(profiles).sheets {
			s.Check(areq, today)
			soundRules(t, name, s, profiles)
		}
	})
}

// soundRules: each rule that may refuse stands in a sure line of the scheme,
// or of all.
func soundRules(t *testing.T, name string, s *Sheet, profiles []Profile) {
	t.Helper()
	isSure := func(r *rule) bool {
		for _, p := range profiles {
			for _, f := range p.Facts {
				members := f.members()
				if (p.Scheme == name || p.Scheme == every) && f.Certainty == Sure && f.Kind == r.now.Rule && f.Kind != Advise &&
					!slices.ContainsFunc(r.now.Elements, func(name string) bool { return !slices.Contains(members, name) }) {
					return true
				}
			}
		}
		return false
	}
	for _, v := range message.Versions() {
		for _, byChannel := range s.rules[v] {
			for _, rules := range byChannel {
				for i := range rules {
					r := &rules[i]
					if r.later.Code != 0 || r.now.Code != 0 && !isSure(r) {
						t.Errorf("%s: %s may be refused, and no line is sure of it", name, r.now.Text)
					}
				}
			}
		}
	}
}

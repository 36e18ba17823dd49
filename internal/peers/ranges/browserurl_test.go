package ranges

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// badMethodURLs are values of threeDSMethodURL, as JSON, that no browser may be sent to.
var badMethodURLs = []string{
	`"http://acs.example/m"`, `"ftp://acs.example/m"`, `"acs dot example"`, `"acs.example"`, `""`, `"  "`, `null`, `7`, `{}`, `["https://acs.example/m"]`,
	`"javascript:alert(1)"`, `"https://acs.example/m\"onload=\"x"`, `"https://acs.example/<script>"`, `"https://a@b.example/m"`,
	`"https://acs.example\\@evil.example/"`, `"https://acs.example:99999/m"`, `"https://acs.example/\u202em"`, `"https://b\u0430nk.example/m"`,
	`"https://127.0.0.1/m"`, `"https://2130706433/m"`, `"https://0x7f.1/m"`, `"https://[::1]/m"`, `"https://localhost./m"`, `"https://0.0.0.0/m"`,
	`"https://169.254.169.254/m"`, `"https://acs.example/\n"`, `"https:///m"`, `"https://acs.example/` + strings.Repeat("x", 3000) + `"`,
}

// TestD110BadMethodURLIsWithheld: whatever is wrong with a threeDSMethodURL, its range stays enrolled
// without a 3DS Method. The ranges beside it keep theirs, and the number of different
// sets of range data without their URL is counted.
func TestD110BadMethodURLIsWithheld(t *testing.T) {
	for _, version := range []message.Version{message.V210, message.V220, message.V231} {
		var entries []string
		add := func(i int, url string) {
			start, end := fmt.Sprintf("40000%011d", i*10), fmt.Sprintf("40000%011d", i*10+9)
			if version == message.V231 {
				entries = append(entries, fmt.Sprintf(`{"ranges":[{"start":"%s","end":"%s"}],"acsProtocolVersions":[`+
					`{"version":"2.2.0","threeDSMethodURL":"https://acs.example/good"},{"version":"2.3.1","acsInfoInd":["01"],"threeDSMethodURL":%s}]}`, start, end, url))
				return
			}
			entries = append(entries,
				fmt.Sprintf(`{"startRange":"%s","endRange":"%s","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0","threeDSMethodURL":%s}`, start, end, url))
		}
		add(0, `"https://acs.example/good"`)
		for i, url := range badMethodURLs {
			add(i+1, url)
		}
		text := pres231(strings.Join(entries, ","))
		if version != message.V231 {
			text = strings.Replace(pres220(strings.Join(entries, ",")), `"messageVersion":"2.2.0"`, fmt.Sprintf(`"messageVersion":%q`, version), 1)
		}
		resp, problems, err := ReadPRes(strings.NewReader(text), Options{})
		if err != nil || problems != nil {
			t.Errorf("%s: %v, %v; want a PRes that is taken", version, problems, err)
			continue
		}
		if resp.Notes.Withheld != len(badMethodURLs) {
			t.Errorf("%s: %d sets of range data withheld, want %d", version, resp.Notes.Withheld, len(badMethodURLs))
		}
		g, problems := resp.Next(nil)
		if problems != nil {
			t.Errorf("%s: %v", version, problems)
			continue
		}
		for i := range len(badMethodURLs) + 1 {
			info := g.Table.Lookup(fmt.Sprintf("40000%011d", i*10+5))
			if info == nil || len(info.ACS) == 0 {
				t.Errorf("%s, range %d: not enrolled", version, i)
				continue
			}
			for _, acs := range info.ACS {
				want := "https://acs.example/good"
				if i > 0 && (version != message.V231 || acs.Version == "2.3.1") {
					want = ""
				}
				if acs.MethodURL != want {
					t.Errorf("%s, range %d, version %s: threeDSMethodURL %q, want %q", version, i, acs.Version, acs.MethodURL, want)
				}
			}
		}
	}
}

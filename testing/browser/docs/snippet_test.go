package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/openthreeds/threeds/testing/browsertest"
)

// blocks are the pieces of code of one language in a page.
func blocks(page []byte, language string) []string {
	var all []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(page, -1) {
		all = append(all, string(m[1]))
	}
	return all
}

// evaluate runs the script of a page of docs as it stands there, then what ends
// in an expression, and returns the value of that.
func evaluate(t *testing.T, page, ending string) any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(browsertest.Root(t), "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	script := strings.Join(blocks(text, "js"), "\n")
	got, err := chromedp.Run(browsertest.NewBrowser(t), chromedp.Evaluate[any](script+ending))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestSnippetWritesASCII: names and addresses become what versions before 2.3.1 take.
func TestSnippetWritesASCII(t *testing.T) {
	names := []struct{ typed, want string }{
		{"Jørgen Müller", "Jorgen Muller"}, {"Zoë O’Brien", "Zoe O'Brien"}, {"José́", "Jose"}, {"Straße", "Strasse"},
		{"Łukasz Żółć", "Lukasz Zolc"}, {"Ægir Þórsson", "AEgir Thorsson"}, {"Đặng Văn", "Dang Van"}, {"İpek Işık", "Ipek Isik"},
		{"Ana María\tRuiz\n", "Ana Maria Ruiz"}, {"Jean–Luc", "Jean-Luc"}, {"Jean‐Luc", "Jean-Luc"}, {"ﬁona", "fiona"}, {"Ǆoni", "DZoni"},
		{"Li 李", "Li"}, {"Alexander " + strings.Repeat("x", 50), "Alexander " + strings.Repeat("x", 35)},
		{"李小龍", ""}, {"Ж A", ""}, {"", ""}, {" ", ""},
	}
	var typed []string
	want := []any{}
	for _, n := range names {
		typed = append(typed, n.typed)
		want = append(want, n.want)
	}
	long := strings.Repeat("x", 60)
	addresses := []struct {
		lines []string
		want  map[string]any
	}{
		{[]string{"Ørsteds Vej 1", "", "2. sal"}, map[string]any{"billAddrLine1": "Orsteds Vej 1", "billAddrLine2": "2. sal"}},
		{[]string{long}, map[string]any{"billAddrLine1": long[:50], "billAddrLine2": long[:10]}},
		{[]string{"Care of the Reception, Corner House, 12 Long Road East", "Rear Wing"}, map[string]any{
			"billAddrLine1": "Care of the Reception, Corner House, 12 Long Road", "billAddrLine2": "East Rear Wing"}},
		{[]string{long, long, long}, map[string]any{"billAddrLine1": long[:50], "billAddrLine2": long[:10], "billAddrLine3": long[:50]}},
		{[]string{long[:25] + " " + long[:24] + " end"}, map[string]any{"billAddrLine1": long[:25] + " " + long[:24], "billAddrLine2": "end"}},
		{[]string{"12½ Main Street", "Flat ⅔"}, map[string]any{"billAddrLine1": "12 1/2 Main Street", "billAddrLine2": "Flat 2/3"}},
		{[]string{"北京"}, map[string]any{}},
		{nil, map[string]any{}},
	}
	var lines [][]string
	for _, a := range addresses {
		lines = append(lines, append([]string{}, a.lines...))
		want = append(want, a.want)
	}
	in, err := json.Marshal([]any{typed, lines})
	if err != nil {
		t.Fatal(err)
	}
	got := evaluate(t, "getting-started.md", `
		{ const [names, lines] = `+string(in)+`;
		[...names.map(name => nameOf(name) ?? ''), ...lines.map(each => addressOf('bill', each))] }`)
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSnippetChoosesVersion: the version to send is in all lists, and gaps in them count.
func TestSnippetChoosesVersion(t *testing.T) {
	const all = `'2.1.0', '2.2.0', '2.3.1'`
	tests := []struct{ acs, ds, server, mine, want string }{
		{all, all, all, all, "2.3.1"},
		{`'2.1.0', '2.3.1'`, `'2.2.0', '2.3.1'`, all, all, "2.3.1"},
		{`'2.1.0', '2.3.1'`, all, `'2.1.0', '2.2.0'`, all, "2.1.0"},
		{`'2.1.0', '2.3.1'`, all, all, `'2.1.0', '2.2.0'`, "2.1.0"},
		{all, `'2.2.0'`, all, all, "2.2.0"},
		{all + `, '2.4.0'`, all + `, '2.4.0'`, all, all, "2.3.1"},
		{`'2.1.0'`, `'2.2.0'`, all, all, ""},
		{``, all, all, all, ""},
	}
	var cases strings.Builder
	var want []any
	for _, test := range tests {
		fmt.Fprintf(&cases, "[[%s], [%s], [%s], [%s]],", test.acs, test.ds, test.server, test.mine)
		want = append(want, test.want)
	}
	got := evaluate(t, "getting-started.md", `[`+cases.String()+`].map(([acs, ds, server, mine]) => best({
		acsProtocolVersions: acs.map(version => ({ version })), dsProtocolVersions: ds, threeDSServerProtocolVersions: server,
	}, mine)?.version ?? '')`)
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSnippetReadsProof: what goes into an authorisation is that of the last answer, if it
// authenticates.
func TestSnippetReadsProof(t *testing.T) {
	const ares = `{transStatus: 'Y', authenticationValue: 'a=', eci: '05', dsTransID: 'd', messageVersion: '2.2.0', `
	const challenge = `{transStatus: 'C', dsTransID: 'd', messageVersion: '2.2.0'}`
	proof := func(status string, challenge any) map[string]any {
		p := map[string]any{"authenticationValue": "a=", "eci": "05", "dsTransID": "d", "messageVersion": "2.2.0", "aresStatus": status}
		if challenge != nil {
			p["challengeStatus"] = challenge
		}
		return p
	}
	got := evaluate(t, "authorisation.md", `[
		proof(`+ares+`}), proof(`+ares+`transStatus: 'A'}), proof(`+challenge+`, `+ares+`transStatus: 'Y'}),
		proof(`+challenge+`), proof(`+challenge+`, {transStatus: 'N', eci: '07'}), proof(`+ares+`transStatus: 'N'}),
		proof(`+ares+`transStatus: 'I'}), proof(`+ares+`authenticationValue: undefined}),
	]`)
	want := []any{proof("Y", nil), proof("A", nil), proof("C", "Y"), nil, nil, nil, nil, nil}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

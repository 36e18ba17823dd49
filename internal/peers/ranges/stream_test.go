package ranges

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/openthreeds/threeds/internal/peers/ranges/rangestest"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

// TestReadPResAgreesWithCheck: whatever is wrong with a PRes, ReadPRes says of it
// what the tables say.
func TestReadPResAgreesWithCheck(t *testing.T) {
	for name, text := range faulty() {
		t.Run(name, func(t *testing.T) { sameVerdict(t, []byte(text), message.Context{}) })
	}
}

// TestReaderYieldsTheProcessor: with one processor, those who wait for it get it many
// times while a PRes is read, and not once in ten milliseconds.
func TestReaderYieldsTheProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, version := range []string{"2.2.0", "2.3.1"} {
		var text bytes.Buffer
		if err := (rangestest.Set{Ranges: 40_000, Seed: 1}).Write(&text, rangestest.PRes{Version: version}); err != nil {
			t.Fatal(err)
		}
		var done atomic.Bool
		turns, size := 0, text.Len()
		var other sync.WaitGroup
		other.Go(func() {
			for ; !done.Load(); turns++ {
				runtime.Gosched()
			}
		})
		_, problems, err := ReadPRes(&text, Options{})
		done.Store(true)
		other.Wait()
		// About one for each time that the reader yields; without that three.
		if err != nil || len(problems) > 0 || turns < size/yieldEvery/2 {
			t.Errorf("%s: %d turns in %d bytes, %v, %v", version, turns, size, problems, err)
		}
	}
}

// sameVerdict reads a text both ways, in windows of all sizes.
func sameVerdict(t testing.TB, text []byte, ctx message.Context) {
	t.Helper()
	want := byTables(text, ctx)
	for _, window := range []int{64 << 10, 16} { // in the small one every entry meets the end of what is held
		got := byStream(bytes.NewReader(text), ctx, window)
		if got.text() != want.text() && !(errors.Is(got.err, ErrTooLarge) && len(text) > 64<<10) {
			t.Fatalf("held %d bytes: ReadPRes says\n%s\nthe tables say\n%s\nof %.3000s", window, got.text(), want.text(), text)
		}
	}
}

// A judgement is all that comes of reading a PRes.
type judgement struct {
	malformed bool
	err       error
	problems  message.Problems
	notes     Notes
	table     *Table
}

func (j judgement) text() string {
	var b strings.Builder
	problems := make([]string, len(j.problems)) // of several faults the order may differ
	for i, p := range j.problems {
		problems[i] = fmt.Sprintf("%s %s %s", p.Code, p.Path, p.Note)
	}
	slices.Sort(problems)
	fmt.Fprintf(&b, "malformed %t, error %v, problems %v", j.malformed, j.err, problems)
	if len(j.problems) == 0 && !j.malformed {
		fmt.Fprintf(&b, ", %+v\n", j.notes)
		for r, info := range j.table.All() {
			fmt.Fprintf(&b, "%s %+v\n", r, info)
		}
	}
	return b.String()
}

func byTables(text []byte, ctx message.Context) (j judgement) {
	m, err := message.Parse(text, message.Limits{Members: -1})
	if err != nil {
		return judgement{malformed: true}
	}
	if typ, known := m.Type(); known && typ != message.PRes {
		return judgement{problems: notPRes}
	}
	if j.problems = m.Check(ctx); len(j.problems) == 0 {
		j.table, j.notes, j.problems = readWhole(m, Source{})
	}
	return j
}

func byStream(r io.Reader, ctx message.Context, window int) (j judgement) {
	resp, problems, err := ReadPRes(r, Options{Context: ctx, Entry: 64 << 10, window: window})
	if _, ok := errors.AsType[*message.SyntaxError](err); ok {
		return judgement{malformed: true}
	}
	if err != nil {
		return judgement{err: err}
	}
	if j.problems = problems; len(problems) == 0 {
		var g *Generation
		j.notes = resp.Notes
		if g, j.problems = resp.Next(nil); g != nil {
			j.table = g.Table
		}
	}
	return j
}

// faulty makes single faults in every element of every version.
func faulty() map[string]string {
	all := make(map[string]string)
	for _, v := range message.Versions() {
		base := full(v)
		all[v.String()+" whole"] = base
		all[v.String()+" says the same twice"] = strings.Replace(base, `"cardRangeData":[`, `"cardRangeData":["\u00a0",`+"\"\u00a0\",", 1)
		for i, token := range tokensOf(base) {
			for what, text := range map[string]string{
				"null": "null", "empty": `""`, "blank": `" "`, "number": "1", "true": "true", "object": "{}", "array": "[]", "long": `"` + strings.Repeat("9", 3000) + `"`,
				"letters": `"zz"`, "reserved": `"79"`, "of the DS": `"80"`, "twelve": `"12"`, "inactive": `"9.0.0"`, "http": `"http://acs.example/m"`, "no URL": `"acs"`,
				"excluded": `"901"`, "nested": `{"x":[{"x":[]}]}`, "escaped": `"\u0034"`, "malformed": `tru`,
				"surrogate": `"\ud800"`, "control": "\"\x01\"", "UTF-8": "\"\xff\"",
			} {
				all[fmt.Sprintf("%s value %d %s", v, i, what)] = base[:token.from] + text + base[token.to:]
			}
			all[fmt.Sprintf("%s value %d escaped", v, i)] = base[:token.from] + escapeAll(base[token.from:token.to]) + base[token.to:]
			if token.member >= 0 {
				member := base[token.member:token.to]
				all[fmt.Sprintf("%s member %d twice", v, i)] = base[:token.to] + "," + member + base[token.to:]
				all[fmt.Sprintf("%s member %d gone", v, i)] = without(base, token)
				all[fmt.Sprintf("%s member %d unknown", v, i)] = base[:token.member] + `"x` + base[token.member+1:]
				all[fmt.Sprintf("%s member %d unknown twice", v, i)] = base[:token.member] + `"y":"a","y":"b",` + base[token.member:]
				all[fmt.Sprintf("%s member %d in other case", v, i)] = base[:token.member] +
					strings.ToUpper(member[:strings.Index(member, ":")]) + base[token.member+strings.Index(member, ":"):]
			} else {
				all[fmt.Sprintf("%s item %d twice", v, i)] = base[:token.to] + "," + base[token.from:]
			}
		}
		for n := 1; n < len(base); n += 7 {
			all[fmt.Sprintf("%s cut at %d", v, n)] = base[:n]
			all[fmt.Sprintf("%s lacks byte %d", v, n)] = base[:n] + base[n+1:]
		}
	}
	return all
}

// full is a valid PRes with all that there is. The first three entries have
// the same template.
func full(v message.Version) string {
	if v >= message.V231 {
		entry := func(n int) string {
			return fmt.Sprintf(
				`{"ranges":[{"start":"40%d0000000000000","end":"40%d0000009999999"},{"end":"40%d1000009999999","start":"40%d1000000000000"}],"actionInd":"A","issuerCountryCode":"208",`+
					`"dsProtocolVersions":["2.2.0","2.3.1"],"acsProtocolVersions":[{"version":"2.2.0","acsInfoInd":["01","80"],"threeDSMethodURL":"https://acs.example/m?a=}"},`+
					`{"version":"2.3.1","supportedMsgExt":[{"id":"A000000802-004","version":"1.0"},{"id":"A000000802-005","version":"2.0"}]}],"note":"%d"}`, n, n, n, n, n)
		}
		return `{"messageType":"PRes","messageVersion":"2.3.1","threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e","dsTransID":"f25084f0-5b16-4c0a-ae5d-b24808a95e4b",` +
			`"dsProtocolVersions":["2.3.1","2.2.0"],"readOrder":"01","serialNum":"17","dsUrlList":[{"threeDSServerToDsUrl":"https://ds.example/1","dsCountryCode":"208"},{"threeDSServerToDsUrl":"https://ds.example/2"}],` +
			`"cardRangeData":[` + entry(1) + "," + entry(2) + ", " + entry(3) +
			`,{"acsProtocolVersions":[{"version":"2.1.0"}],"ranges":[{"start":"5000000000000","end":"5000000000009"}]}],` +
			`"messageExtension":[{"name":"n","id":"i","criticalityIndicator":false,"data":{"a":1}}]}`
	}
	inds := `,"acsInfoInd":["01","80"]`
	entry := func(n int) string {
		return fmt.Sprintf(
			`{"startRange":"40%d0000000000000","endRange":"40%d0000009999999","actionInd":"A","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0",`+
				`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0","threeDSMethodURL":"https://acs.example/m?a=}"%s,"note":"%d"}`, n, n, inds, n)
	}
	return `{"messageType":"PRes","messageVersion":"` + v.String() +
		`","threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e","dsTransID":"f25084f0-5b16-4c0a-ae5d-b24808a95e4b",` +
		`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0","serialNum":"17",` +
		`"cardRangeData":[` + entry(1) + "," + entry(2) + ", " + entry(3) +
		`,{ "acsEndProtocolVersion" : "2.1.0", "acsStartProtocolVersion":"2.1.0","endRange":"4010000000000900","startRange":"4010000000000100"}],` +
		`"messageExtension":[{"name":"n","id":"i","criticalityIndicator":false,"data":{"a":1}}]}`
}

// A token is where a value is, and where the name of the member is, -1 for
// items and the message.
type token struct{ from, to, member int }

// tokensOf finds all values of a text.
func tokensOf(text string) []token {
	var all []token
	var value func(at, member int) int
	blank := func(at int) int {
		for text[at] == ' ' || text[at] == ',' || text[at] == ':' {
			at++
		}
		return at
	}
	value = func(at, member int) int {
		from := at
		switch text[at] {
		case '{', '[':
			object := text[at] == '{'
			for at = blank(at + 1); text[at] != '}' && text[at] != ']'; at = blank(at) {
				name := -1
				if object {
					name = at
					at = blank(at + quoted([]byte(text[at:])))
				}
				at = value(at, name)
			}
			at++
		case '"':
			at += quoted([]byte(text[at:]))
		default:
			for !strings.ContainsRune(",]} ", rune(text[at])) {
				at++
			}
		}
		all = append(all, token{from, at, member})
		return at
	}
	value(0, -1)
	return all
}

func without(text string, t token) string {
	before, after := strings.TrimRight(text[:t.member], " "), text[t.to:]
	if strings.HasSuffix(before, ",") {
		return before[:len(before)-1] + after
	}
	return before + strings.TrimPrefix(strings.TrimLeft(after, " "), ",")
}

func escapeAll(text string) string {
	if text[0] != '"' {
		return text
	}
	var b strings.Builder
	for _, c := range text[1 : len(text)-1] {
		fmt.Fprintf(&b, `\u%04x`, c)
	}
	return `"` + b.String() + `"`
}

// TestReadPResAgreesWithCheckOnSamples does the same with random messages, in random order, with
// the version first, last or in between.
func TestReadPResAgreesWithCheckOnSamples(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		for _, v := range message.Versions() {
			text := string(messagetest.Sample(random, message.PRes, v, message.BRW, message.PA, random.IntN(2) == 0))
			sameVerdict(t, []byte(shuffled(random, text)), message.Context{})
		}
	}
}

// shuffled is an object with its members in another order.
func shuffled(random *rand.Rand, text string) string {
	var members []string
	for _, token := range tokensOf(text) {
		if token.member >= 0 && strings.Count(text[:token.member], "{")-strings.Count(text[:token.member], "}") == 1 &&
			strings.Count(text[:token.member], "[") == strings.Count(text[:token.member], "]") {
			members = append(members, text[token.member:token.to])
		}
	}
	random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}"
}

// TestVersionAfterTheRanges: where the text can be read again it is; where it
// cannot the message is refused, not misread.
func TestVersionAfterTheRanges(t *testing.T) {
	text := `{"cardRangeData":[` + strings.Repeat(" ", 5000) + entry231("4000000000000000", "4000000000000009", "") +
		`],"messageType":"PRes","messageVersion":"2.3.1",` +
		`"threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e","dsTransID":"f25084f0-5b16-4c0a-ae5d-b24808a95e4b","dsProtocolVersions":["2.3.1"],"readOrder":"01"}`
	if resp, problems, err := ReadPRes(strings.NewReader(text), Options{}); err != nil || len(problems) > 0 || resp.Ranges != 1 {
		t.Errorf("ReadPRes of what can be read again: %v, %v", problems, err)
	}
	_, problems, err := ReadPRes(io.MultiReader(strings.NewReader(text)), Options{})
	if code, detail := problems.Pick(message.ForPeer); err != nil || code != message.Format || detail != "messageVersion" {
		t.Errorf("ReadPRes = %v, %v", problems, err)
	}
	preq := parse(t, `{"messageType":"PReq","messageVersion":"2.3.1","threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e"}`)
	if _, problems, err := ReadPRes(io.MultiReader(strings.NewReader(text)), Options{Context: message.Context{PReq: preq}}); err != nil || len(problems) > 0 {
		t.Errorf("ReadPRes of the version that was asked for: %v, %v", problems, err)
	}
}

// TestEntriesBeyondTheLimitAreIgnored: of the entries that are more than a PRes may have nothing is
// kept, for it is refused; they are checked as the others are.
func TestEntriesBeyondTheLimitAreIgnored(t *testing.T) {
	defer func(n int) { maxEntries = n }(maxEntries)
	maxEntries = 3
	var entries []string
	for i := range 10 {
		e := fmt.Sprintf(
			`{"ranges":[{"start":"400%d000000000000","end":"400%d999999999999"}],"acsProtocolVersions":[{"version":"2.3.1","threeDSMethodURL":"https://acs.example/%d"}]}`,
			i, i, i)
		if i == 7 {
			e = strings.Replace(e, `"end"`, `"end":"x","end"`, 1)
		}
		entries = append(entries, e)
	}
	v := message.V231
	for _, window := range []int{64 << 10, 16} {
		s := newStream(Options{window: window})
		s.fixed = &v
		if err := s.walk(strings.NewReader(`{"cardRangeData":[` + strings.Join(entries, ",") + `]}`)); err != nil {
			t.Fatal(err)
		}
		if s.count != 10 || s.ranges != 3 || len(s.entries.infos) != 3 {
			t.Errorf("%d entries, kept %d ranges and what %d say, want 10, 3, 3", s.count, s.ranges, len(s.entries.infos))
		}
		if len(s.twice) != 1 || !strings.HasPrefix(string(s.twice[0].Path), "cardRangeData[7]") {
			t.Errorf("faults %v, want the one of entry 7", s.twice)
		}
	}
}

// TestTooLargeTextIsRefused: a text or an entry that is too large is refused before it is held.
func TestTooLargeTextIsRefused(t *testing.T) {
	const said = len(`{"acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0","threeDSMethodURL":"https://acs.example/0"}`)
	good := full(message.V220)
	for _, test := range []struct {
		name string
		r    io.Reader
		opts Options
		ok   bool
	}{
		{"just fits", strings.NewReader(good), Options{Bytes: int64(len(good))}, true},
		{"one byte too many", strings.NewReader(good), Options{Bytes: int64(len(good)) - 1}, false},
		{"a long entry", io.MultiReader(strings.NewReader(`{"cardRangeData":[{"x":"`), endless('x')), Options{Entry: 1 << 20}, false},
		{"a deep entry", io.MultiReader(strings.NewReader(`{"cardRangeData":[`), endless('[')), Options{Entry: 1 << 20}, false},
		{"a long member", io.MultiReader(strings.NewReader(`{"x":"`), endless('x')), Options{Entry: 1 << 20}, false},
		{"nothing but space", endless(' '), Options{Bytes: 4 << 20}, false},
		{"what each range says alone", strings.NewReader(different(4)), Options{Infos: 4}, true},
		{"one more", strings.NewReader(different(5)), Options{Infos: 4}, false},
		{"as much as may be said", strings.NewReader(different(4)), Options{Said: 4 * said}, true},
		{"a byte more", strings.NewReader(different(4)), Options{Said: 4*said - 1}, false},
		{"the same again",
			strings.NewReader(strings.NewReplacer("example/1", "example/0", "example/2", "example/0").Replace(different(3))),
			Options{Said: said}, true},
		{"many members", &members{}, Options{Entry: 1 << 20}, false},
	} {
		_, _, err := ReadPRes(test.r, test.opts)
		if test.ok && err != nil || !test.ok && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if _, _, err := ReadPRes(iotest.ErrReader(io.ErrClosedPipe), Options{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an error of the reader became %v", err)
	}
	if _, _, err := ReadPRes(io.MultiReader(strings.NewReader(good[:200]), iotest.ErrReader(io.ErrClosedPipe)), Options{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an error of the reader became %v", err)
	}
}

// different is a PRes whose entries all say something else.
func different(n int) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf(
			`{"startRange":"400%d000000000000","endRange":"400%[1]d999999999999","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0","threeDSMethodURL":"https://acs.example/%[1]d"}`,
			i)
	}
	return `{"messageType":"PRes","messageVersion":"2.2.0","cardRangeData":[` + strings.Join(entries, ",") + `]}`
}

type endless byte

func (e endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e)
	}
	return len(b), nil
}

type members struct{ at int }

func (m *members) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = "{\"x\":1,"[m.at]
		if m.at++; m.at == len("{\"x\":1,") {
			m.at = 1
		}
	}
	return len(b), nil
}

// TestErrorsQuoteNoValue: no value of a PRes is in what is said of it, but for
// the bounds in 205 and 206.
func TestErrorsQuoteNoValue(t *testing.T) {
	for name, text := range faulty() {
		_, problems, err := ReadPRes(strings.NewReader(text), Options{window: 4096})
		said := fmt.Sprint(problems, err)
		for _, value := range []string{"8a880dc0", "acs.example", "000000000000", "9.0.0", "http"} {
			if strings.Contains(said, value) {
				t.Errorf("%s: %s", name, said)
			}
		}
	}
}

// FuzzPRes: whatever the bytes, both ways of reading a PRes come to the same.
func FuzzPRes(f *testing.F) {
	for _, v := range message.Versions() {
		f.Add([]byte(full(v)))
	}
	all := faulty()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for i := 0; i < len(names); i += 17 {
		f.Add([]byte(all[names[i]]))
	}
	f.Fuzz(func(t *testing.T, text []byte) { sameVerdict(t, text, message.Context{}) })
}

package message

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Any members are removed from valid messages: Check reports those of them that are required,
// and no others.
func TestRemovedMembersAreReportedIfRequired(t *testing.T) {
	d := loadDictionary(t)
	d.amend()
	rapid.Check(t, func(rt *rapid.T) {
		typ := rapid.SampledFrom(dictionaryTypes).Draw(rt, "type")
		col := rapid.SampledFrom(columnsOf(typ)).Draw(rt, "column")
		v := rapid.SampledFrom(Versions()).Draw(rt, "version")
		s := &sampler{d: d, version: v.String(), message: typ.String(), ch: col.ch.String(), cat: col.cat.String()}
		b := newBench(t, s)
		m := s.full()
		out := removeMembers(rt, m, "")
		want := problemKeys(b.oracle().check(m))
		got := b.check(m)
		if !slices.Equal(got, want) {
			rt.Fatalf("taken out %v: got %v, want %v", out, got, want)
		}
		for _, key := range got {
			if path, ok := strings.CutPrefix(key, "201 "); ok && !slices.Contains(out, path) {
				rt.Errorf("%s was not taken out", path)
			}
		}
		for _, f := range s.fields() {
			if s.need(f) == "R" && slices.Contains(out, f.Name) && !slices.Contains(got, "201 "+f.Name) {
				rt.Errorf("%s was taken out and not named", f.Name)
			}
		}
	})
}

// takeOut removes members of m, at all levels, and returns their paths. What
// says which table to use stays.
func removeMembers(rt *rapid.T, m *doc, at string) []string {
	var out []string
	for _, member := range slices.Clone(m.members) {
		path := at + member.name
		switch {
		case at == "" && slices.Contains([]string{"messageType", "messageVersion", "deviceChannel", "messageCategory"}, member.name):
		case rapid.IntRange(0, 9).Draw(rt, "die") == 0:
			m.remove(member.name)
			out = append(out, path)
		default:
			v := member.value
			if list, ok := v.([]any); ok {
				v, path = list[0], path+"[0]"
			}
			if inner, ok := v.(*doc); ok && member.name != "data" {
				out = append(out, removeMembers(rt, inner, path+".")...)
				if len(inner.members) == 0 { // gone with its last member
					out = append(out, at+member.name)
				}
			}
		}
	}
	return out
}

// Messages that were made to be slow are read and checked.
func TestHostileMessagesAreCheckedQuickly(t *testing.T) {
	n := 300_000
	if testing.Short() {
		n = 50_000
	}
	many := func(item func(i int) string) []byte {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(item(i))
		}
		return []byte(b.String())
	}
	head := `{"messageType":"PRes","messageVersion":"2.3.1",`
	for name, data := range map[string][]byte{
		"equal unknown names":     append(append([]byte(head), many(func(int) string { return `"x":1` })...), '}'),
		"different unknown names": append(append([]byte(head), many(func(i int) string { return `"x` + strings.Repeat("y", i%7) + string(rune('a'+i%26)) + `":1` })...), '}'),
		"equal known names":       append(append([]byte(head), many(func(int) string { return `"serialNum":"1"` })...), '}'),
		"equal items":             append(append([]byte(head+`"cardRangeData":[`), many(func(int) string { return `{}` })...), ']', '}'),
		"wrong items":             append(append([]byte(head+`"dsProtocolVersions":[`), many(func(int) string { return `1` })...), ']', '}'),
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Parse(data, Limits{Members: -1})
			if err != nil {
				t.Fatal(err)
			}
			if problems := m.Check(Context{AReq: m, PReq: m}); len(problems) == 0 || len(problems) > maxProblems {
				t.Errorf("%d problems", len(problems))
			} else if _, detail := problems.Pick(ForPeer); len(detail) > maxDetail {
				t.Errorf("detail of %d bytes", len(detail))
			}
		})
	}
}

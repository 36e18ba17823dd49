package message

import (
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/randtest"
)

// TestRemovedMembersAreReportedIfRequired removes any members from valid messages: Check reports those of them that are
// required, and no others.
func TestRemovedMembersAreReportedIfRequired(t *testing.T) {
	d := loadDictionary(t)
	d.amend()
	check := func(rt testing.TB, typ Type, col column, v Version, isRemoved func(path string) bool) {
		rt.Helper()
		s := &sampler{d: d, version: v.String(), message: typ.String(), ch: col.ch.String(), cat: col.cat.String()}
		b := newBench(t, s)
		m := s.full()
		out := removeMembers(m, "", isRemoved)
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
	}
	randtest.Check(t, func(rt *randtest.T) {
		typ := randtest.Pick(rt, dictionaryTypes...)
		check(rt, typ, randtest.Pick(rt, columnsOf(typ)...), randtest.Pick(rt, Versions()...), func(string) bool { return rt.IntN(10) == 0 })
	})
	// A case that failed once: an object that lost a member was reported as malformed as well.
	removed := strings.Fields(`acsRenderingType.acsUiTemplate acsTransID authenticationType authenticationValue challengeCancel dsTransID eci
		interactionCounter messageExtension threeDSServerTransID transStatus transStatusReason`)
	for _, col := range columnsOf(RReq) {
		check(t, RReq, col, V210, func(path string) bool { return slices.Contains(removed, path) })
	}
}

// removeMembers removes members of m, at all levels, and returns their paths. What says which table to use stays.
func removeMembers(m *doc, at string, isRemoved func(path string) bool) []string {
	var out []string
	for _, member := range slices.Clone(m.members) {
		path := at + member.name
		switch {
		case at == "" && slices.Contains([]string{"messageType", "messageVersion", "deviceChannel", "messageCategory"}, member.name):
		case isRemoved(path):
			m.remove(member.name)
			out = append(out, path)
		default:
			v := member.value
			if list, ok := v.([]any); ok {
				v, path = list[0], path+"[0]"
			}
			if inner, ok := v.(*doc); ok && member.name != "data" {
				out = append(out, removeMembers(inner, path+".", isRemoved)...)
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
		"equal unknown names": append(append([]byte(head), many(func(int) string { return `"x":1` })...), '}'),
		"different unknown names": append(
			append([]byte(head), many(func(i int) string { return `"x` + strings.Repeat("y", i%7) + string(rune('a'+i%26)) + `":1` })...), '}'),
		"equal known names": append(append([]byte(head), many(func(int) string { return `"serialNum":"1"` })...), '}'),
		"equal items":       append(append([]byte(head+`"cardRangeData":[`), many(func(int) string { return `{}` })...), ']', '}'),
		"wrong items":       append(append([]byte(head+`"dsProtocolVersions":[`), many(func(int) string { return `1` })...), ']', '}'),
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

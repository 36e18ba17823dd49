package message

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Complete messages get several faults at once: members removed, other codes, and faults of all kinds, next to and
// inside one another. The result of Check is compared with that of the dictionary. MESSAGE_CASES is the number of
// messages of each type, version and column.
func TestSeveralFaultsAreAllReported(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("MESSAGE_CASES"))
	n = max(n, 6)
	d := loadDictionary(t)
	d.amend()
	for _, v := range Versions() {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(v), 1))
			for _, typ := range dictionaryTypes {
				for _, column := range columnsOf(typ) {
					s := &sampler{d: d, version: v.String(), message: typ.String(), ch: column.ch.String(), cat: column.cat.String()}
					b := newBench(t, s)
					b.context.Informational = true // the dictionary lacks this rule
					b.several(r, n)
				}
			}
		})
	}
}

// several spoils n copies of the message.
func (b *bench) several(r *rand.Rand, n int) {
	spots := slices.DeleteFunc(b.s.spots(b.s.fields(), nil), func(p spot) bool {
		top := append(slices.Clone(p.way), p.row)[0]
		return b.s.need(top) == "-" || len(p.way) == 0 && header[p.row.Name]
	})
	for range n {
		m := b.full.clone()
		var done []string
		keep := r.IntN(4) // of four members
		for _, f := range b.s.fields() {
			if b.s.need(f) != "R" && r.IntN(4) > keep {
				m.remove(f.Name)
			}
		}
		for range 1 + r.IntN(6) {
			p := spots[r.IntN(len(spots))]
			in, path, ok := p.reach(m)
			if !ok {
				continue
			}
			if codes := slices.Sorted(maps.Keys(p.row.Values)); len(codes) > 0 && r.IntN(3) == 0 {
				var code any = codes[r.IntN(len(codes))]
				if p.row.Type == "array" {
					code = []any{code}
				}
				in.set(p.row.Name, code)
				done = append(done, path+" other code")
				continue
			}
			f := faults[r.IntN(len(faults))]
			if v, _ := in.get(p.row.Name); f.name == "twice" || isEmptyValue(v) {
				continue // the one is not the dictionary's, to the other nothing can be done
			}
			copied := &doc{slices.Clone(in.members)}
			if _, ok := f.do(b.s, copied, p.row, false); ok {
				in.members = copied.members
				done = append(done, path+" "+f.name)
			}
		}
		if got, want := b.check(m), problemKeys(b.oracle().check(m)); !slices.Equal(got, want) {
			b.t.Errorf("%s %s %s/%s: %s:\ngot  %v\nwant %v", b.s.version, b.s.message, b.s.cat, b.s.ch, strings.Join(done, ", "), got, want)
		}
	}
}

// header are members that say by which table and column the others are read.
var header = map[string]bool{"messageType": true, "messageVersion": true, "deviceChannel": true, "messageCategory": true}

// reach is find in a message that may not have the way any more.
func (p spot) reach(d *doc) (in *doc, path string, ok bool) {
	at := ""
	for _, f := range p.way {
		v, _ := d.get(f.Name)
		at += f.Name
		if list, isList := v.([]any); isList && len(list) > 0 {
			v, at = list[0], at+"[0]"
		}
		if d, ok = v.(*doc); !ok {
			return nil, "", false
		}
		at += "."
	}
	return d, at + p.row.Name, true
}

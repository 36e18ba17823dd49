package message

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// A doc is a JSON object whose members have an order and may occur twice.
type doc struct{ members []docMember }

type docMember struct {
	name  string
	value any // string, bool, int, nil, []any or *doc
}

func (d *doc) get(name string) (any, bool) {
	for _, m := range d.members {
		if m.name == name {
			return m.value, true
		}
	}
	return nil, false
}

func (d *doc) set(name string, value any) {
	for i, m := range d.members {
		if m.name == name {
			d.members[i].value = value
			return
		}
	}
	d.members = append(d.members, docMember{name, value})
}

func (d *doc) remove(name string) {
	d.members = slices.DeleteFunc(d.members, func(m docMember) bool { return m.name == name })
}

// clone copies the document with the objects and arrays in it.
func (d *doc) clone() *doc {
	to := &doc{slices.Clone(d.members)}
	for i := range to.members {
		to.members[i].value = cloneValue(to.members[i].value)
	}
	return to
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case *doc:
		return v.clone()
	case []any:
		list := slices.Clone(v)
		for i := range list {
			list[i] = cloneValue(list[i])
		}
		return list
	}
	return v
}

func (d *doc) json() []byte { return appendJSON(nil, d) }

func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case *doc:
		b = append(b, '{')
		for i, m := range v.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, m.name)
			b = append(b, ':')
			b = appendJSON(b, m.value)
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, x := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, x)
		}
		return append(b, ']')
	}
	text, _ := json.Marshal(v)
	return append(b, text...)
}

// A sampler writes valid messages from the dictionary alone.
type sampler struct {
	d       *dictionary
	version string
	message string
	ch, cat string // columns: "APP", "PA"
	count   int    // makes values differ
}

func (s *sampler) fields() []dictField { return s.d.messages[s.version][s.message].Fields }

// typical are values that the rules of a message ask for.
var typical = map[string]any{
	"payTokenInd": true, "acsDecConInd": "N", "transStatus": "Y", "acsInterface": "01", "acsUiTemplate": "01",
	"challengeCancel": "01", "transStatusReason": "01", "threeDSRequestorChallengeInd": nil,
}

// omitted are members that exclude others.
var omitted = map[string]bool{"cardRangeDataFileURL": true}

// message is a message with all members that its column defines.
func (s *sampler) full() *doc {
	d := new(doc)
	for _, f := range s.fields() {
		if s.need(f) != "-" && !omitted[f.Name] {
			d.set(f.Name, s.value(f))
		}
	}
	return d
}

func (s *sampler) need(f dictField) string {
	if f.Leg == "ACS>DS" {
		return "-" // ignored when a directory server does not take it out
	}
	return f.Inclusion[s.cat][s.ch]
}

func (s *sampler) value(f dictField) any {
	switch f.Name {
	case "deviceChannel":
		return map[string]string{"APP": "01", "BRW": "02", "3RI": "03"}[s.ch]
	case "messageCategory":
		return map[string]string{"PA": "01", "NPA": "02"}[s.cat]
	case "messageVersion":
		return s.version
	}
	if v := typical[f.Name]; v != nil {
		return v
	}
	switch f.Type {
	case "array":
		return s.items(f, max(f.Min, 1))
	case "boolean":
		return true
	case "object":
		if f.ObjectOf != "" {
			return s.object(f.ObjectOf)
		}
		return &doc{[]docMember{{"some", s.text("text", 6)}}}
	}
	return s.str(f, s.length(f))
}

func (s *sampler) object(name string) *doc {
	d := new(doc)
	for _, f := range s.d.types[s.version][name].Fields {
		d.set(f.Name, s.value(f))
	}
	return d
}

// items are n different items of an array; nil when there are not so many.
func (s *sampler) items(f dictField, n int) []any {
	var list []any
	var codes []string
	if f.Format == "enum" {
		codes = s.codes(f)
	}
	for i := range n {
		switch {
		case f.ItemsOf != "":
			list = append(list, s.object(f.ItemsOf))
		case f.Format == "enum":
			if i >= len(codes) {
				return nil
			}
			list = append(list, codes[i])
		case f.Format == "version":
			if i >= 3 {
				return nil
			}
			list = append(list, []string{"2.1.0", "2.2.0", "2.3.1"}[i])
		default:
			list = append(list, s.text(f.Format, min(f.ItemMax, 8)))
		}
	}
	return list
}

// codes are all valid codes of a field, its own and those of the DS.
func (s *sampler) codes(f dictField) []string {
	list := slices.Sorted(maps.Keys(f.Values))
	for _, r := range f.Ranges {
		if r.Status == "ds" {
			for n := atoi(r.From); n <= atoi(r.To); n++ {
				list = append(list, fmt.Sprintf("%0*d", len(r.From), n))
			}
		}
	}
	return list
}

func atoi(s string) int { return numberOf([]byte(s)) }

// length is a moderate length between minimum and maximum.
func (s *sampler) length(f dictField) int {
	n := max(f.Min, 12)
	if f.Max > 0 {
		n = min(n, f.Max)
	}
	return n
}

// str is a valid string of n characters, or a near one where the format fixes
// the length.
func (s *sampler) str(f dictField, n int) string {
	switch {
	case f.Format == "enum":
		return slices.Min(slices.Collect(maps.Keys(f.Values)))
	case f.Range != nil:
		return fmt.Sprintf("%0*d", n, f.Range[0])
	case f.Format == "uuid":
		return s.uuid(f.Name)
	}
	return s.text(f.Format, n)
}

// uuid is the same for the same name, so that messages of a transaction agree.
func (s *sampler) uuid(name string) string {
	h := fnv.New128a()
	h.Write([]byte(name))
	x := hex.EncodeToString(h.Sum(nil))
	return x[:8] + "-" + x[8:12] + "-4" + x[13:16] + "-8" + x[17:20] + "-" + x[20:]
}

func (s *sampler) text(format string, n int) string {
	s.count++
	pad := func(head string) string {
		return head + strings.Repeat("a", max(0, n-len(head)))
	}
	serial := fmt.Sprintf("%03d", s.count%1000)
	switch format {
	case "numeric":
		return (strings.Repeat("4", max(0, n-3)) + serial)[max(0, max(n, 3)-n):][:n]
	case "url":
		return pad("https://x.example/" + serial)
	case "email":
		return strings.Repeat("a", max(1, n-len("@x.example"))) + "@x.example"
	case "ip":
		return "192.0.2.1"
	case "base64":
		return strings.Repeat("A", n-1) + "="
	case "date":
		return "20240229"
	case "datetime":
		return "20240229235959"
	case "minute":
		return "202402292359"
	case "yymm":
		return "2912"
	case "country":
		return "840"
	case "currency":
		return "978"
	case "currencyAlpha":
		return "EUR"
	case "jws":
		return pad("eyJh.eyJi.")
	case "jwe":
		return pad("eyJh.b.c.d.")
	case "version":
		return "2.2.0"
	case "tzoffset":
		return "-300"
	}
	return (strings.Repeat("t", max(0, n-3)) + serial)[max(0, max(n, 3)-n):][:n]
}

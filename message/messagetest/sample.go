// Package messagetest makes random valid messages out of the tables of package message, for
// property tests and benchmarks. It cannot find mistakes in the tables, since it relies on
// them.
package messagetest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// Sample returns a message that Check accepts: with all members that are required for the channel and category. Of the
// other members it has all if full is set, and otherwise a random choice. Equal random numbers make equal messages.
// Types without channel and category belong to a transaction that has them. An AReq has the form in which a 3DS Server
// sends it, so that Build returns it unchanged. Sample panics if the version does not have the type.
func Sample(random *rand.Rand, t message.Type, v message.Version, ch message.Channel, cat message.Category, full bool) []byte {
	s := &sampler{rand: random, typ: t, version: v, channel: ch, category: cat, full: full}
	return s.message()
}

// maxTries is how often a sample is repaired at most. Fewer than ten times is usual.
const maxTries = 500

// A sampler makes one message.
type sampler struct {
	rand     *rand.Rand // of the row that is being made
	typ      message.Type
	version  message.Version
	channel  message.Channel
	category message.Category
	full     bool
	start    string // the first 12 digits of the current card range
}

// message makes a message. It replaces members that Check reports by other random values until
// Check reports nothing.
func (s *sampler) message() []byte {
	t := message.TableOf(s.typ, s.version)
	random, rows := s.rand, s.randsOf(t)
	values := s.values(t, rows)
	var problems message.Problems
	for range maxTries {
		data := compose(t, values)
		m, err := message.Parse(data, message.Limits{})
		if err != nil {
			panic(fmt.Sprintf("messagetest: %s %s: %v", s.version, s.typ, err))
		}
		problems = m.Check(s.context(m))
		if len(problems) == 0 {
			return data
		}
		p := problems[random.IntN(len(problems))]
		name, _, _ := strings.Cut(p.Path.Name(), ".")
		row := slices.IndexFunc(t.Fields, func(f message.Field) bool { return f.Name == name })
		s.rand = rows[row]
		values[row] = s.value(&t.Fields[row])
	}
	panic(fmt.Sprintf("messagetest: no valid %s %s %s %s: %v", s.version, s.typ, s.channel, s.category, problems))
}

// context returns the Context for Check: an AReq with the channel and category of the sample.
func (s *sampler) context(m *message.Message) message.Context {
	if s.typ == message.AReq {
		return message.Context{}
	}
	areq, err := message.Parse(message.MustCompose(message.AReq, s.version,
		message.Member{Name: "sdkTransID", Text: m.Text("sdkTransID")},
		message.Member{Name: "deviceChannel", Text: s.channel.Code()},
		message.Member{Name: "messageCategory", Text: s.category.Code()}), message.Limits{})
	if err != nil {
		panic(err)
	}
	return message.Context{AReq: areq, Informational: true}
}

// compose returns an object with one JSON text per row. Empty texts are left out.
func compose(t *message.Table, values []string) []byte {
	out := []byte{'{'}
	for row, value := range values {
		if value == "" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, quote(t.Fields[row].Name)...), ':')
		out = append(out, value...)
	}
	return append(out, '}')
}

// presentCondition matches the condition that another member of the same object is present.
var presentCondition = regexp.MustCompile(`^present\((\w+)\)$`)

// randsOf returns the random numbers of each row of a table. They depend on the name of the row, not on its place, so
// that a row which comes or goes leaves what all others get as it is.
func (s *sampler) randsOf(t *message.Table) []*rand.Rand {
	seed, rows := s.rand.Uint64(), make([]*rand.Rand, len(t.Fields))
	for row := range t.Fields {
		name := fnv.New64a()
		_, _ = name.Write([]byte(t.Fields[row].Name)) // a hash takes everything
		rows[row] = rand.New(rand.NewPCG(seed, name.Sum64()))
	}
	return rows
}

// values returns the JSON texts of the members of an object; "" means that a member is left out.
func (s *sampler) values(t *message.Table, rows []*rand.Rand) []string {
	defer func(outer *rand.Rand) { s.rand = outer }(s.rand)
	values := make([]string, len(t.Fields))
	for row := range t.Fields {
		f := &t.Fields[row]
		s.rand = rows[row]
		if s.includes(t, f, values) {
			values[row] = s.value(f)
		}
	}
	return values
}

// includes reports whether a member is to be part of the sample, as far as that can be decided
// by the members before it.
func (s *sampler) includes(t *message.Table, f *message.Field, values []string) bool {
	need := f.Need.At(s.channel, s.category)
	other := presentCondition.FindStringSubmatch(f.When)
	switch {
	case need == '-', f.DS, f.Leg == message.DSToACS, f.Leg == message.ACSToDS, f.Forbid != "":
		return false
	case need == 'R', f.Name == "sellerInfo" && values[indexOf(t, "multiTransaction")] != "":
		return true
	case other != nil && f.Else == message.Absent:
		return slices.ContainsFunc(t.Fields, func(o message.Field) bool { return o.Name == other[1] && values[indexOf(t, o.Name)] != "" })
	case f.Else == message.Absent:
		return false
	case f.When != "" && strings.HasPrefix(f.When, "present(areq."):
		return true
	}
	return s.full || s.rand.IntN(3) == 0
}

// indexOf returns the index of the row with a name, or -1.
func indexOf(t *message.Table, name string) int {
	return slices.IndexFunc(t.Fields, func(f message.Field) bool { return f.Name == name })
}

// value returns a random JSON text for a member.
func (s *sampler) value(f *message.Field) string {
	if !f.Array {
		return s.item(f, f.Min, f.Max)
	}
	n := max(f.Min, 1)
	if f.Max > n {
		n += s.rand.IntN(min(f.Max-n, 2) + 1)
	}
	if f.Name == "threeDSRequestorChallengeInd" {
		n = 1 // two values may contradict each other
	}
	var items []string
	for range 4 * n {
		if item := s.item(f, f.ItemMin, f.ItemMax); !slices.Contains(items, item) && len(items) < n {
			items = append(items, item)
		}
	}
	return "[" + strings.Join(items, ",") + "]"
}

// item returns a random JSON text for a value, or for one item of an array.
func (s *sampler) item(f *message.Field, lo, hi int) string {
	switch f.Name {
	case "messageType":
		if s.typ == message.Erro || len(f.Codes.Values) == 1 {
			return quote(s.code(f.Codes))
		}
		return quote(s.typ.String())
	case "messageVersion":
		return quote(s.version.String())
	case "deviceChannel":
		return quote(s.channel.Code())
	case "messageCategory":
		return quote(s.category.Code())
	case "sellerId":
		return quote("S1") // always the same, because sellerInfo must have each seller that a merchant names
	case "criticalityIndicator":
		return "false" // made-up extensions are unknown, and must not be critical
	case "payTokenInd":
		return "true"
	case "startRange", "start":
		s.start = s.digits(12, 12)
		return quote(s.start + "0000")
	case "endRange", "end":
		return quote(s.start + "9999")
	}
	if s.typ == message.AReq && strings.HasSuffix(f.Name, "Source") {
		return quote("01")
	}
	switch f.Kind {
	case message.Bool:
		return pick(s, "true", "false")
	case message.Object:
		for {
			if object := compose(f.Of, s.values(f.Of, s.randsOf(f.Of))); len(object) > len("{}") {
				return string(object)
			}
		}
	case message.JSON:
		return s.free(f)
	}
	return quote(s.text(f, lo, hi))
}

// free returns an object that has no table. The data of an extension has unusual white space and
// numbers, because it must be passed on byte for byte.
func (s *sampler) free(f *message.Field) string {
	if f.Name == "data" {
		return pick(s, `{"version":"1.0", "n":1.50e2,"gone":null}`, `{ "a" : [1, {}, "é\u00e9"] }`, `{"Data":{"ID":"x","id":""}}`)
	}
	return fmt.Sprintf(`{"some":%s,"More":[%d,%q]}`, quote(s.letters(8)), s.rand.IntN(100), s.letters(3))
}

// pick returns one of the values at random.
func pick[T any](s *sampler, from ...T) T { return from[s.rand.IntN(len(from))] }

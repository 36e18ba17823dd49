package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/message"
)

// curesPage says of each element of an AReq what is answered when it is wrong: the rules, with what would be right. The
// server makes the same entries, by the same function.
func curesPage() []byte {
	var b bytes.Buffer
	b.WriteString("# What is wrong with an element, and the cure\n\n" + generated + `
For each element of an AReq: the rules that it can break, as ` + "`errors[]`" + ` of a [problem](../authentications.md#errors)
names them, with the code of the [Erro](../errors.md) and what to do. Beside these, an element can be given twice
(204, ` + "`duplicate-member`" + `), have another ` + "`type`" + `, have characters that a version does not take
(` + "`control-character`, `not-ascii`" + `), or not fit other elements (` + "`condition`" + `).
`)
	for _, v := range message.Versions() {
		fmt.Fprintf(&b, "\n## %s\n\n| Element | Code | `rule` | Cure |\n| --- | --- | --- | --- |\n", v)
		fields := slices.Clone(message.TableOf(message.AReq, v).Fields)
		slices.SortFunc(fields, func(a, b message.Field) int {
			return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		})
		for i := range fields {
			if f := &fields[i]; !slices.Contains(serverOwned, f.Name) && !slices.Contains(sources, f.Name) {
				writeCures(&b, f, v)
			}
		}
	}
	return b.Bytes()
}

// writeCures writes a row for each rule that an element can break.
func writeCures(b *bytes.Buffer, f *message.Field, v message.Version) {
	name := "`" + f.Name + "`"
	seen := make(map[string]bool)
	write := func(code message.Code, value []byte) {
		e := faults.Explain(message.Problem{Code: code, Path: message.Path(f.Name)}, faults.Subject{
			Version: v, Value: func(message.Path) []byte { return value },
		})
		if seen[e.Rule] || e.Rule == "condition" && code != message.Missing {
			return
		}
		seen[e.Rule] = true
		cure := e.Cure
		if e.Limit != nil && e.Limit.Pattern != "" {
			cure += " Its form is `" + e.Limit.Pattern + "`."
		}
		if e.Limit != nil && len(e.Limit.Allowed) > 0 && len(e.Limit.Allowed) <= 12 {
			cure += " They are `" + strings.Join(e.Limit.Allowed, "`, `") + "`."
		}
		fmt.Fprintf(b, "| %s | %s | `%s` | %s |\n", name, e.Code, e.Rule, strings.ReplaceAll(cure, "|", "\\|"))
		name = ""
	}
	if strings.ContainsAny(string(f.Need[:]), "RC") {
		write(message.Missing, nil)
	}
	for _, value := range wrongValues(f) {
		write(message.Format, value)
	}
	if f.Kind == message.Country || f.Kind == message.Currency {
		write(message.ISOCode, []byte(`"000"`))
	}
}

// wrongValues returns values that an element cannot have, each for another reason.
func wrongValues(f *message.Field) (all [][]byte) {
	add := func(text string) {
		value, err := json.Marshal(text)
		if err != nil {
			panic(err) // a string can be encoded
		}
		if f.Array {
			value = slices.Concat([]byte("["), value, []byte("]"))
		}
		all = append(all, value)
	}
	if f.Kind == message.Object || f.Kind == message.JSON || f.Kind == message.Bool {
		return [][]byte{[]byte(`1`)}
	}
	if f.Array {
		all = append(all, []byte(`{}`))
	}
	if most := max(f.Max, f.ItemMax); most > 0 && f.Kind != message.OneOf {
		add(strings.Repeat("9", most+1))
	}
	length := max(f.Min, f.ItemMin, 1)
	add(strings.Repeat("!", length))
	if f.Range != nil {
		add(fmt.Sprintf("%0*d", length, f.Range.Max+1))
	}
	return all
}

package message

import (
	"regexp"
	"slices"
)

// facts are, per type and version, the rows that a transaction has to remember
// of a message for the checks of those that follow it.
var facts = compileFacts()

// keptFacts are remembered in any case: what tells transactions and their
// kinds apart, and what the way of a transaction depends on.
var keptFacts = []string{
	"messageType", "messageVersion", "threeDSServerTransID", "dsTransID", "acsTransID", "sdkTransID",
	"deviceChannel", "messageCategory", "transStatus", "threeDSRequestorChallengeInd",
	"threeDSRequestorDecReqInd", "threeDSRequestorDecMaxTime", "threeDSRequestorSpcSupport",
}

func compileFacts() (rows [typeCount][versionCount][]bool) {
	for _, v := range Versions() {
		for word, r := range relatives {
			of := tables.messages[r.typ][v]
			kept := make([]bool, len(of.Fields))
			for _, name := range keptFacts {
				if i := of.row(names.ids[name]); i >= 0 {
					kept[i] = true
				}
			}
			reference := regexp.MustCompile(`\b` + word + `\.(\w+)`)
			for _, t := range tables.messages {
				if t[v] == nil || t[v].Type == r.typ {
					continue
				}
				for _, condition := range t[v].conditions() {
					for _, match := range reference.FindAllStringSubmatch(condition, -1) {
						kept[of.row(names.ids[match[1]])] = true
					}
				}
			}
			rows[r.typ][v] = kept
		}
	}
	return rows
}

// conditions are those of all rows and rules of a table and of the tables
// within.
func (t *Table) conditions() []string {
	var all []string
	for i := range t.Fields {
		f := &t.Fields[i]
		all = append(all, f.When, f.Forbid)
		if f.Of != nil {
			all = append(all, f.Of.conditions()...)
		}
	}
	for i := range t.Rules {
		all = append(all, t.Rules[i].When, t.Rules[i].Must)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// Facts returns a small JSON object with what the checks of later messages of
// the transaction, and its engine, ask of this one, and nothing else: no card
// data. Parsed, it stands for the message in a Context. It is meant for an
// AReq or ARes; of a message that no other one refers to, or of an unknown
// version, the facts are an empty object.
func (m *Message) Facts() []byte {
	t, known := m.Type()
	v, knownVersion := m.Version()
	if !known || !knownVersion || facts[t][v] == nil {
		return []byte("{}")
	}
	table, kept := TableOf(t, v), facts[t][v]
	values := make([][]byte, len(table.Fields))
	for i := uint32(1); i < m.nodes[0].next; i = m.nodes[i].next {
		n := &m.nodes[i]
		if n.name >= maxNames || n.flags&duplicate != 0 || m.empty(i) {
			continue
		}
		if row := table.rowOf[n.name]; row >= 0 && kept[row] {
			values[row] = m.raw(i)
		}
	}
	return join(table, values)
}

package ranges

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openthreeds/threeds/message"
)

// fromPRes is readWhole for a PRes as production reads it.
func fromPRes(m *message.Message) (*Table, message.Problems) {
	table, _, problems := readWhole(m, Source{})
	return table, problems
}

// readWhole makes a table of the complete set of card ranges in a PRes that passed
// Check, the simple way that ReadPRes is held against: it has the whole PRes in memory.
// Every entry counts as added, whatever its actionInd. The table is nil when the PRes
// brings no range, which leaves those in use as they are, and when there are problems,
// which are those Check cannot see.
func readWhole(m *message.Message, s Source) (*Table, Notes, message.Problems) {
	version, ok := m.Version()
	typ, ok2 := m.Type()
	if !ok || !ok2 || typ != message.PRes {
		return nil, Notes{}, notPRes
	}
	if !m.Has("cardRangeData") || version >= message.V231 && m.Has("cardRangeDataFileURL") {
		return nil, Notes{}, nil
	}
	r := entryReader{
		source:  s,
		version: version,
		dec:     jsontext.NewDecoder(bytes.NewBuffer(m.Raw("cardRangeData")), jsontext.AllowDuplicateNames(true)),
	}
	builder := Builder{Disjoint: version >= message.V231}
	if tok, err := r.dec.ReadToken(); err != nil || tok.Kind() != '[' {
		return nil, r.notes, message.Problems{badEntry(0)}
	}
	for at := 0; r.dec.PeekKind() != ']'; at++ {
		id, err := r.read()
		if err != nil {
			return nil, r.notes, message.Problems{badEntry(at)}
		}
		for _, b := range r.bounds {
			builder.add(b, id)
		}
	}
	if builder.count == 0 {
		return nil, r.notes, nil
	}
	for _, info := range r.infos {
		builder.infos = append(builder.infos, info.under(dsOf(m, version)))
	}
	table, err := builder.Build()
	if overlap, ok := errors.AsType[*OverlapError](err); ok {
		return nil, r.notes, overlap.problems(version)
	}
	return table, r.notes, nil
}

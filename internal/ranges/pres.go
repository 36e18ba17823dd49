package ranges

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openthreeds/threeds/message"
)

// FromPRes makes a table of a PRes as production reads it, see Source.Read.
func FromPRes(m *message.Message) (*Table, message.Problems) {
	table, _, problems := Source{}.Read(m)
	return table, problems
}

// Read makes a table of the complete set of card ranges in a PRes that passed
// Check; every entry counts as added, whatever its actionInd. The table is nil
// when the PRes brings no range, which leaves those in use as they are, and
// when there are problems, which are those Check cannot see.
//
// It holds the whole PRes. ReadPRes comes to the same for a PRes of any size.
func (s Source) Read(m *message.Message) (*Table, Notes, message.Problems) {
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

var notPRes = message.Problems{{Code: message.InvalidMessage, Path: "messageType"}}

// badEntry is an entry whose bounds are the wrong way round, or no bounds.
func badEntry(at int) message.Problem {
	return message.Problem{Code: message.Format, Path: message.Path(fmt.Sprintf("cardRangeData[%d]", at))}
}

// problems are 205 with the pairs of ranges from 2.3.1, and 203 before.
func (e *OverlapError) problems(version message.Version) message.Problems {
	if version < message.V231 {
		return message.Problems{{Code: message.Format, Path: "cardRangeData"}}
	}
	var problems message.Problems
	for _, pair := range e.Pairs {
		problems = append(problems, message.Problem{Code: message.RangeOverlap, Path: "cardRangeData",
			Note: pair[0].String() + "," + pair[1].String()})
	}
	return problems
}

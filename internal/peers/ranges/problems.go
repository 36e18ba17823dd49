package ranges

import (
	"fmt"

	"github.com/openthreeds/threeds/message"
)

var notPRes = message.Problems{{Code: message.InvalidMessage, Path: "messageType"}}

// badEntry returns the problem of an entry whose start is above its end, or whose bounds are no bounds.
func badEntry(at int) message.Problem {
	return message.Problem{Code: message.Format, Path: message.Path(fmt.Sprintf("cardRangeData[%d]", at))}
}

// problems are 205 with the pairs of ranges from 2.3.1, and 203 before, with which a
// directory server gets the name of the element alone.
func (e *OverlapError) problems(version message.Version) message.Problems {
	if version < message.V231 {
		return message.Problems{{Code: message.Format, Path: "cardRangeData"}}
	}
	return e.Problems(message.RangeOverlap)
}

// Problems are one with this code for each pair, which it names.
func (e *OverlapError) Problems(code message.Code) message.Problems {
	var problems message.Problems
	for _, pair := range e.Pairs {
		problems = append(problems, message.Problem{Code: code, Path: "cardRangeData",
			Note: pair[0].String() + "," + pair[1].String()})
	}
	return problems
}

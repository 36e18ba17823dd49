package faults

import (
	"encoding/json"
)

// A Correction is something that was changed before the request left. Found and Sent are nil unless the element says
// nothing of a person.
type Correction struct {
	Pointer     string
	Rule        string
	Found, Sent json.RawMessage
}

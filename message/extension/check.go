package extension

import (
	"regexp"
	"slices"

	"github.com/openthreeds/threeds/message"
)

// Check returns the faults of the extensions of a message that are in the list. Their paths lead
// into messageExtension: "messageExtension[0].data.air.airlineTicketInfo.ticketCount". Members
// without a row, and extensions or versions that are not in the list, are no faults.
func Check(m *message.Message) message.Problems {
	var problems message.Problems
	for _, x := range findItems(m) {
		if x.table == nil || x.hasOtherVersion(m) {
			continue
		}
		for _, p := range m.CheckObject(x.fields, x.table) {
			problems = append(problems, withNote(p))
		}
	}
	return problems
}

// CheckSent is [Check] without members that are missing. Servers use it for extensions that a
// requestor wrote itself: to leave out a member was accepted before the tables were there.
func CheckSent(m *message.Message) message.Problems {
	return slices.DeleteFunc(Check(m), func(p message.Problem) bool { return p.Code == message.Missing })
}

var versionForm = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]{1,2}$`)

// hasOtherVersion reports whether the data has a version that is not in the list.
func (x item) hasOtherVersion(m *message.Message) bool {
	version := m.Text(string(x.fields) + ".version")
	return x.Versions != nil && versionForm.MatchString(version) && !slices.Contains(x.Versions, version)
}

package api

import (
	"testing"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

// TestAuthBodyAndTables compares the longest AReq of the tables with the longest /auth of docs/api.md. In 2.3.1 an
// /auth may be shorter than an AReq, so docs/configuration.md says what to set for merchants who need all of it.
func TestAuthBodyAndTables(t *testing.T) {
	const asked = 1000 // members, by docs/api.md, G8
	for _, v := range message.Versions() {
		longest, members := messagetest.Longest(message.AReq, v, 1, 16000)
		t.Logf("%s: %d bytes, %d members", v, longest, members)
		if v < message.V231 && (longest*5/4 > maxAuthBody || members > asked) {
			t.Errorf("%s: may have %d bytes and %d members", v, longest, members)
		}
		if v >= message.V231 && (longest>>10 < 430 || longest>>10 > 450 || members != 1515) {
			t.Errorf("%s: may have %d bytes and %d members; docs/configuration.md says otherwise", v, longest, members)
		}
	}
}

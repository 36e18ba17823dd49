package auth

import (
	"crypto/rand"
	"time"

	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// ExplainWithoutServer is [Engine.Explain] for an engine that knows all schemes and no cards. Values that only a
// server has are placeholders.
func ExplainWithoutServer(acc *account.Account, body []byte, o check.ExplainOptions) *check.Explanation {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		panic(err) // the system always has random bytes
	}
	e := &Engine{
		Checker: check.Checker{
			Cards: noCards{}, IDs: transid.NewKeys(secret), Limits: message.Limits{Depth: -1, Members: -1},
			Server: check.Server{
				RefNumber:   func(message.Version) string { return "3DS_LOA_SER_0000" },
				RequestorID: "requestor", RequestorName: "Requestor",
			},
		},
		Rows: txn.Rows{Now: time.Now, Timeouts: txn.Timeouts{Preauth: time.Minute}},
	}
	for _, word := range scheme.Names() {
		d := check.Directory{Scheme: word, Versions: message.Versions(), ResultsURL: "https://server.example/results"}
		e.Peers = append(e.Peers, d)
	}
	o.Placeholders = []string{"threeDSServerRefNumber", "threeDSServerURL", "threeDSRequestorID", "threeDSRequestorName"}
	return e.Explain(acc, body, o)
}

// noCards are card ranges that were not loaded.
type noCards struct{}

func (noCards) Lookup(string) []ranges.Hit { return nil }

func (noCards) AnyTried() bool { return false }

func (noCards) Pending(string) bool { return true }

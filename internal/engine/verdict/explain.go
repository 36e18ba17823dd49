package verdict

import (
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/inspect"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// ExplainText explains the body of an /auth in a text of any form that [inspect.Read] reads, without a server: see
// [explainWithoutServer]. Options of the body count where o has none. It returns an error if the text has no such body.
func ExplainText(text []byte, o check.ExplainOptions, now time.Time) (*check.Explanation, error) {
	input, ok := inspect.Read(text)
	if !ok || input.XML != nil {
		return nil, fmt.Errorf("there is no body of an /auth in it%s", inspect.DescribeOther(text))
	}
	m, err := message.Parse(input.Data, message.Limits{Depth: -1, Members: -1})
	if err != nil {
		return nil, err
	}
	if t, ok := m.Type(); ok && t != message.AReq {
		return nil, fmt.Errorf("it is no body of an /auth but the message %s: threeds check shows it", t)
	}
	ofBody, wrong := check.ReadExplainOptions(input.Data)
	if o.Scheme == "" {
		o.Scheme = ofBody.Scheme
	}
	if ds := m.Text("ds"); o.Scheme == "" && slices.Contains(scheme.Names(), ds) {
		o.Scheme = ds
	}
	if o.AsOf.IsZero() {
		o.AsOf = ofBody.AsOf
	}
	acc := &account.Account{Merchant: &account.Merchant{Name: "explain"}}
	x := explainWithoutServer(check.NewRequest(acc, now, time.Minute), input.Data, o)
	if len(wrong) > 0 {
		x.Reject(wrong)
	}
	return x, nil
}

// explainWithoutServer explains a request by a checker that knows all schemes and no cards. It makes
// up the values that only a server has.
func explainWithoutServer(req *check.Request, body []byte, o check.ExplainOptions) *check.Explanation {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		panic(err) // the system always has random bytes
	}
	k := check.Checker{
		Cards: noCards{}, IDs: transid.NewKeys(secret), Limits: message.Limits{Depth: -1, Members: -1},
		Server: check.Server{
			RefNumber:   func(message.Version) string { return "3DS_LOA_SER_0000" },
			RequestorID: "requestor", RequestorName: "Requestor",
		},
	}
	for _, word := range scheme.Names() {
		d := check.Directory{Scheme: word, Versions: message.Versions(), ResultsURL: "https://server.example/results"}
		k.Peers = append(k.Peers, d)
	}
	o.Placeholders = []string{"threeDSServerRefNumber", "threeDSServerURL", "threeDSRequestorID", "threeDSRequestorName"}
	return k.Explain(req, body, o)
}

// noCards are card ranges that were not loaded.
type noCards struct{}

func (noCards) Lookup(string) []ranges.Hit { return nil }

func (noCards) AnyTried() bool { return false }

func (noCards) Pending(string) bool { return true }

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/inspect"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// runExplain prints what /auth would make of a body, without a server: with the same function, but without card ranges
// and the profile of a merchant.
func runExplain(_ context.Context, cmd *invocation) error {
	of := cmd.String("scheme", "", "the card scheme whose directory server the AReq would go to")
	asOf := cmd.String("as-of", "", "the day whose rules of the scheme count, such as 2026-11-25")
	asJSON := cmd.Bool("json", false, "print what POST /explain answers")
	rest, err := cmd.parse(1)
	if err != nil {
		return err
	}
	if known := scheme.Names(); *of != "" && !slices.Contains(known, *of) {
		return usageErrorf("explain: no scheme %q%s", *of, hint.For(*of, known...))
	}
	var day time.Time
	if *asOf != "" {
		if day, err = time.Parse(time.DateOnly, *asOf); err != nil {
			return usageErrorf("explain: --as-of %q is no date such as 2026-11-25", *asOf)
		}
	}
	name, data, err := readCheckFile("explain", rest, cmd.stdin)
	if err != nil {
		return err
	}
	x, err := explainBody(name, data, check.ExplainOptions{Scheme: *of, AsOf: day, AllowMaskedCard: true})
	if err != nil {
		return err
	}
	if *asJSON {
		enc := json.NewEncoder(cmd.stdout)
		enc.SetEscapeHTML(false)
		err = enc.Encode(api.NewExplanation(x))
	} else {
		err = printExplanation(name, x, cmd.stdout, cmd.stderr)
	}
	if err != nil || x.IsValid {
		return err
	}
	return fmt.Errorf("%s: %s", name, countOf(len(x.Faults), "fault"))
}

// explainBody explains the body of an /auth in a text of any form that check reads. Options of the body count where
// there are none besides it.
func explainBody(name string, data []byte, o check.ExplainOptions) (*check.Explanation, error) {
	input, ok := inspect.Read(data)
	if !ok || input.XML != nil {
		return nil, unreadableError{fmt.Errorf("%s: there is no body of an /auth in it%s", name, describeOther(data))}
	}
	m, err := message.Parse(input.Data, message.Limits{Depth: -1, Members: -1})
	if err != nil {
		return nil, unreadableError{fmt.Errorf("%s: %w", name, err)}
	}
	if t, ok := m.Type(); ok && t != message.AReq {
		err := fmt.Errorf("%s: it is no body of an /auth but the message %s: threeds check shows it", name, t)
		return nil, unreadableError{err}
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
	o.Placeholders = []string{"threeDSServerRefNumber", "threeDSServerURL", "threeDSRequestorID", "threeDSRequestorName"}
	x := serverlessEngine().Explain(acc, input.Data, o)
	if len(wrong) > 0 {
		x.Reject(wrong)
	}
	return x, nil
}

// serverlessEngine returns an engine that knows all schemes and no cards. It can explain, and nothing else.
func serverlessEngine() *auth.Engine {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		panic(err) // it never fails
	}
	e := &auth.Engine{
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
	return e
}

// noCards are card ranges that were not loaded.
type noCards struct{}

func (noCards) Lookup(string) []ranges.Hit { return nil }

func (noCards) AnyTried() bool { return false }

func (noCards) Pending(string) bool { return true }

// printExplanation prints an explanation for people: what is sent on stdout, and all findings on stderr.
func printExplanation(name string, x *check.Explanation, stdout, stderr io.Writer) error {
	var out bytes.Buffer
	if x.AReq != nil {
		if err := json.Indent(&out, x.AReq, "", "  "); err != nil {
			return err
		}
		out.WriteByte('\n')
	}
	for _, n := range x.Normalised {
		fmt.Fprintf(&out, "corrected by /auth: %s: %s\n", n.Pointer, n.Rule)
	}
	if _, err := stdout.Write(out.Bytes()); err != nil {
		return err
	}
	for _, f := range x.Faults {
		fmt.Fprintf(stderr, "%s: %s: %s %s: %s\n", name, strings.TrimPrefix(*f.Pointer, "/"), f.Code, f.Rule, f.Cure)
	}
	for _, f := range x.Findings {
		fmt.Fprintf(stderr, "%s: %s: %s\n", name, x.Scheme, f.Text)
	}
	for _, w := range x.Warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", name, w.Text)
	}
	return nil
}

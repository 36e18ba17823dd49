package sandbox

import (
	"slices"

	"github.com/openthreeds/threeds/message"
)

// A setting is what a message that came in is held against: the types that are
// welcome here, and the other messages of its transaction, raw.
type setting struct {
	types                  []string
	areq, ares, rreq, creq []byte
}

// faults judges a message by the field tables. This is all that the sandbox
// shares with the server under test.
func faults(body []byte, in setting) (erro, bool) {
	m, err := message.Parse(body, message.Limits{})
	if err != nil {
		return erro{code: "101", detail: "Invalid Formatted Message: " + err.Error()}, true
	}
	if t, known := m.Type(); known && !slices.Contains(in.types, t.String()) {
		return erro{code: "101", detail: "Invalid Message for the receiving component"}, true
	}
	problems := m.Check(message.Context{
		AReq: parsed(in.areq), ARes: parsed(in.ares), RReq: parsed(in.rreq), CReq: parsed(in.creq),
		Loopback: true,
	})
	if len(problems) == 0 {
		return erro{}, false
	}
	code, detail := problems.Pick(message.ForPeer)
	if code == message.InvalidMessage {
		detail = "Invalid Message Type"
	}
	return erro{code: code.String(), detail: detail}, true
}

// parsed is an earlier message of the transaction, nil when there is none.
func parsed(body []byte) *message.Message {
	if body == nil {
		return nil
	}
	m, err := message.Parse(body, message.Limits{})
	if err != nil {
		return nil
	}
	return m
}

// Package api has the shapes of what the server and its clients send each other as JSON: requests, answers, problems
// and events. Package client returns them; a program that makes its own calls decodes into them:
//
//   - an [Authentication] is the answer of POST /authentications, GET /authentications/{id} and POST /outcome
//   - a [Problem] is the answer of all operations here that do not succeed (RFC 9457)
//   - an [Event] is what is posted to a webhook endpoint, and [EventTypes] says which there are, with which data
//   - a [List] is a page of anything
//
// The messages of EMV 3-D Secure, such as those of /preauth and /auth, are not here: package message has their tables.
//
// The server encodes these types, and docs/openapi.yaml and the types of the client for Node are made of them: of the
// names and types of fields, of the comments, and of the tag schema, which has words of JSON Schema. A member that may
// be absent has the option omitempty or omitzero; any other member is always there. A pointer or a [Text] that is
// always there may be null. Times are RFC 3339 in UTC. Amounts are in the smallest unit of the currency. Decoding takes
// members that are not listed here, which later versions of the server may add.
package api

import (
	"bytes"
	"encoding/json"
)

// A Text is a string that is null in JSON when it is empty.
type Text string

// MarshalJSON returns null for an empty text, and else the string.
func (t Text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the encoder of the whole value decides
	err := e.Encode(string(t))
	return b.Bytes(), err
}

// A List is a page of what an operation lists.
type List[T any] struct {
	Data []T  `json:"data"`
	Next Text `json:"next"` // The cursor of the next page; null at the end.
}

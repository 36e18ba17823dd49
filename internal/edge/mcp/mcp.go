// Package mcp lets an assistant read the documentation, check messages and explain them, by the Model Context Protocol
// over standard input and output. Set the fields of a [Server], and call [Server.Serve].
//
// The server only reads. No answer quotes what was asked: messages are shown masked, and a question with a card number
// in it is refused where it cannot be masked.
package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/edge/docsite"
)

// versions are the versions of the protocol that are spoken, the newest first.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// maxLine is the length of the longest message that is read, in bytes.
const maxLine = 1 << 20

// A Server answers one assistant. Its methods may not be called concurrently.
type Server struct {
	Version string        // Version is that of the program.
	Site    *docsite.Site // Site is the documentation.
	Admin   *Admin        // Admin reads records; nil means that the assistant sees none.
}

// A message is a request or a notification of JSON-RPC 2.0.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"` // absent in a notification
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// An answer is the answer to a request.
type answer struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// An rpcError says why there is no result.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// The codes of JSON-RPC 2.0.
const (
	parseError     = -32700
	invalidRequest = -32600
	methodNotFound = -32601
	invalidParams  = -32602
)

// Serve reads messages, one a line, and answers each that wants an answer, until in ends or ctx does.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines := make(chan line)
	go readLines(ctx, in, lines)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-lines:
			if errors.Is(l.err, io.EOF) {
				return nil
			}
			if l.err != nil {
				return l.err
			}
			a := s.answer(ctx, &l)
			if a == nil {
				continue
			}
			if err := encoder.Encode(a); err != nil {
				return err
			}
		}
	}
}

// A line is one message as it came.
type line struct {
	text      []byte
	isTooLong bool // its text is not there
	err       error
}

// readLines sends lines until there is an error, which is the last one, or until ctx ends.
func readLines(ctx context.Context, in io.Reader, to chan<- line) {
	r := bufio.NewReader(in)
	for {
		l := readLine(r)
		select {
		case to <- l:
		case <-ctx.Done():
			return
		}
		if l.err != nil {
			return
		}
	}
}

// readLine reads a line. The text of one that is too long is dropped.
func readLine(r *bufio.Reader) (l line) {
	for {
		part, err := r.ReadSlice('\n')
		if l.isTooLong = l.isTooLong || len(l.text)+len(part) > maxLine; l.isTooLong {
			l.text = nil
		} else {
			l.text = append(l.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(l.text) > 0 || l.isTooLong):
			return l // the last line has no end
		}
		l.err = err
		return l
	}
}

// answer returns the answer to a message; nil if it wants none.
func (s *Server) answer(ctx context.Context, l *line) *answer {
	text := bytes.TrimSpace(l.text)
	if len(text) == 0 && !l.isTooLong {
		return nil
	}
	none := json.RawMessage("null")
	refuse := func(id json.RawMessage, code int, reason string) *answer {
		return &answer{"2.0", id, nil, &rpcError{code, reason}}
	}
	if l.isTooLong {
		return refuse(none, invalidRequest, fmt.Sprintf("The message is too long: want at most %d bytes.", maxLine))
	}
	var m message
	if !json.Valid(text) {
		return refuse(none, parseError, "The line is not JSON: want one message a line.")
	}
	if json.Unmarshal(text, &m) != nil || m.JSONRPC != "2.0" {
		return refuse(none, invalidRequest, `The line is no message of JSON-RPC 2.0: want an object with "jsonrpc": "2.0".`)
	}
	if m.ID == nil || m.Method == "" {
		return nil // a notification, or an answer to what was never asked
	}
	if !isID(m.ID) {
		return refuse(none, invalidRequest, "id: want a number or a short text, without a card number.")
	}
	result, fault := s.call(ctx, &m)
	if fault != nil {
		return &answer{"2.0", m.ID, nil, fault}
	}
	return &answer{"2.0", m.ID, result, nil}
}

// maxID is the length of the longest id of a request, in bytes.
const maxID = 256

// isID reports whether an answer may repeat an id.
func isID(id json.RawMessage) bool {
	isScalar := id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9'
	return isScalar && len(id) <= maxID && !hasCard(string(id))
}

// hasCard reports whether a text has what may be a card number in it, also one with a wrong check digit.
func hasCard(text string) bool { return cardnumber.Mask(text) != text }

// instructions tell an assistant what the tools are for.
const instructions = "Tools of threeds, a server for EMV 3-D Secure. They only read. Use look_up for questions about the " +
	"server and the protocol, check and explain for a message, a request body or a line of a log, and explain for an " +
	"error code or an element. Never ask a person for a whole card number: a masked message is enough."

// call returns the result of a request.
func (s *Server) call(ctx context.Context, m *message) (any, *rpcError) {
	switch m.Method {
	case "initialize":
		var asked struct{ ProtocolVersion string }
		if json.Unmarshal(m.Params, &asked) != nil {
			return nil, &rpcError{invalidParams, "params: want an object with protocolVersion."}
		}
		spoken := versions[0]
		if slices.Contains(versions, asked.ProtocolVersion) {
			spoken = asked.ProtocolVersion
		}
		return map[string]any{
			"protocolVersion": spoken, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]string{"name": "threeds", "version": s.Version}, "instructions": instructions,
		}, nil
	case "ping":
		return map[string]any{}, nil
	case "tools/list":
		return map[string]any{"tools": s.tools()}, nil
	case "tools/call":
		return s.callTool(ctx, m.Params)
	}
	return nil, &rpcError{methodNotFound, "There is no such method: this server has tools alone."}
}

// A content is a part of the result of a tool.
type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// A toolResult is what a tool says, or why it cannot.
type toolResult struct {
	Content []content `json:"content"`
	IsError bool      `json:"isError"`
}

// callTool calls a tool. What is wrong with its arguments is a result, for the assistant to read.
func (s *Server) callTool(ctx context.Context, params json.RawMessage) (any, *rpcError) {
	var asked struct {
		Name      string
		Arguments map[string]json.RawMessage
	}
	if json.Unmarshal(params, &asked) != nil {
		return nil, &rpcError{invalidParams, "params: want an object with name and arguments."}
	}
	all := s.tools()
	i := slices.IndexFunc(all, func(t tool) bool { return t.Name == asked.Name })
	if i < 0 {
		return nil, &rpcError{invalidParams, "name: there is no such tool. tools/list has them."}
	}
	args, err := all[i].read(asked.Arguments)
	var text string
	if err == nil {
		text, err = all[i].call(ctx, args)
	}
	if err != nil {
		text = err.Error()
	}
	return toolResult{[]content{{"text", text}}, err != nil}, nil
}

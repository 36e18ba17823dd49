// Package peer has what all of the sandbox's directory servers and issuers of EMV 3-D Secure share: names of versions,
// ids, and the encoding of JSON.
package peer

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Versions returns the protocol versions that all directory servers speak. Their names sort like the versions
// themselves.
func Versions() []string { return []string{V210, V220, V231} }

// The protocol versions.
const (
	V210 = "2.1.0"
	V220 = "2.2.0"
	V231 = "2.3.1"
)

// Encode is json.Marshal without escapes made for HTML, which no other peer would send.
func Encode(v any) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("sandbox: encoding our own value: " + err.Error()) // strings, raw JSON and maps of them
	}
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'})
}

// UnknownMember is a value that a peer may add and a reader has to bear: members that no version knows, nested, with
// null, with a number that no float holds.
func UnknownMember() json.RawMessage {
	return json.RawMessage(
		`{"nothing":null,"amount":12345678901234567890.10,"deeper":{"empty":{},"nothing":null,"list":["a",{"b":null}]}}`)
}

// IsUUID reports whether text has the form of a transaction id.
func IsUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i, c := range text {
		isDash := i == 8 || i == 13 || i == 18 || i == 23
		if isDash != (c == '-') || !isDash && !strings.ContainsRune("0123456789abcdefABCDEF", c) {
			return false
		}
	}
	return true
}

// ReadJSON reads a body of the control port into a value that has all its members.
func ReadJSON(body io.Reader, into any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// WriteError answers a request of the control port with what is wrong with it.
func WriteError(w http.ResponseWriter, status int, text string) {
	WriteJSON(w, status, map[string]string{"error": text})
}

// ServeText returns what serves a text of the control port.
func ServeText(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text) // the client has gone, or reads it
	}
}

// WriteJSON answers a request of the control port.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone, or reads it
}

// IsLocalHost reports whether a host, with a port or without, names the machine itself.
func IsLocalHost(host string) bool {
	name := NameOf(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// NameOf is a host without its port, in lower case.
func NameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

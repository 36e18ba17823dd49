package directorytest

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A Fault is what a directory server does wrong. At most one of its functions is set: that
// of the stage at which it goes wrong.
type Fault struct {
	Name string
	Slow bool // it goes on until the client's time limit ends it
	JSON bool // it makes sense only for messages in JSON

	Certificate string                                  // what is wrong with it; "": nothing
	Raw         func(c *Session)                        // called instead of a handshake
	Early       func(c *Session)                        // called instead of reading a message
	Answer      func(c *Session, good []byte) (on bool) // called instead of a good answer; on: the connection stays
}

func (f Fault) String() string { return f.Name }

// Faults are all faults. A fault whose name begins with "good: " is odd but correct: a client must accept the answer.
func Faults() []Fault {
	all := []Fault{
		{Name: "black hole", Slow: true, Raw: wait},
		{Name: "hangs in the handshake", Slow: true, Raw: func(c *Session) {
			hello(c)
			c.Say("\x16\x03\x03\x00\x7a\x02\x00")
			wait(c)
		}},
		{Name: "closes for a handshake", Raw: hello},
		{Name: "resets for a handshake", Raw: func(c *Session) {
			hello(c)
			c.Reset()
		}},
		{Name: "plain HTTP", Raw: func(c *Session) {
			hello(c)
			c.Say("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		}},
		{Name: "noise for a handshake", Raw: func(c *Session) {
			hello(c)
			c.Say("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09")
		}},
		{Name: "alert for a handshake", Raw: func(c *Session) {
			hello(c)
			c.Say("\x15\x03\x03\x00\x02\x02\x28")
		}},
		{Name: "resets after the handshake", Early: (*Session).Reset},
		{Name: "never reads", Slow: true, Early: wait},
		{Name: "silent", Slow: true, Answer: func(c *Session, _ []byte) bool { wait(c); return false }},
		{Name: "closes after the message", Answer: func(*Session, []byte) bool { return false }},
		{Name: "resets after the message", Answer: func(c *Session, _ []byte) bool { c.Reset(); return false }},
		{Name: "half-closes after the message", Answer: func(c *Session, _ []byte) bool {
			_ = c.Conn.(*tls.Conn).CloseWrite()
			wait(c)
			return false
		}},
		cut("closes in the header", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", func(*Session) {}),
		cut("resets in the header", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", (*Session).Reset),
		cut("closes in the body", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", func(*Session) {}),
		cut("resets in the body", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", (*Session).Reset),
		cut("half-closes in the body", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", func(c *Session) {
			_ = c.Conn.(*tls.Conn).CloseWrite()
			wait(c)
		}),
		cut("closes in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{", func(*Session) {}),
		slow(cut("silent in the header", "HTTP/1.1 200 OK\r\nContent-Le", wait)),
		slow(cut("silent in the body", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", wait)),
		slow(cut("header byte by byte", "HTTP/1.1 200 OK\r\nX: ", trickle)),
		slow(cut("body byte by byte", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", trickle)),
		{Name: "10 MiB", Answer: func(c *Session, good []byte) bool {
			more, blank := 10<<20, strings.Repeat(" ", 1<<12)
			c.Say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(good)+more, good)
			for ; more > 0 && c.Say("%s", blank); more -= len(blank) {
			}
			return false
		}},
		{Name: "endless chunks", Answer: func(c *Session, _ []byte) bool {
			for c.Say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"); c.Say("1000\r\n%s\r\n", strings.Repeat(" ", 0x1000)); {
			}
			return false
		}},
		{Name: "gzip bomb", Answer: func(c *Session, _ []byte) bool {
			c.Respond(200, encoded, bomb())
			return true
		}},
		{Name: "gzip", Answer: func(c *Session, good []byte) bool { c.Respond(200, encoded, zipped(good)); return true }},
		{Name: "no HTTP", Answer: says("what do you mean?\r\n\r\n")},
		{Name: "HTTP of the future", Answer: says("HTTP/7 200 OK\r\n\r\n")},
		{Name: "two lengths", Answer: says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}")},
		{Name: "a length below zero", Answer: says("HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}")},
		{Name: "a chunk without a length", Answer: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n")},
		{Name: "a header of 1 MiB", Answer: says("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n{}")},
		{Name: "a header of 10,000 lines", Answer: says("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: x\r\n", 10_000) + "\r\n{}")},
		{Name: "endless 100 Continue", Answer: endless("HTTP/1.1 100 Continue\r\n\r\n")},
		{Name: "endless 103 Early Hints", Answer: endless("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n")},
		{Name: "HTTP 101", Answer: func(c *Session, _ []byte) bool {
			c.Say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			wait(c)
			return false
		}},
		{Name: "HTTP 503 without end", Answer: func(c *Session, _ []byte) bool {
			c.Say("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 1000\r\n\r\n")
			wait(c)
			return false
		}},
		{Name: "HTTP 500 with a good answer", Answer: func(c *Session, good []byte) bool { c.Respond(500, nil, good); return true }},
		{Name: "a length too short", Answer: func(c *Session, good []byte) bool {
			return c.Say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(good)-1, good)
		}},
		body("nothing", func([]byte) []byte { return nil }),
		body("garbage", func([]byte) []byte { return []byte("\x00\x01\x02 garbage") }),
		body("HTML", func([]byte) []byte { return []byte("<html><body>Bad Gateway</body></html>") }),
		body("half of a good one", func(good []byte) []byte { return good[:len(good)/2] }),
		body("UTF-16", func(good []byte) []byte {
			return append([]byte("\xff\xfe"), bytes.Join(bytes.Split(good, nil), []byte{0})...)
		}),
		body("two messages", func(good []byte) []byte { return bytes.Repeat(good, 2) }),
		inJSON("an array", func(good []byte) []byte { return fmt.Appendf(nil, "[%s]", good) }),
		inJSON("a byte order mark", func(good []byte) []byte { return append([]byte("\xef\xbb\xbf"), good...) }),
		inJSON("a member twice", func(good []byte) []byte { return bytes.Replace(good, []byte("{"), []byte(`{"dsTransID":null,`), 1) }),
		inJSON("500 deep", func(good []byte) []byte {
			return bytes.Replace(good, []byte("{"), []byte(`{"x":`+strings.Repeat("[", 500)+strings.Repeat("]", 500)+","), 1)
		}),
		inJSON("another messageType", member("messageType", "CRes")),
		inJSON("unknown messageType", member("messageType", "XRes")),
		inJSON("unknown messageVersion", member("messageVersion", "9.9.9")),
		inJSON("foreign threeDSServerTransID", member("threeDSServerTransID", "11111111-1111-4111-8111-111111111111")),
		inJSON("Erro", func(good []byte) []byte {
			return fmt.Appendf(nil, `{"messageType":"Erro","messageVersion":%s,"threeDSServerTransID":%s,"errorCode":"403","errorComponent":"D",`+
				`"errorDescription":"words of the directory","errorDetail":"more of them"}`, of(good, "messageVersion"), of(good, "threeDSServerTransID"))
		}),
	}
	for _, name := range []string{"self-signed", "of another authority", "expired", "not yet valid", "for another host",
		"for clients", "TLS 1.1", "refuses ours"} {
		all = append(all, Fault{Name: "certificate: " + name, Certificate: name})
	}
	for _, status := range []int{301, 302, 307, 308} {
		all = append(all, Fault{Name: fmt.Sprint("redirect ", status), Answer: func(c *Session, good []byte) bool {
			c.Respond(status, http.Header{"Location": {"https://" + c.server.elsewhere.Addr().String() + "/"}}, good)
			return true
		}})
	}
	for _, status := range []int{201, 400, 401, 403, 404, 408, 413, 429, 500, 502, 503, 504, 599} {
		all = append(all, Fault{Name: fmt.Sprint("HTTP ", status), Answer: func(c *Session, _ []byte) bool {
			c.Respond(status, http.Header{"Content-Type": {"text/html"}}, []byte("<html><body>"+http.StatusText(status)+"</body></html>"))
			return true
		}})
	}
	return append(all,
		Fault{Name: "good: text/html", Answer: func(c *Session, good []byte) bool {
			c.Respond(200, http.Header{"Content-Type": {"text/html"}}, good)
			return true
		}},
		Fault{Name: "good: after 100 Continue", Answer: func(c *Session, good []byte) bool {
			c.Say("HTTP/1.1 100 Continue\r\n\r\n")
			c.Respond(200, nil, good)
			return true
		}},
		Fault{Name: "good: HTTP/1.0", Answer: func(c *Session, good []byte) bool { c.Say("HTTP/1.0 200 OK\r\n\r\n%s", good); return false }},
		Fault{Name: "good: and another one", Answer: func(c *Session, good []byte) bool {
			c.Say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", len(good), good)
			return true
		}},
	)
}

// bomb is 10 MiB of blanks, compressed to a few KiB. It is made of many equal gzip members:
// to compress all of it at once takes seconds on a busy machine, and the client would not
// wait so long.
var bomb = sync.OnceValue(func() []byte { return bytes.Repeat(zipped(bytes.Repeat([]byte(" "), 64<<10)), 160) })

var encoded = http.Header{"Content-Encoding": {"gzip"}}

// wait does nothing until the fault is no longer wanted.
func wait(c *Session) { <-c.Over }

// hello reads the first TLS record of a client, its ClientHello.
func hello(c *Session) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(c, head); err == nil {
		_, _ = io.CopyN(io.Discard, c, int64(head[3])<<8|int64(head[4]))
	}
}

// trickle writes a byte every 20 milliseconds.
func trickle(c *Session) {
	for c.Say("x") {
		select {
		case <-c.Over:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func slow(f Fault) Fault {
	f.Slow = true
	return f
}

// cut begins an answer, and leaves it to end how it goes on. Then the connection is closed.
func cut(name, begin string, end func(c *Session)) Fault {
	return Fault{Name: name, Answer: func(c *Session, _ []byte) bool {
		c.Say("%s", begin)
		end(c)
		return false
	}}
}

// says answers with a text and closes the connection.
func says(text string) func(*Session, []byte) bool {
	return func(c *Session, _ []byte) bool {
		c.Say("%s", text)
		return false
	}
}

// endless answers with a text again and again.
func endless(text string) func(*Session, []byte) bool {
	return func(c *Session, _ []byte) bool {
		for c.Say("%s", text) {
		}
		return false
	}
}

// body answers with status 200 and what change makes of a good message.
func body(name string, change func(good []byte) []byte) Fault {
	return Fault{Name: name, Answer: func(c *Session, good []byte) bool {
		c.Respond(200, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, change(good))
		return true
	}}
}

// inJSON is body for messages in JSON.
func inJSON(name string, change func(good []byte) []byte) Fault {
	f := body(name, change)
	f.JSON = true
	return f
}

// member changes the value of the first member of that name.
func member(name, value string) func(good []byte) []byte {
	return func(good []byte) []byte {
		return bytes.Replace(good, fmt.Appendf(nil, "%q:%s", name, of(good, name)), fmt.Appendf(nil, "%q:%q", name, value), 1)
	}
}

// of returns the value of the first member with that name, a string with its quotes.
func of(good []byte, name string) []byte {
	found := regexp.MustCompile(fmt.Sprintf(`%q:("[^"]*")`, name)).FindSubmatch(good)
	if found == nil {
		panic("directorytest: a good message without " + name)
	}
	return found[1]
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

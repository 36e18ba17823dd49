package pgtest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Middleman is a proxy that passes the protocol on until a test makes it hold back an answer and break the connection
// instead.
type Middleman struct {
	net.Listener
	to    string
	Armed atomic.Int32 // when to break the next connection
	Quiet atomic.Bool  // nothing is answered, and nothing closed
	Cut   atomic.Bool  // the same, and new connections lead nowhere
	Slow  atomic.Bool  // the server's word that it ends an idle session comes after the next statement
	Held  atomic.Int32 // how many such words there were
	over  chan struct{}
	conns sync.WaitGroup

	mu    sync.Mutex
	count int      // connections there were
	heard []string // what the server said last, for when a test fails
}

// note keeps what the server said on a connection, and what became of it.
func (m *Middleman) note(conn int, kind byte, body []byte, then string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const commandComplete, errorResponse, most = 'C', 'E', 60
	text := ""
	if kind == commandComplete || kind == errorResponse {
		text = fmt.Sprintf(" %q", body)
	}
	m.heard = append(m.heard, fmt.Sprintf("%s connection %d: %c%s, armed %d%s", time.Now().Format("05.000"), conn, kind, text, m.Armed.Load(), then))
	m.heard = m.heard[max(0, len(m.heard)-most):]
}

// Journal returns what the server said last, for when a test fails.
func (m *Middleman) Journal() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("at %s, after\n\t%s", time.Now().Format("05.000"), strings.Join(m.heard, "\n\t"))
}

// When a [Middleman] breaks a connection, for its field Armed.
const (
	Never        int32 = iota
	BeforeAnswer       // before the answer to any statement, when the statement has been done
	AmidAnswer         // behind the first message of an answer
	BeforeRow          // before a row of a read
	BeforeCommit       // before the answer to a commit, when it has been done
	AmidCommit         // behind the first message of that answer
)

// idleSession is the code with which the server ends a session that was idle for too long.
const idleSession = "57P05"

// words tell that something was said.
type words chan struct{}

func (w words) Write(p []byte) (int, error) {
	select {
	case w <- struct{}{}:
	default:
	}
	return len(p), nil
}

// NewMiddleman starts a proxy before the server with an address, until the test ends.
func NewMiddleman(t testing.TB, to string) *Middleman {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &Middleman{Listener: l, to: to, over: make(chan struct{})}
	m.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m.conns.Go(func() { m.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(m.over)
		m.conns.Wait()
	})
	return m
}

func (m *Middleman) pass(client net.Conn) {
	defer client.Close()
	if m.Cut.Load() {
		<-m.over
		return
	}
	server, err := net.Dial("tcp", m.to)
	if err != nil {
		return
	}
	defer server.Close()
	m.mu.Lock()
	m.count++
	number := m.count
	m.mu.Unlock()
	left, said := make(chan struct{}), make(words, 1)
	m.conns.Go(func() {
		defer close(left)
		defer server.Close()
		_, _ = io.Copy(server, io.TeeReader(client, said))
	})
	defer func() {
		if m.Quiet.Load() || m.Cut.Load() {
			select {
			case <-left:
			case <-m.over:
			}
		}
	}()
	complete, committed := false, false // said last
	var head [5]byte                    // kind and length of a message of the server
	for {
		if _, err := io.ReadFull(server, head[:]); err != nil {
			return
		}
		body := make([]byte, int(head[1])<<24|int(head[2])<<16|int(head[3])<<8|int(head[4])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		const commandComplete, readyForQuery, errorResponse, dataRow = 'C', 'Z', 'E', 'D'
		if m.Slow.Load() && head[0] == errorResponse && bytes.Contains(body, []byte(idleSession)) {
			m.Held.Add(1)
			select {
			case <-said:
			case <-left:
			case <-m.over:
			}
		}
		if head[0] == readyForQuery { // the client says its next word when it has this, and not before
			select {
			case <-said:
			default:
			}
		}
		switch armed := m.Armed.Load(); {
		case armed == BeforeAnswer && head[0] == commandComplete, armed == AmidAnswer && complete, armed == BeforeRow && head[0] == dataRow,
			armed == BeforeCommit && isCommit(head[0], body), armed == AmidCommit && committed:
			m.note(number, head[0], body, ": broken")
			m.Armed.Store(Never)
			if armed == BeforeAnswer { // the commit comes after it: let it come
				for head[0] != readyForQuery {
					if _, err := io.ReadFull(server, head[:]); err != nil {
						return
					}
					if _, err := io.CopyN(io.Discard, server, int64(head[3])<<8|int64(head[4])-4); err != nil {
						return
					}
				}
			}
			return
		}
		m.note(number, head[0], body, "")
		complete, committed = head[0] == commandComplete, isCommit(head[0], body)
		if m.Quiet.Load() || m.Cut.Load() {
			return
		}
		if _, err := client.Write(append(head[:], body...)); err != nil {
			return
		}
	}
}

// isCommit tells that a message says that a transaction is committed.
func isCommit(kind byte, body []byte) bool { return kind == 'C' && string(body) == "COMMIT\x00" }

package siem

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// application is the APP-NAME of all messages.
	application = "threeds"

	// structureID is the SD-ID of our fields. 32473 is the number that RFC 5612 keeps for examples: the project has none
	// of its own.
	structureID = "threeds@32473"

	// The priorities: facility 13 (log audit), severity 5 (notice) for what somebody has done, 6 (information) for seals,
	// 2 (critical) for what was changed in the store.
	entryPriority = 13*8 + 5
	sealPriority  = 13*8 + 6
	faultPriority = 13*8 + 2

	maxHostname = 255
	maxMessage  = 32 // characters of a MSGID

	// maxUnasked is how much a receiver may say that nobody has asked for, in bytes.
	maxUnasked = 64 << 10
)

// A Syslog sends messages of RFC 5424 over TLS, framed by RFC 5425. It is safe for concurrent use.
//
// Syslog has no acknowledgement. RFC 5425 has the receiver answer the end of a connection, a close_notify of TLS, with
// its own, which it can do only after it has read what came before. So Send makes a connection for each batch, and
// waits for that answer.
type Syslog struct {
	Address string      // Address is HOST:PORT.
	TLS     *tls.Config // TLS has the authorities; its server name is that of Address unless it has one.
	Host    string      // Host is the HOSTNAME of messages; "" means that there is none.
	// EndIsEnough takes the end of the connection for that answer, for receivers that send no close_notify. A receiver
	// that is killed after it has read a batch, and before it has stored it, then loses the batch.
	EndIsEnough bool
}

// A watchedConn is a connection that knows whether its peer has ended it.
type watchedConn struct {
	net.Conn
	hasEnded bool
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.hasEnded = c.hasEnded || errors.Is(err, io.EOF)
	return n, err
}

// Send implements [Sender]. All messages are confirmed, or none.
func (s *Syslog) Send(ctx context.Context, all []Message) (int, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return 0, fmt.Errorf("syslog: %w", err)
	}
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	watched := &watchedConn{Conn: raw}
	config := s.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(s.Address)
	}
	conn := tls.Client(watched, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return 0, fmt.Errorf("syslog: TLS with %s: %w", s.Address, err)
	}
	if err := s.write(conn, all); err != nil {
		return 0, fmt.Errorf("syslog: not written: %w", err)
	}
	if err := s.awaitEnd(conn, watched); err != nil {
		return 0, fmt.Errorf("syslog: not confirmed: %w", err)
	}
	return len(all), nil
}

// write writes the frames of messages, and that no more will come.
func (s *Syslog) write(conn *tls.Conn, all []Message) error {
	w := bufio.NewWriter(conn)
	for i := range all {
		text := all[i].syslog(s.Host)
		if _, err := fmt.Fprintf(w, "%d %s", len(text), text); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return conn.CloseWrite()
}

// awaitEnd waits until the receiver answers that it has read everything.
func (s *Syslog) awaitEnd(conn *tls.Conn, raw *watchedConn) error {
	n, err := io.Copy(io.Discard, io.LimitReader(conn, maxUnasked))
	switch {
	case err != nil:
		return err
	case n == maxUnasked:
		return errors.New("the receiver says more than a receiver of syslog does")
	case s.EndIsEnough:
		return nil
	case raw.hasEnded:
		return errors.New("the receiver has ended the connection without a close_notify of TLS: it may have lost messages" +
			" (for a receiver that never sends one, set siem.confirmation to end)")
	}
	if tcp, ok := raw.Conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // a receiver may wait for it
	}
	// with something unread the receiver resets the connection
	_, err = io.Copy(io.Discard, io.LimitReader(raw, maxUnasked))
	return err
}

// syslog returns the message in the form of RFC 5424.
func (m *Message) syslog(host string) []byte {
	priority, link, at := entryPriority, "link", "-"
	if m.Chain == JournalChain {
		priority, link = sealPriority, "hash"
	}
	if m.Fault != "" {
		priority = faultPriority
	}
	if !m.At.IsZero() {
		at = m.At.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	text := fmt.Appendf(nil, "<%d>1 %s %s %s - %s [%s", priority, at, printable(host, maxHostname), application,
		printable(m.Event, maxMessage), structureID)
	for _, f := range append([]Field{
		{"chain", m.Chain}, {"number", strconv.FormatInt(m.Number, 10)}, {link, hex.EncodeToString(m.Link)},
		{"fault", m.Fault}, {"action", m.Event},
	}, m.Fields...) {
		if f.Value != "" {
			text = fmt.Appendf(text, " %s=\"%s\"", f.Name, escapeValue(f.Value))
		}
	}
	text = append(text, "] "...)
	if !isASCII(m.Line) {
		text = append(text, "\xEF\xBB\xBF"...) // says that UTF-8 follows
	}
	return append(text, m.Line...)
}

// printable returns a text as a field of the header has it: at most so many printable characters of ASCII; "-" for
// none.
func printable(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, text)
	if text == "" {
		return "-"
	}
	return text[:min(len(text), most)]
}

// escapeValue returns the value of a field of structured data: valid UTF-8 in which quotes, backslashes and closing
// brackets are escaped, without characters that a terminal obeys.
func escapeValue(value string) string {
	var b strings.Builder
	for _, r := range value {
		switch {
		case r == '"' || r == '\\' || r == ']':
			b.WriteByte('\\')
		case r < ' ' || r >= 0x7f && r < 0xa0:
			r = utf8.RuneError
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

package directory

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/directory/directorytest"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/message"
)

// An edge is what comes of a directory server's fault at a PReq.
type edge struct {
	verdict outcome
	fault   string // as ranges status shows it
	code    string // of the Erro that the directory server gets; "": none
	detail  string
}

func unanswered(fault string) edge { return edge{unreachable, fault, "", ""} }
func turnedDown(fault string) edge { return edge{refused, fault, "", ""} }

func invalid(code message.Code, element, detail string) edge {
	return edge{refused, strings.TrimSpace("PRes not valid: code " + code.String() + " " + element), code.String(), detail}
}

var (
	notRead  = edge{refused, "PRes not valid: code 101 ", "101", unreadable}
	takenIn  = edge{fresh, "", "", ""}
	preqEdge = map[string]edge{
		"black hole":                    unanswered("Connection timeout"),
		"hangs in the handshake":        unanswered("Connection timeout"),
		"closes for a handshake":        unanswered("Connection closed"),
		"resets for a handshake":        unanswered("Connection reset"),
		"plain HTTP":                    unanswered("TLS handshake failed"),
		"noise for a handshake":         unanswered("TLS handshake failed"),
		"alert for a handshake":         unanswered("TLS handshake refused"),
		"resets after the handshake":    unanswered("Connection reset"),
		"never reads":                   unanswered("Connection timeout"),
		"silent":                        unanswered("Connection timeout"),
		"closes after the message":      unanswered("Connection closed"),
		"resets after the message":      unanswered("Connection reset"),
		"half-closes after the message": unanswered("Connection closed"),
		"closes in the header":          unanswered("Connection closed"),
		"resets in the header":          unanswered("Connection reset"),
		"closes in the body":            unanswered("Connection closed"),
		"resets in the body":            unanswered("Connection reset"),
		"half-closes in the body":       unanswered("Connection closed"),
		"closes in a chunk":             unanswered("Connection closed"),
		"silent in the header":          unanswered("Connection timeout"),
		"silent in the body":            unanswered("Connection timeout"),
		"header byte by byte":           unanswered("Connection timeout"),
		"body byte by byte":             unanswered("Connection timeout"),
		"10 MiB":                        turnedDown("Answer too large"),
		"endless chunks":                turnedDown("Answer too large"),
		"gzip bomb":                     turnedDown("Answer too large"),
		"gzip":                          takenIn, // asked for, unlike with an AReq
		"no HTTP":                       unanswered("Connection failed"),
		"HTTP of the future":            unanswered("Connection failed"),
		"two lengths":                   unanswered("Connection failed"),
		"a length below zero":           unanswered("Connection failed"),
		"a chunk without a length":      unanswered("Connection failed"),
		"a header of 1 MiB":             unanswered("Connection failed"),
		"a header of 10,000 lines":      unanswered("Connection failed"),
		"endless 100 Continue":          unanswered("Connection failed"),
		"endless 103 Early Hints":       unanswered("Connection failed"),
		"HTTP 101":                      turnedDown("HTTP status 101 Switching Protocols"),
		"HTTP 503 without end":          unanswered("HTTP status 503 Service Unavailable"),
		"HTTP 500 with a good answer":   unanswered("HTTP status 500 Internal Server Error"),
		"a length too short":            notRead,
		"nothing":                       notRead,
		"garbage":                       notRead,
		"HTML":                          notRead,
		"half of a good one":            notRead,
		"UTF-16":                        notRead,
		"two messages":                  notRead,
		"an array":                      notRead,
		"a byte order mark":             notRead,
		"500 deep":                      notRead,

		"a member twice":               invalid(message.Duplicate, "dsTransID", "dsTransID"),
		"another messageType":          {refused, "PRes not valid: code 101 ", "101", wrongType},
		"unknown messageType":          {refused, "PRes not valid: code 101 ", "101", unknownType},
		"unknown messageVersion":       invalid(message.UnsupportedVersion, "messageVersion", "the versions spoken there"),
		"foreign threeDSServerTransID": invalid(message.UnknownTransaction, "threeDSServerTransID", "threeDSServerTransID"),
		"Erro":                         turnedDown("the directory server answered with an Erro of code 403"),

		"certificate: self-signed":          unanswered("Certificate of the directory server is not trusted"),
		"certificate: of another authority": unanswered("Certificate of the directory server is not trusted"),
		"certificate: expired":              unanswered("Certificate of the directory server is not valid at this time"),
		"certificate: not yet valid":        unanswered("Certificate of the directory server is not valid at this time"),
		"certificate: for another host":     unanswered("Certificate of the directory server is for another host"),
		"certificate: for clients":          unanswered("Certificate of the directory server is not trusted"),
		"certificate: TLS 1.1":              unanswered("TLS handshake refused"),
		"certificate: refuses ours":         unanswered("TLS handshake refused"),

		"redirect 301": turnedDown("HTTP status 301 Moved Permanently"),
		"redirect 302": turnedDown("HTTP status 302 Found"),
		"redirect 307": turnedDown("HTTP status 307 Temporary Redirect"),
		"redirect 308": turnedDown("HTTP status 308 Permanent Redirect"),
		"HTTP 201":     turnedDown("HTTP status 201 Created"),
		"HTTP 400":     turnedDown("HTTP status 400 Bad Request"),
		"HTTP 401":     turnedDown("HTTP status 401 Unauthorized"),
		"HTTP 403":     turnedDown("HTTP status 403 Forbidden"),
		"HTTP 404":     turnedDown("HTTP status 404 Not Found"),
		"HTTP 408":     turnedDown("HTTP status 408 Request Timeout"),
		"HTTP 413":     turnedDown("HTTP status 413 Request Entity Too Large"),
		"HTTP 429":     turnedDown("HTTP status 429 Too Many Requests"),
		"HTTP 500":     unanswered("HTTP status 500 Internal Server Error"),
		"HTTP 502":     unanswered("HTTP status 502 Bad Gateway"),
		"HTTP 503":     unanswered("HTTP status 503 Service Unavailable"),
		"HTTP 504":     unanswered("HTTP status 504 Gateway Timeout"),
		"HTTP 599":     unanswered("HTTP status 599"),

		"good: text/html":          takenIn,
		"good: after 100 Continue": takenIn,
		"good: HTTP/1.0":           takenIn,
		"good: and another one":    takenIn,
	}
)

// goodPRes answers a PReq of any version with the range of card.
func goodPRes(preq []byte) []byte {
	m, err := message.Parse(preq, message.Limits{})
	if err != nil {
		panic(err)
	}
	if m.Text("messageVersion") != "2.3.1" {
		return []byte(pres(m, entry))
	}
	return fmt.Appendf(nil,
		`{"messageType":"PRes","messageVersion":"2.3.1","threeDSServerTransID":%q,"dsTransID":%q,"readOrder":"01","dsProtocolVersions":["2.2.0"],`+
			`"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`,
		m.Text("threeDSServerTransID"), dsID)
}

// TestEdgesPReq has every fault of a directory server at a PReq, in every
// version: what becomes of it, an Erro where one is due, and the former
// generation of ranges in use as before unless there is a good new one.
func TestEdgesPReq(t *testing.T) {
	const limit = 700 * time.Millisecond
	ca := newAuthority(t)
	// Of each version one directory server, so that the slow ones are slow at once.
	var servers []*directorytest.Server
	for range message.Versions() {
		servers = append(servers, directorytest.Start(t, goodPRes))
	}
	for _, fault := range directorytest.Faults() {
		e, known := preqEdge[fault.Name]
		if !known {
			t.Errorf("nobody says what comes of %s", fault)
			continue
		}
		t.Run(fault.Name, func(t *testing.T) {
			var all sync.WaitGroup
			for i, version := range message.Versions() {
				h := servers[i]
				h.Play(fault)
				config := ca.client()
				config.RootCAs = x509.NewCertPool()
				h.Trusted(config.RootCAs)
				p := peerAt("visa", h.URL, config)
				p.Versions, p.MaxPRes = message.Versions()[:i+1], 1<<20
				if p.DialTimeout = 10 * time.Second; fault.Slow {
					p.PReqTimeout, p.DialTimeout = limit, limit/2
				}
				all.Go(func() { e.try(t, h, fault, version, p, limit) })
			}
			all.Wait()
		})
	}
	for _, h := range servers {
		if h.Elsewhere() {
			t.Error("a redirect was followed")
		}
	}
}

func (e edge) try(t *testing.T, h *directorytest.Server, fault directorytest.Fault, version message.Version, p Peer, limit time.Duration) {
	c, cards := newClient(t, Hooks{}, p)
	old := new(ranges.Builder)
	old.Add(otherCard, otherCard, &ranges.Info{})
	table, _ := old.Build()
	former := &ranges.Generation{Table: table}
	cards.Put("visa", former)
	r := leased(t, c)
	came, start := len(h.Told("")), time.Now()
	got := r.exchangePReq(t.Context(), 2)
	took := time.Since(start)
	if got != e.verdict || r.status.Fault != e.fault {
		t.Errorf("%v: verdict %d, fault %q; want %d, %q", version, got, r.status.Fault, e.verdict, e.fault)
	}
	if fault.Slow && took < limit*9/10 {
		t.Errorf("%v took %v", version, took)
	}
	if fresh := cards.Generation("visa") != former; fresh != (e == takenIn) || fresh != (cards.Lookup(card) != nil) || fresh == (cards.Lookup(otherCard) != nil) {
		t.Errorf("%v: another generation is in use: %t", version, fresh)
	}
	c.Close() // waits for the Erro
	told := h.Told("")[came:]
	if want := map[bool]int{true: 1}[e.code != ""]; len(told) != want {
		t.Errorf("%v: told %q, want %d", version, told, want)
	}
	if e.code == "102" {
		e.detail = versionList(versionsUpTo(version))
	}
	for _, text := range told {
		m, err := message.Parse([]byte(text), message.Limits{})
		if err != nil || m.Text("errorCode") != e.code || m.Text("errorDetail") != e.detail ||
			m.Text("errorComponent") != "S" || m.Text("messageVersion") != version.String() {
			t.Errorf("%v: told %s, want %+v", version, text, e)
		}
	}
}

// versionsUpTo returns the protocol versions up to last.
func versionsUpTo(last message.Version) []message.Version {
	all := message.Versions()
	return all[:slices.Index(all, last)+1]
}

func versionList(versions []message.Version) string {
	var all []string
	for _, v := range versions {
		all = append(all, v.String())
	}
	return strings.Join(all, ",")
}

// TestEdgesOfNames: a name that is not found, one that nobody answers for, and
// one that leads elsewhere from now on.
func TestEdgesOfNames(t *testing.T) {
	ca := newAuthority(t)
	for _, test := range []struct {
		name   string
		answer func(query []byte) []byte // of the name server; nil: none
		kind   Kind
		text   string
	}{
		{"no such name", func(query []byte) []byte {
			answer := append([]byte(nil), query...)
			answer[2], answer[3] = 0x81, 0x83 // a response, NXDOMAIN
			answer[10], answer[11] = 0, 0     // without the additional record of the query
			return answer[:len(query)-11]
		}, Connect, "Host not found"},
		{"nobody answers", nil, Timeout, "Connection timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			names, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			defer names.Close()
			wg.Go(func() {
				query := make([]byte, 1500)
				for {
					n, from, err := names.ReadFrom(query)
					if err != nil {
						return
					}
					if test.answer != nil {
						names.WriteTo(test.answer(query[:n]), from)
					}
				}
			})
			p := peerAt("visa", "https://ds.invalid", ca.client())
			if test.kind == Timeout {
				p.Timeout, p.DialTimeout = time.Second, 600*time.Millisecond
			}
			c, _ := newClient(t, Hooks{}, p)
			// The resolver goes on when nobody waits any more: its sockets end with the test.
			asking, end := context.WithCancel(context.Background())
			defer end()
			c.peers["visa"].dialer.net.Resolver = &net.Resolver{PreferGo: true, Dial: func(_ context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				conn, err := d.DialContext(asking, "udp", names.LocalAddr().String())
				if err == nil {
					context.AfterFunc(asking, func() { conn.Close() })
				}
				return conn, err
			}}
			_, failed := send(t, c, "visa")
			if failed == nil || failed.Kind != test.kind || failed.Text != test.text {
				t.Errorf("%+v, want %v", failed, test.kind)
			}
		})
	}
}

// TestEdgeNobodyThere: at an address where nobody listens a PReq leaves the
// ranges as they are, too.
func TestEdgeNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	ca := newAuthority(t)
	c, cards := newClient(t, Hooks{}, peerAt("visa", "https://"+l.Addr().String(), ca.client()))
	former := new(ranges.Generation)
	cards.Put("visa", former)
	r := newRefresher(c, c.peers["visa"])
	if v := r.exchangePReq(t.Context(), 2); v != unreachable || r.status.Fault != "Connection refused" || cards.Generation("visa") != former {
		t.Errorf("verdict %d, fault %q", v, r.status.Fault)
	}
}

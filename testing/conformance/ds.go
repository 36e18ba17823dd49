package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A request is what a directory server received, byte for byte.
type request struct {
	at      time.Time
	method  string
	path    string
	proto   string
	header  http.Header
	length  int64 // Content-Length, -1 if there was none
	chunked bool
	body    []byte
	tls     tls.ConnectionState
	peer    string // address of the other side, one for each connection
	o       object // the body, nil if it is no JSON object
	typ     string // its messageType
	id      string // its threeDSServerTransID
}

// A reply is what a directory server answers.
type reply struct {
	status int // 0: 200
	header http.Header
	body   []byte
	silent bool   // no answer while the other side waits
	ended  func() // with silent: called when the other side has given up
	cut    bool   // the connection is closed instead of an answer
}

// A ds is a directory server under control.
type ds struct {
	scheme string
	ca     *authority // signs its server and client certificates, and the server's client certificate
	url    string
	server *http.Server
	client *http.Client // as the DS, towards the results listener

	mu      sync.Mutex
	got     []*request
	hellos  []*tls.ClientHelloInfo
	dials   []time.Time // when each connection came, also those that were cut
	cut     int         // how many connections are still to be cut before the handshake
	ranges  []cardRange
	scripts map[string]func(*request) reply // by threeDSServerTransID
	toPReq  func(*request) reply            // nil: the ranges
}

// A cardRange enrolls the cards of 16 digits that begin with a prefix.
type cardRange struct {
	prefix    string   // six digits
	from, to  string   // versions of the ACS
	methodURL string   // none if empty
	info      []string // acsInfoInd
}

// usualRanges are the ranges of a directory server unless a check says otherwise. Cards
// that begin with 400006 are in no range.
var usualRanges = map[string][]cardRange{"visa": {
	{prefix: "400000", from: v210, to: v231},
	{prefix: "400001", from: v210, to: v231, methodURL: "https://acs.example/method"},
	{prefix: "400002", from: v210, to: v210},
	{prefix: "400003", from: v220, to: v220},
	{prefix: "400004", from: v231, to: v231},
	{prefix: "400005", from: v210, to: v220},
	{prefix: "400007", from: v231, to: v231, info: []string{"01", "07"}}, // the issuer knows SPC
}, "mastercard": {
	{prefix: "510000", from: v210, to: v231},
}}

// newDS makes a directory server. change, unless nil, may change its TLS before it
// listens.
func newDS(scheme string, change func(*ds, *tls.Config)) *ds {
	d := &ds{scheme: scheme, ca: newAuthority(scheme + " CA"), ranges: usualRanges[scheme], scripts: make(map[string]func(*request) reply)}
	config := &tls.Config{
		Certificates: []tls.Certificate{d.ca.issue("ds." + scheme + ".example")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: d.ca.pool(),
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.hellos = append(d.hellos, hello)
			return nil, nil
		},
	}
	if change != nil {
		change(d, config)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	panicOnError(err)
	d.url = "https://" + l.Addr().String() + "/"
	d.server = &http.Server{Handler: d, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: stepTimeout}
	go func() { _ = d.server.Serve(tls.NewListener(cutter{l, d}, config)) }()
	return d
}

// connect gives the directory server its client, which trusts the CA of the
// results listener.
func (d *ds) connect(results *authority) {
	d.client = clientOf(results.pool(), d.ca.issue("rreq."+d.scheme+".example"))
}

func clientOf(roots *x509.CertPool, certs ...tls.Certificate) *http.Client {
	return &http.Client{
		Timeout:   stepTimeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certs}, MaxIdleConnsPerHost: 8, IdleConnTimeout: idleTimeout},
	}
}

func (d *ds) close() {
	_ = d.server.Close()
	if d.client != nil {
		d.client.CloseIdleConnections()
	}
}

// A cutter is a listener that closes the connections that are to be cut.
type cutter struct {
	net.Listener
	d *ds
}

func (c cutter) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c.d.mu.Lock()
		c.d.dials = append(c.d.dials, time.Now())
		cut := c.d.cut > 0
		if cut {
			c.d.cut--
		}
		c.d.mu.Unlock()
		if !cut {
			return conn, nil
		}
		_ = conn.Close()
	}
}

func (d *ds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	q := &request{
		at: time.Now(), method: r.Method, path: r.URL.Path, proto: r.Proto, header: r.Header.Clone(), length: r.ContentLength,
		chunked: slices.Contains(r.TransferEncoding, "chunked"), body: body, peer: r.RemoteAddr, o: read(body),
	}
	if r.TLS != nil {
		q.tls = *r.TLS
	}
	q.typ, q.id = q.o.text("messageType"), q.o.text("threeDSServerTransID")
	d.mu.Lock()
	d.got = append(d.got, q)
	d.mu.Unlock()
	say := d.answerFor(q)
	switch {
	case say.silent:
		<-r.Context().Done()
		if say.ended != nil {
			say.ended()
		}
		return
	case say.cut:
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	for name, values := range say.header {
		w.Header()[name] = values
	}
	if say.status != 0 {
		w.WriteHeader(say.status)
	}
	_, _ = w.Write(say.body)
}

// answerFor is the answer to a request: what a check has asked for, else a legal one.
func (d *ds) answerFor(q *request) reply {
	d.mu.Lock()
	toPReq, script := d.toPReq, d.scripts[q.id]
	d.mu.Unlock()
	switch {
	case q.typ == "PReq" && toPReq != nil:
		return toPReq(q)
	case script != nil:
		return script(q)
	case q.typ == "AReq":
		return reply{body: aresTo(q.o, "Y").bytes()}
	case q.typ == "PReq":
		return reply{body: d.pres(q.o).bytes()}
	}
	return reply{}
}

// pres is a legal answer to a PReq, with all ranges.
func (d *ds) pres(preq object) object {
	d.mu.Lock()
	defer d.mu.Unlock()
	return presOf(preq, d.ranges)
}

func presOf(preq object, ranges []cardRange) object {
	version := preq.text("messageVersion")
	o := object{
		"messageType": "PRes", "messageVersion": version, "threeDSServerTransID": preq["threeDSServerTransID"],
		"dsTransID": newID(), "serialNum": "1",
	}
	var data []any
	for _, r := range ranges {
		if version == v231 {
			data = append(data, r.object231())
		} else {
			data = append(data, r.object220(version))
		}
	}
	o["cardRangeData"] = data
	if version == v231 {
		o["dsProtocolVersions"], o["readOrder"] = allVersions, "01"
	} else {
		o["dsStartProtocolVersion"], o["dsEndProtocolVersion"] = v210, v231
	}
	return plain(o).(object)
}

func (r cardRange) first() string { return r.prefix + "0000000000" }
func (r cardRange) last() string  { return r.prefix + "9999999999" }

// object220 is the range as it is written before 2.3.1.
func (r cardRange) object220(version string) object {
	o := object{"startRange": r.first(), "endRange": r.last(), "acsStartProtocolVersion": r.from, "acsEndProtocolVersion": r.to}
	if r.methodURL != "" {
		o["threeDSMethodURL"] = r.methodURL
	}
	if len(r.info) > 0 && version == v220 && r.from <= v220 {
		o["acsInfoInd"] = r.info
	}
	return o
}

// object231 is the range as it is written in 2.3.1.
func (r cardRange) object231() object {
	var versions []any
	for _, v := range allVersions {
		if v < r.from || v > r.to {
			continue
		}
		o := object{"version": v, "acsInfoInd": []string{"01"}}
		if len(r.info) > 0 {
			o["acsInfoInd"] = r.info
		}
		if r.methodURL != "" {
			o["threeDSMethodURL"] = r.methodURL
		}
		versions = append(versions, o)
	}
	return object{"ranges": []object{{"start": r.first(), "end": r.last()}}, "acsProtocolVersions": versions}
}

// requests are the messages of a type that came, those with an id or, if it is empty,
// all.
func (d *ds) requests(messageType, id string) []*request {
	d.mustExist()
	d.mu.Lock()
	defer d.mu.Unlock()
	var got []*request
	for _, q := range d.got {
		if q.typ == messageType && (id == "" || q.id == id) {
			got = append(got, q)
		}
	}
	return got
}

// connections are the times at which connections came, also those that were cut.
func (d *ds) connections() []time.Time {
	d.mustExist()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.dials)
}

// script makes f answer every message with an id.
func (d *ds) script(id string, f func(*request) reply) {
	d.mustExist()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.scripts[id] = f
}

// setPReqAnswer makes f answer every PReq.
func (d *ds) setPReqAnswer(f func(*request) reply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.toPReq = f
}

// An answer is what came back from the server under test.
type answer struct {
	status int
	header http.Header
	body   []byte
	o      object // nil if the body is no JSON object
	proto  string
	framed bool // it says where it ends: by Content-Length, chunks, or HTTP/2
}

// post sends a message as the directory server.
func (d *ds) post(url string, body []byte) (*answer, error) {
	d.mustExist()
	return post(d.client, url, nil, body)
}

// mustExist ends the check if there is no such directory server: that of a remote server is
// not ours.
func (d *ds) mustExist() {
	if d == nil {
		panic(outOfReach{})
	}
}

// post sends a body; header replaces the usual Content-Type.
func post(c *http.Client, url string, header http.Header, body []byte) (*answer, error) {
	return send(c, http.MethodPost, url, header, body)
}

func send(c *http.Client, method, url string, header http.Header, body []byte) (*answer, error) {
	return sendFor(context.Background(), c, method, url, header, body)
}

// sendFor is send by a client that gives up when a context ends.
func sendFor(ctx context.Context, c *http.Client, method, url string, header http.Header, body []byte) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	for name, values := range header {
		req.Header[name] = values
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	return &answer{
		status: res.StatusCode, header: res.Header, body: data, o: read(data), proto: res.Proto,
		framed: res.ContentLength >= 0 || slices.Contains(res.TransferEncoding, "chunked") || res.ProtoMajor > 1,
	}, nil
}

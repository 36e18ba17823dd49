package ranges

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/peers/directory/directorytest"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// An edge is what comes of a directory server's fault: at /auth, and by /enrolled.
type edge struct {
	code, detail string // of the Erro; code 405 where it is empty
	kind         string // errorMessageType; "": AReq where the code is 405, else ARes; "-": none
	told         bool   // the directory server gets an Erro of the same code
	relayed      bool   // the words are the directory server's
	good         bool   // it is no fault
}

// edges are the faults of directorytest and what each comes to.
var edges = map[string]edge{
	"black hole":                    {detail: "Connection timeout"},
	"hangs in the handshake":        {detail: "Connection timeout"},
	"closes for a handshake":        {detail: "Connection closed"},
	"resets for a handshake":        {detail: "Connection reset"},
	"plain HTTP":                    {detail: "TLS handshake failed"},
	"noise for a handshake":         {detail: "TLS handshake failed"},
	"alert for a handshake":         {detail: "TLS handshake refused"},
	"resets after the handshake":    {detail: "Connection reset"},
	"never reads":                   {detail: "Connection timeout"},
	"silent":                        {detail: "Connection timeout"},
	"closes after the message":      {detail: "Connection closed"},
	"resets after the message":      {detail: "Connection reset"},
	"half-closes after the message": {detail: "Connection closed"},
	"closes in the header":          {detail: "Connection closed"},
	"resets in the header":          {detail: "Connection reset"},
	"closes in the body":            {detail: "Connection closed"},
	"resets in the body":            {detail: "Connection reset"},
	"half-closes in the body":       {detail: "Connection closed"},
	"closes in a chunk":             {detail: "Connection closed"},
	"silent in the header":          {detail: "Connection timeout"},
	"silent in the body":            {detail: "Connection timeout"},
	"header byte by byte":           {detail: "Connection timeout"},
	"body byte by byte":             {detail: "Connection timeout"},
	"10 MiB":                        {detail: "Answer too large"},
	"endless chunks":                {detail: "Answer too large"},
	"gzip bomb":                     unreadable,
	"gzip":                          unreadable,
	"no HTTP":                       {detail: "Connection failed"},
	"HTTP of the future":            {detail: "Connection failed"},
	"two lengths":                   {detail: "Connection failed"},
	"a length below zero":           {detail: "Connection failed"},
	"a chunk without a length":      {detail: "Connection failed"},
	"a header of 1 MiB":             {detail: "Connection failed"},
	"a header of 10,000 lines":      {detail: "Connection failed"},
	"endless 100 Continue":          {detail: "Connection failed"},
	"endless 103 Early Hints":       {detail: "Connection failed"},
	"HTTP 101":                      {detail: "HTTP status 101 Switching Protocols"},
	"HTTP 503 without end":          {detail: "HTTP status 503 Service Unavailable"},
	"HTTP 500 with a good answer":   {detail: "HTTP status 500 Internal Server Error"},
	"a length too short":            unreadable,
	"nothing":                       unreadable,
	"garbage":                       unreadable,
	"HTML":                          unreadable,
	"half of a good one":            unreadable,
	"UTF-16":                        unreadable,
	"two messages":                  unreadable,
	"an array":                      unreadable,
	"a byte order mark":             unreadable,
	"500 deep":                      unreadable,

	"a member twice":               {code: "204", detail: "dsTransID", told: true},
	"another messageType":          {code: "101", detail: "Invalid Message for the receiving component", kind: "CRes", told: true},
	"unknown messageType":          {code: "101", detail: "Invalid Message Type", kind: "-", told: true},
	"unknown messageVersion":       {code: "102", detail: rig.VersionList, told: true},
	"foreign threeDSServerTransID": {code: "301", detail: "threeDSServerTransID", told: true},
	"Erro":                         {code: "403", detail: "more of them", kind: "-", relayed: true},

	"certificate: self-signed":          {detail: "Certificate of the directory server is not trusted"},
	"certificate: of another authority": {detail: "Certificate of the directory server is not trusted"},
	"certificate: expired":              {detail: "Certificate of the directory server is not valid at this time"},
	"certificate: not yet valid":        {detail: "Certificate of the directory server is not valid at this time"},
	"certificate: for another host":     {detail: "Certificate of the directory server is for another host"},
	"certificate: for clients":          {detail: "Certificate of the directory server is not trusted"},
	"certificate: TLS 1.1":              {detail: "TLS handshake refused"},
	"certificate: refuses ours":         {detail: "TLS handshake refused"},

	"redirect 301": {detail: "HTTP status 301 Moved Permanently"},
	"redirect 302": {detail: "HTTP status 302 Found"},
	"redirect 307": {detail: "HTTP status 307 Temporary Redirect"},
	"redirect 308": {detail: "HTTP status 308 Permanent Redirect"},
	"HTTP 201":     {detail: "HTTP status 201 Created"},
	"HTTP 400":     {detail: "HTTP status 400 Bad Request"},
	"HTTP 401":     {detail: "HTTP status 401 Unauthorized"},
	"HTTP 403":     {detail: "HTTP status 403 Forbidden"},
	"HTTP 404":     {detail: "HTTP status 404 Not Found"},
	"HTTP 408":     {detail: "HTTP status 408 Request Timeout"},
	"HTTP 413":     {detail: "HTTP status 413 Request Entity Too Large"},
	"HTTP 429":     {detail: "HTTP status 429 Too Many Requests"},
	"HTTP 500":     {detail: "HTTP status 500 Internal Server Error"},
	"HTTP 502":     {detail: "HTTP status 502 Bad Gateway"},
	"HTTP 503":     {detail: "HTTP status 503 Service Unavailable"},
	"HTTP 504":     {detail: "HTTP status 504 Gateway Timeout"},
	"HTTP 599":     {detail: "HTTP status 599"},

	"good: text/html":          {good: true},
	"good: after 100 Continue": {good: true},
	"good: HTTP/1.0":           {good: true},
	"good: and another one":    {good: true},
}

// unreadable is an answer that is no message.
var unreadable = edge{code: "101", detail: "Invalid Formatted Message", kind: "-", told: true}

// expected is the Erro of an edge at /auth.
func (e edge) expected(version, transID string) rig.Expected {
	want := rig.Expected{Code: e.code, Detail: e.detail, Msg: e.kind, Version: version, TransID: transID, Description: "Invalid response from Directory Server"}
	if e.code == "" {
		want.Code, want.Description, want.Msg = "405", "Unable to contact Directory Server", "AReq"
	}
	if want.Msg == "" {
		want.Msg = "ARes"
	}
	if e.relayed {
		want.Component, want.Description = "D", "words of the directory"
	}
	return want
}

// edgeLimit is the time limit where only that ends a fault. For all others it is
// the real one, which is far away on a busy machine too.
const edgeLimit = 3 * time.Second

// hostile puts a directory server with faults in the place of the one that
// takes AReqs. Card ranges still come from the other.
func hostile(t *testing.T, p *rig.Plan) *directorytest.Server {
	t.Helper()
	h := directorytest.Start(t, func(message []byte) []byte {
		var areq rig.Object
		if err := json.Unmarshal(message, &areq); err != nil {
			panic(err)
		}
		return rig.Marshal(rig.ARes(areq, "Y"))
	})
	before := p.Change
	p.Change = func(cfg *server.Config) {
		if before != nil {
			before(cfg)
		}
		cfg.Peers[0].AReqURL = h.URL + "/"
		h.Trusted(cfg.Peers[0].TLS.RootCAs)
	}
	return h
}

// TestEdges has every fault of a directory server at /auth, in every version: the
// exact answer, no second AReq, an Erro where one is due, a transaction that is
// over, and a server that is none the worse for it.
func TestEdges(t *testing.T) {
	t.Parallel()
	var faults [][]directorytest.Fault // in each group the faults that come one after the other
	var quick []directorytest.Fault
	for _, fault := range directorytest.Faults() {
		if fault.Slow {
			faults = append(faults, []directorytest.Fault{fault})
		} else {
			quick = append(quick, fault)
		}
	}
	t.Run("all", func(t *testing.T) {
		for _, group := range append(faults, quick) {
			t.Run(group[0].Name, func(t *testing.T) {
				t.Parallel() // The slow ones do nothing but wait.
				facesFaults(t, group)
			})
		}
	})
}

// facesFaults has faults of one directory server at one site, whose time limits are short if they are slow.
func facesFaults(t *testing.T, faults []directorytest.Fault) {
	plan := rig.Plan{Sections: "limits: {breaker: false, per_key: 10000/s}"}
	if faults[0].Slow {
		plan.Change = func(cfg *server.Config) {
			cfg.Timeouts.Authentication = edgeLimit
			cfg.Peers[0].Timeout, cfg.Peers[0].DialTimeout = edgeLimit, edgeLimit/2
		}
	}
	h := hostile(t, &plan)
	ca := rig.NewAuthority(t)
	site := rig.StartSite(t, ca, rig.NewWire(t, ca), plan)
	versions := []string{"2.1.0", "2.2.0", "2.3.1"}
	told := make(map[string]edge) // by threeDSServerTransID
	cases := 0
	for _, fault := range faults {
		e, known := edges[fault.Name]
		if !known {
			t.Errorf("nobody says what comes of %s", fault)
			continue
		}
		t.Run(fault.Name, func(t *testing.T) {
			s := site.In(t)
			h.Play(fault)
			var reqs []rig.Object
			var ids []string
			for _, version := range versions {
				req := s.Request(version)
				id := req.Text("threeDSServerTransID")
				told[id] = e
				reqs, ids = append(reqs, req), append(ids, id)
				cases++
			}
			var all sync.WaitGroup
			for i, version := range versions {
				all.Go(func() { checkEdge(s, h, fault, e, version, ids[i], reqs[i]) })
			}
			all.Wait()
			for _, id := range ids { // or the end of the fault would end the connection under an Erro
				waittest.Until(t, "the Erro", func() bool { return !e.told || len(h.Told(id)) > 0 })
			}
			h.Play(directorytest.Fault{})
			for range 2 {
				if code, got := s.Post("/auth", s.Request("2.2.0")); code != 200 && !fault.Slow { // those have little time
					t.Errorf("a good /auth after that: %d %v", code, got)
				}
			}
		})
	}
	if h.Elsewhere() {
		t.Error("a redirect was followed")
	}
	if err := site.Stop(); err != nil { // after that no Erro is on its way
		t.Fatal(err)
	}
	if strings.Contains(site.Log.String(), "AAABBCJZUwAAAAAAUFlTAAAAAAA=") {
		t.Error("the log has the authentication value of an answer")
	}
	for id, e := range told {
		got := h.Told(id)
		if want := map[bool]int{true: 1}[e.told]; len(got) != want {
			t.Errorf("%d Erros for %s after %+v, want %d", len(got), id, e, want)
		}
		for _, text := range got {
			var erro rig.Object
			if err := json.Unmarshal([]byte(text), &erro); err != nil || erro.Text("errorCode") != e.code ||
				erro.Text("errorDetail") != e.detail || erro.Text("errorComponent") != "S" {
				t.Errorf("told %s of %+v", text, e)
			}
		}
	}
	t.Logf("%d cases", cases)
}

// edge makes one /auth against a fault.
func checkEdge(s *rig.Site, h *directorytest.Server, fault directorytest.Fault, e edge, version, id string, req rig.Object) {
	t := s.T
	start := time.Now()
	code, got := s.Post("/auth", req)
	took := time.Since(start)
	if fault.Slow && took < edgeLimit*9/10 { // TestEdgesInTime shows that it takes no longer.
		t.Errorf("%s took %v", version, took)
	}
	state := rig.Expected{Code: "203", Description: "Unknown threeDSServerTransID", Detail: "Unknown threeDSServerTransID"}
	if e.good {
		if code != 200 || got.Text("transStatus") != "Y" || got.Text("threeDSServerTransID") != id {
			t.Errorf("%s: %d %v", version, code, got)
		}
		state.Detail = "No challenge took place, the result is in the ARes"
	} else {
		e.expected(version, id).Check(t, code, got)
	}
	if fault.Slow {
		s.Spent(id)
	}
	s.Refused("/postauth", rig.Object{"threeDSServerTransID": id}, state)
	s.Refused("/auth", req, rig.Expected{Code: "301", Description: "No transaction found", TransID: id, Version: version})
	want := 1
	if fault.Raw != nil || fault.Early != nil || fault.Certificate != "" {
		want = 0
	}
	if n := h.Got(id); n > want || n < want && !fault.Slow { // a slow machine may not send it within the limit
		t.Errorf("%s: %d AReqs came, want %d", version, n, want)
	}
}

// lastAnswer is a good answer after which the connection ends. So the first try of the next case never goes to a
// connection that the server has closed meanwhile, where it would not be counted.
var lastAnswer = directorytest.Fault{Answer: func(c *directorytest.Session, good []byte) bool {
	c.Respond(http.StatusOK, http.Header{"Connection": {"close"}}, good)
	return false
}}

// TestEdgesV1 has the same faults, as far as they are none of JSON, at /enrolled.
// A VEReq is a question: it is asked again where a connection failed or the
// answer was a status of 5xx, and still the whole is bounded.
func TestEdgesV1(t *testing.T) {
	t.Parallel()
	h := directorytest.Start(t, func(message []byte) []byte {
		id, _, _ := strings.Cut(strings.SplitN(string(message), `<Message id="`, 2)[1], `"`)
		return fmt.Appendf(nil, `<ThreeDSecure><Message id="%s"><VERes><version>1.0.2</version><CH><enrolled>N</enrolled></CH></VERes></Message></ThreeDSecure>`, id)
	})
	s := rig.StartLegacy(t, rig.Plan{Change: func(cfg *server.Config) {
		for i := range cfg.V1Peers {
			p := &cfg.V1Peers[i]
			p.URL, p.AlwaysTry = h.URL+"/", true
			if h.Trusted(p.TLS.RootCAs); p.Scheme == "mastercard" { // has little time
				p.Timeout, p.DialTimeout = edgeLimit, edgeLimit/2
			}
		}
	}})
	var told int
	for _, fault := range directorytest.Faults() {
		if fault.JSON {
			continue
		}
		t.Run(fault.Name, func(t *testing.T) {
			s, e := s.In(t), edges[fault.Name]
			h.Play(fault)
			asked, start := h.Got(""), time.Now()
			card, eci := rig.V1Visa, "7"
			if fault.Slow {
				card, eci = rig.V1Mastercard, "0"
			}
			code, got := s.Form("/enrolled", rig.Purchase(card))
			took := time.Since(start)
			if fault.Slow && took < edgeLimit*9/10 {
				t.Errorf("took %v", took)
			}
			if e.good {
				if code != 200 || got.Text("enrolled") != "N" || got["error"] != nil {
					t.Errorf("%d %v", code, got)
				}
			} else {
				detail := e.detail
				if e.told {
					told++
					detail = "Invalid response from the directory server"
				}
				message, is := rig.WantTrouble(t, code, got, eci)
				if message != "Directory server timeout or connection error" || is != detail {
					t.Errorf("%q, %q, want %q", message, is, detail)
				}
			}
			want := 1
			switch {
			case fault.Raw != nil || fault.Early != nil || fault.Certificate != "":
				want = 0
			case strings.HasPrefix(e.detail, "HTTP status 5"), !fault.Slow && strings.HasPrefix(e.detail, "Connection "):
				want = 2
			}
			if n := h.Got("") - asked; n > want || n < want && !fault.Slow { // a slow machine may not ask within the limit
				t.Errorf("asked %d times, want %d", n, want)
			}
			waittest.Until(t, "the Error", func() bool { return len(h.Told("")) >= told })
			h.Play(lastAnswer)
			if _, got := s.Form("/enrolled", rig.Purchase(rig.V1Visa)); got.Text("enrolled") != "N" {
				t.Errorf("a good one after that: %v", got)
			}
		})
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(h.Told("")); n != told || h.Elsewhere() {
		t.Errorf("%d Errors came, want %d; a redirect was followed: %t", n, told, h.Elsewhere())
	}
}

// names in the table that no fault has would be forgotten otherwise.
func TestEdgesAreFaults(t *testing.T) {
	t.Parallel()
	left := maps.Clone(edges)
	for _, fault := range directorytest.Faults() {
		delete(left, fault.Name)
	}
	if len(left) > 0 {
		t.Errorf("no such faults: %q", slices.Sorted(maps.Keys(left)))
	}
}

// TestEdgesInTime has the faults that only a time limit ends, with the limits
// that a server has when nobody sets any: an answer after 10 s. At a server with a
// limit of a minute, which is asked before, the same request still waits then.
// Meanwhile /preauth is answered as ever.
func TestEdgesInTime(t *testing.T) {
	t.Parallel()
	for _, fault := range directorytest.Faults() {
		if !fault.Slow {
			continue
		}
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			start := func(p rig.Plan) (*rig.Site, *directorytest.Server) {
				h, ca := hostile(t, &p), rig.NewAuthority(t)
				s := rig.StartSite(t, ca, rig.NewWire(t, ca), p)
				h.Play(fault)
				return s, h
			}
			patient, h := start(rig.Plan{Change: func(cfg *server.Config) { cfg.Peers[0].DialTimeout = time.Minute }})
			s, _ := start(rig.Plan{OwnLimits: true})
			control, cancel := context.WithCancel(t.Context())
			hungUp := waitAtAuth(control, patient)
			over := make(chan struct{})
			go func() {
				defer close(over)
				req := s.Request("2.2.0")
				begin := time.Now()
				code, got := s.Post("/auth", req)
				if took := time.Since(begin); took < 9900*time.Millisecond {
					t.Errorf("it took %v, want 10 s", took)
				}
				edges[fault.Name].expected("2.2.0", req.Text("threeDSServerTransID")).Check(t, code, got)
			}()
			waittest.Until(t, "the answer", func() bool {
				if code, got := s.Post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN}); code != 200 {
					t.Errorf("/preauth: %d %v", code, got)
				}
				select {
				case <-over:
					return true
				case <-time.After(100 * time.Millisecond): // the pace of these requests
					return false
				}
			})
			select {
			case <-hungUp:
				t.Error("it took as long as with a limit of a minute")
			default:
			}
			cancel()
			<-hungUp
			h.Play(directorytest.Fault{}) // else the site would end with the request in work
		})
	}
}

// waitAtAuth sends an /auth, and closes the channel that it returns when the request has ended.
func waitAtAuth(ctx context.Context, s *rig.Site) <-chan struct{} {
	s.T.Helper()
	ended := make(chan struct{})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.API+"/auth", bytes.NewReader(rig.Marshal(s.Request("2.2.0"))))
	rig.Must(s.T, err)
	req.Header.Set("APIKey", s.APIKey)
	go func() {
		defer close(ended)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	return ended
}

// TestEdgeBreaker: a directory server that resets every connection is soon not
// asked any more but now and then, which log and metrics tell; /preauth goes on,
// and the first answer ends it.
func TestEdgeBreaker(t *testing.T) {
	t.Parallel()
	var p rig.Plan
	h := hostile(t, &p)
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), p)
	open := func() bool {
		text := s.Exposed()
		if !strings.Contains(text, `threeds_directory_open{message="AReq",scheme="visa"} `) {
			t.Fatal("the metric is not there")
		}
		return strings.Contains(text, `threeds_directory_open{message="AReq",scheme="visa"} 1`)
	}
	if open() {
		t.Error("open from the start")
	}
	for _, fault := range directorytest.Faults() {
		if fault.Name == "resets for a handshake" {
			h.Play(fault)
		}
	}
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	try := func() (code int) {
		<-pace.C
		req := s.Request("2.2.0")
		code, got := s.Post("/auth", req)
		if code != 200 {
			rig.Expected{Code: "405", Description: "Unable to contact Directory Server", Detail: "Connection reset", Msg: "AReq",
				TransID: req.Text("threeDSServerTransID"), Version: "2.2.0"}.Check(t, code, got)
		}
		return code
	}
	start := time.Now()
	waittest.Until(t, "the breaker to open", func() bool {
		try()
		return open()
	})
	if took := time.Since(start); took < 5*time.Second {
		t.Errorf("open after %v", took)
	}
	const refused = `threeds_directory_requests_total{message="AReq",outcome="open",scheme="visa"}`
	waittest.Until(t, "a request that is refused at once", func() bool { // some still go out, to see
		try()
		return strings.Contains(s.Exposed(), refused)
	})
	h.Play(directorytest.Fault{})
	waittest.Until(t, "an answer", func() bool { return try() == 200 })
	if open() {
		t.Error("still open after an answer")
	}
	for _, line := range []string{"directory cannot be reached, requests are refused immediately", "directory can be reached again"} {
		if n := strings.Count(s.Log.String(), line); n != 1 {
			t.Errorf("logged %d times: %s", n, line)
		}
	}
}

// TestBreakerOff: limits.breaker reaches both kinds of directories.
func TestBreakerOff(t *testing.T) {
	t.Parallel()
	for sections, want := range map[string]bool{"": false, "limits: {breaker: true}": false, "limits: {breaker: false}": true} {
		var got []bool
		rig.StartLegacy(t, rig.Plan{Sections: sections, Change: func(cfg *server.Config) {
			got = append(got, cfg.Peers[0].AlwaysTry, cfg.V1Peers[0].AlwaysTry)
		}})
		if len(got) != 2 || got[0] != want || got[1] != want {
			t.Errorf("%q: always tried: %v, want %t", sections, got, want)
		}
	}
}

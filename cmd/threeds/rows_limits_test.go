package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestG7ContentTypes(t *testing.T) {
	w := startSandbox(t)
	for _, kind := range []string{
		"application/json", "application/json; charset=utf-8", "application/json;charset=UTF-8", "text/plain", "text/html",
		"application/x-www-form-urlencoded", "multipart/form-data", "nonsense", "",
	} {
		for path, want := range map[string]int{"/preauth": 200, "/auth": 400, "/postauth": 400} {
			req, err := http.NewRequest(http.MethodPost, w.API+path, strings.NewReader(`{"acctNumber":"4000001234560103"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("APIKey", w.APIKey)
			if kind != "" {
				req.Header.Set("Content-Type", kind)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			data, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != want || want == 400 && parseObject(t, data).text("errorCode") != "201" {
				t.Errorf("%s as %q: %d %s", path, kind, res.StatusCode, data)
			}
		}
	}
}

// padded is a body of exactly n bytes that says what o says.
func padded(o object, n int) []byte {
	data := marshal(o)
	return append(data, bytes.Repeat([]byte{' '}, n-len(data))...)
}

func TestG8BodyTooLargeOrDeep(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	areq, answer := s.challenged("2.2.0")
	pending := object{"threeDSServerTransID": areq["threeDSServerTransID"]}
	const small, large = 64 << 10, 256 << 10
	for _, tt := range []struct {
		path  string
		limit int
		body  func() object
		want  int
	}{
		{"/preauth", small, func() object { return object{"acctNumber": testPAN} }, 200},
		{"/auth", large, func() object { return s.request("2.2.0") }, 200},
		{"/postauth", small, func() object { return pending }, 400},
	} {
		for _, d := range []int{-1, 0, 1} {
			t.Run(fmt.Sprintf("body of %s %+d", tt.path, d), func(t *testing.T) {
				w := &world{s.ready, t}
				code, got := w.post(tt.path, padded(tt.body(), tt.limit+d))
				if d > 0 {
					expected{status: 413, code: "101"}.check(t, code, got)
				} else if code != tt.want {
					t.Errorf("%d %v, want %d", code, got, tt.want)
				}
			})
		}
		t.Run("body of "+tt.path+" without a length", func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, s.API+tt.path, io.MultiReader(bytes.NewReader(padded(tt.body(), tt.limit+1))))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("APIKey", s.APIKey)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			data, _ := io.ReadAll(res.Body)
			expected{status: 413, code: "101"}.check(t, res.StatusCode, parseObject(t, data))
		})
	}
	t.Run("body of a result", func(t *testing.T) {
		good := rreq(areq, answer, "Y")
		if code, got, err := s.ds.post(s.results, padded(good, large+1)); err != nil || code != 413 {
			t.Errorf("%d %v %v, want 413", code, got, err)
		}
		if got := s.in(t).result(padded(good, large)); got.text("messageType") != "RRes" {
			t.Errorf("at the limit: %v", got)
		}
	})
	t.Run("depth", func(t *testing.T) {
		for depth, want := range map[int]int{9: 200, 10: 200, 11: 400} {
			body := fmt.Sprintf(`{"acctNumber":"%s","x":%s1%s}`, testPAN, strings.Repeat("[", depth-1), strings.Repeat("]", depth-1))
			code, got := (&world{s.ready, t}).post("/preauth", body)
			if code != want {
				t.Errorf("depth %d: %d %v, want %d", depth, code, got, want)
			}
			if want == 400 {
				expected{code: "203", description: "Invalid JSON"}.check(t, code, got)
			}
		}
	})
	t.Run("members", func(t *testing.T) {
		for n, want := range map[int]int{999: 200, 1000: 200, 1001: 400} {
			for name, body := range map[string]string{
				"flat":   fmt.Sprintf(`{"acctNumber":"%s"%s}`, testPAN, more(n-1)),
				"nested": fmt.Sprintf(`{"acctNumber":"%s","x":{"y":{"z":1%s}}}`, testPAN, more(n-4)),
			} {
				code, got := (&world{s.ready, t}).post("/preauth", body)
				if code != want {
					t.Errorf("%d members, %s: %d %v, want %d", n, name, code, got, want)
				}
			}
		}
	})
}

// more is n further members of an object.
func more(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":0`, i)
	}
	return b.String()
}

// ofCRD are the members that a CRD always has.
var ofCRD = []string{
	"messageType", "threeDSServerTransID", "scheme", "acsStartProtocolVersion", "acsEndProtocolVersion", "dsStartProtocolVersion",
	"dsEndProtocolVersion", "dsProtocolVersions", "acsProtocolVersions", "threeDSServerProtocolVersions",
}

func TestG9NoMembersAreAdded(t *testing.T) {
	w := startSandbox(t)
	t.Run("CRD", func(t *testing.T) {
		for _, pan := range []string{"4000001234560103", "4000001234560003", "5000001234561103", "9000100500000000", "3400001234560203"} {
			members(t, "CRD", (&world{w.ready, t}).preauth(pan), ofCRD, []string{"threeDSMethodURL", "acsInfoInd"})
		}
	})
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	t.Run("ARes", func(t *testing.T) {
		for _, v := range []string{"2.1.0", "2.2.0", "2.3.1"} {
			var sent []byte
			s.ds.setAnswer(func(areq object) (int, []byte) {
				sent = marshal(ares(areq, "Y"))
				return 200, sent
			})
			_, got := s.in(t).call(http.MethodPost, "/auth", s.APIKey, s.request(v))
			if !bytes.Equal(got, sent) {
				t.Errorf("%s: the ARes is %s, was %s", v, got, sent)
			}
		}
		s.ds.setAnswer(nil)
	})
	t.Run("RReq", func(t *testing.T) {
		areq, answer := s.in(t).challenged("2.2.0")
		sent := marshal(rreq(areq, answer, "N"))
		s.in(t).result(sent)
		_, got := s.in(t).call(http.MethodPost, "/postauth", s.APIKey, object{"threeDSServerTransID": areq["threeDSServerTransID"]})
		if !bytes.Equal(got, sent) {
			t.Errorf("the RReq is %s, was %s", got, sent)
		}
	})
	t.Run("RRes", func(t *testing.T) {
		areq, answer := s.in(t).challenged("2.2.0")
		got := s.in(t).result(marshal(rreq(areq, answer, "N")))
		members(t, "RRes", got, []string{"messageType", "messageVersion", "threeDSServerTransID", "acsTransID", "dsTransID", "resultsStatus"}, nil)
	})
	t.Run("Erro", func(t *testing.T) {
		s := s.in(t)
		bad := func(areq object) object { return ares(areq, "Y").with(object{"transStatus": "Z"}) }
		s.ds.setAnswer(func(areq object) (int, []byte) { return 200, marshal(bad(areq)) })
		s.refused("/auth", s.request("2.2.0"), expected{code: "203", msg: "ARes"})
		s.refused("/auth", app("2.2.0", testPAN, ""), expected{code: "203", msg: "ARes"})
		s.ds.setAnswer(nil)
		s.refused("/auth", object{}, expected{code: "201"})
		s.refused("/preauth", object{}, expected{code: "201"})
		s.refused("/postauth", object{}, expected{code: "201"})
		s.refused("/preauth", "x", expected{code: "203"})
	})
}

func TestG10KeysOfAMerchantShareTransactions(t *testing.T) {
	ca := newAuthority(t)
	f, p := newFaulty()
	s := startSite(t, ca, newWire(t, ca), p)
	status := func(key string) int {
		res, _ := s.call(http.MethodPost, "/preauth", key, object{"acctNumber": testPAN})
		return res.StatusCode
	}
	t.Run("works as soon as it is created", func(t *testing.T) {
		if got := status(s.key("Shop")); got != 200 {
			t.Errorf("status %d, want 200", got)
		}
	})
	t.Run("stops within 1 s of its revocation", func(t *testing.T) {
		best := time.Hour
		for range 5 { // other work on the machine is not ours to answer for
			key := s.key("Shop")
			if got := status(key); got != 200 {
				t.Fatalf("status %d, want 200", got)
			}
			s.revoke(key)
			start := time.Now()
			waitFor(t, "the key to stop", func() bool { return status(key) == 401 })
			if best = min(best, time.Since(start)); best <= time.Second {
				break
			}
		}
		if best > time.Second {
			t.Errorf("it took %v", best)
		}
		if status(s.APIKey) != 200 {
			t.Error("another key of the merchant stopped too")
		}
	})
	t.Run("all keys of a merchant see its transactions", func(t *testing.T) {
		s := s.in(t)
		crd := s.preauth(testPAN)
		second := *s.world
		second.APIKey = s.key("Shop")
		code, answer := second.post("/auth", browser("2.2.0", testPAN, crd.text("threeDSServerTransID"), "U"))
		if code != 200 {
			t.Fatalf("/auth with another key of the merchant: %d %v", code, answer)
		}
		s.refused("/postauth", object{"threeDSServerTransID": crd["threeDSServerTransID"]},
			expected{code: "203", detail: "No challenge took place, the result is in the ARes"})
	})
	t.Run("a merchant's transactions are nobody else's", func(t *testing.T) {
		s := s.in(t)
		other := *s.world
		other.APIKey = s.OtherAPIKey
		other.refused("/auth", s.request("2.2.0"), expected{code: "301"})
	})
	t.Run("unreachable store", func(t *testing.T) {
		s := s.in(t)
		fresh, made := s.unread(f), s.request("2.2.0")
		defer f.keys.Store(false)
		f.down.Store(true)
		defer f.down.Store(false)
		for _, key := range []string{fresh, "5a5a5a5a-0000-4000-8000-00000000dead"} {
			res, data := s.call(http.MethodPost, "/preauth", key, object{"acctNumber": testPAN})
			if res.StatusCode == 401 {
				t.Error("a key that cannot be looked up is called invalid")
				continue
			}
			expected{code: "403", description: "Transient system failure"}.check(t, res.StatusCode, parseObject(t, data))
		}
		if got := status(s.APIKey); got != 200 {
			t.Errorf("/preauth with a known key: %d, want 200", got)
		}
		s.refused("/auth", made, expected{code: "403", description: "Transient system failure"})
		s.refused("/postauth", object{"threeDSServerTransID": newUUID()}, expected{code: "403"})
	})
}

// version and its like are in ascending order.
func ascending(t *testing.T, crd object, name string) {
	t.Helper()
	var got []string
	for _, v := range crd[name].([]any) {
		switch v := v.(type) {
		case string:
			got = append(got, v)
		case map[string]any:
			got = append(got, v["version"].(string))
		}
	}
	if len(got) == 0 || !slices.IsSorted(got) {
		t.Errorf("%s = %v, want versions, ascending", name, got)
	}
}

// TestFewHaveHTTP2: one connection in 32 may be of HTTP/2, on each listener; those that
// come then get HTTP/1.1.
func TestFewHaveHTTP2(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca), plan{apiTLS: true, sections: "limits: {connections: 95}"})
	for listener, address := range map[string]string{"api": addressOf(t, s.API), "results": addressOf(t, s.results)} {
		for i, want := range []string{"h2", "h2", "http/1.1"} {
			c, err := tls.Dial("tcp", address, &tls.Config{
				InsecureSkipVerify: true, Certificates: []tls.Certificate{ca.issue("rreq.ds.example")}, NextProtos: []string{"h2", "http/1.1"},
			})
			must(t, err)
			defer c.Close()
			if got := c.ConnectionState().NegotiatedProtocol; got != want {
				t.Errorf("%s: connection %d has %s, want %s", listener, i+1, got, want)
			}
		}
	}
}

// TestConnections: whoever holds more connections than there may be, and sends
// next to nothing, is in nobody's way: not on the API, where it is counted, and
// not for results.
func TestConnections(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca), plan{sections: "limits: {connections: 16, wait: 10ms}"})
	areq, answer := s.challenged("2.2.0")
	results := strings.TrimSuffix(strings.TrimPrefix(s.results, "https://"), "/results")
	api := strings.TrimPrefix(s.API, "http://")
	for i := range 3 * 40 {
		sends := []struct{ address, text string }{
			{api, "POST /preauth HTTP/1.1\r\nHost: x\r\nX"},
			{api, "POST /preauth HTTP/1.1\r\nHost: x\r\nAPIKey: " + s.APIKey + "\r\nContent-Length: 99\r\n\r\n{"},
			{results, "\x16\x03\x01\x02"}, // a handshake's beginning
		}[i%3]
		c, err := net.Dial("tcp", sends.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, sends.text); err != nil {
			t.Fatal(err)
		}
	}
	// While they come, a connection that rests may be the one that has to go.
	waitFor(t, "all of them to have come", func() bool {
		return s.metrics()[`threeds_refused_total{operation="connection",reason="connections"}`] >= (2*40-16)+(40-16) // of both listeners
	})
	// A connection that is just connecting is safe for a second, those of the strangers too.
	waitFor(t, "the first second of the strangers to be over", func() bool {
		http.DefaultClient.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.API+"/preauth", strings.NewReader(`{"acctNumber": "`+testPAN+`"}`))
		must(t, err)
		req.Header.Set("APIKey", s.APIKey)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return err == nil && res.StatusCode == http.StatusOK
	})
	for range 20 {
		s.preauth(testPAN)
	}
	if got := s.result(marshal(rreq(areq, answer, "Y"))); got.text("messageType") != "RRes" {
		t.Errorf("a result: %v", got)
	}
	if got := s.through(s.request("2.2.0")); got.text("messageType") != "AReq" {
		t.Errorf("/auth: %v", got)
	}
	res, err := http.Get(s.console + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, _ := io.ReadAll(res.Body)
	for _, want := range []string{
		`threeds_refused_total{operation="connection",reason="connections"} `, `threeds_admitted_share{priority="low"} 1`, `threeds_wait_seconds{for="processor"} `, `threeds_wait_seconds{for="store"} `,
	} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

package api

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

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestG7ContentTypes(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
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
			if res.StatusCode != want || want == 400 && rig.ParseObject(t, data).Text("errorCode") != "201" {
				t.Errorf("%s as %q: %d %s", path, kind, res.StatusCode, data)
			}
		}
	}
}

func TestG8BodyTooLargeOrDeep(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	areq, answer := s.Challenged("2.2.0")
	pending := rig.Object{"threeDSServerTransID": areq["threeDSServerTransID"]}
	const small, large = 64 << 10, 256 << 10
	for _, tt := range []struct {
		path  string
		limit int
		body  func() rig.Object
		want  int
	}{
		{"/preauth", small, func() rig.Object { return rig.Object{"acctNumber": rig.EnrolledPAN} }, 200},
		{"/auth", large, func() rig.Object { return s.Request("2.2.0") }, 200},
		{"/postauth", small, func() rig.Object { return pending }, 400},
	} {
		for _, d := range []int{-1, 0, 1} {
			t.Run(fmt.Sprintf("body of %s %+d", tt.path, d), func(t *testing.T) {
				w := &rig.World{ReadyFile: s.ReadyFile, T: t}
				code, got := w.Post(tt.path, rig.PadTo(tt.body(), tt.limit+d))
				if d > 0 {
					rig.Expected{Status: 413, Code: "101"}.Check(t, code, got)
				} else if code != tt.want {
					t.Errorf("%d %v, want %d", code, got, tt.want)
				}
			})
		}
		t.Run("body of "+tt.path+" without a length", func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, s.API+tt.path, io.MultiReader(bytes.NewReader(rig.PadTo(tt.body(), tt.limit+1))))
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
			rig.Expected{Status: 413, Code: "101"}.Check(t, res.StatusCode, rig.ParseObject(t, data))
		})
	}
	t.Run("body of a result", func(t *testing.T) {
		good := rig.RReq(areq, answer, "Y")
		if code, got, err := s.Directory.Post(s.ResultsURL, rig.PadTo(good, large+1)); err != nil || code != 413 {
			t.Errorf("%d %v %v, want 413", code, got, err)
		}
		if got := s.In(t).Result(rig.PadTo(good, large)); got.Text("messageType") != "RRes" {
			t.Errorf("at the limit: %v", got)
		}
	})
	t.Run("depth", func(t *testing.T) {
		for depth, want := range map[int]int{9: 200, 10: 200, 11: 400} {
			body := fmt.Sprintf(`{"acctNumber":"%s","x":%s1%s}`, rig.EnrolledPAN, strings.Repeat("[", depth-1), strings.Repeat("]", depth-1))
			code, got := (&rig.World{ReadyFile: s.ReadyFile, T: t}).Post("/preauth", body)
			if code != want {
				t.Errorf("depth %d: %d %v, want %d", depth, code, got, want)
			}
			if want == 400 {
				rig.Expected{Code: "203", Description: "Invalid JSON"}.Check(t, code, got)
			}
		}
	})
	t.Run("members", func(t *testing.T) {
		for n, want := range map[int]int{999: 200, 1000: 200, 1001: 400} {
			for name, body := range map[string]string{
				"flat":   fmt.Sprintf(`{"acctNumber":"%s"%s}`, rig.EnrolledPAN, rig.MoreMembers(n-1)),
				"nested": fmt.Sprintf(`{"acctNumber":"%s","x":{"y":{"z":1%s}}}`, rig.EnrolledPAN, rig.MoreMembers(n-4)),
			} {
				code, got := (&rig.World{ReadyFile: s.ReadyFile, T: t}).Post("/preauth", body)
				if code != want {
					t.Errorf("%d members, %s: %d %v, want %d", n, name, code, got, want)
				}
			}
		}
	})
}

// ofCRD are the members that a CRD always has.
var ofCRD = []string{
	"messageType", "threeDSServerTransID", "scheme", "acsStartProtocolVersion", "acsEndProtocolVersion", "dsStartProtocolVersion",
	"dsEndProtocolVersion", "dsProtocolVersions", "acsProtocolVersions", "threeDSServerProtocolVersions",
}

func TestG9NoMembersAreAdded(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	t.Run("CRD", func(t *testing.T) {
		for _, pan := range []string{"4000001234560103", "4000001234560003", "5000001234561103", "9000100500000000", "3400001234560203"} {
			rig.CheckMembers(t, "CRD", (&rig.World{ReadyFile: w.ReadyFile, T: t}).Preauth(pan), ofCRD, []string{"threeDSMethodURL", "acsInfoInd"})
		}
	})
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	t.Run("ARes", func(t *testing.T) {
		for _, v := range []string{"2.1.0", "2.2.0", "2.3.1"} {
			var sent []byte
			s.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
				sent = rig.Marshal(rig.ARes(areq, "Y"))
				return 200, sent
			})
			_, got := s.In(t).Call(http.MethodPost, "/auth", s.APIKey, s.Request(v))
			if !bytes.Equal(got, sent) {
				t.Errorf("%s: the ARes is %s, was %s", v, got, sent)
			}
		}
		s.Directory.SetAnswer(nil)
	})
	t.Run("RReq", func(t *testing.T) {
		areq, answer := s.In(t).Challenged("2.2.0")
		sent := rig.Marshal(rig.RReq(areq, answer, "N"))
		s.In(t).Result(sent)
		_, got := s.In(t).Call(http.MethodPost, "/postauth", s.APIKey, rig.Object{"threeDSServerTransID": areq["threeDSServerTransID"]})
		if !bytes.Equal(got, sent) {
			t.Errorf("the RReq is %s, was %s", got, sent)
		}
	})
	t.Run("RRes", func(t *testing.T) {
		areq, answer := s.In(t).Challenged("2.2.0")
		got := s.In(t).Result(rig.Marshal(rig.RReq(areq, answer, "N")))
		rig.CheckMembers(t, "RRes", got, []string{"messageType", "messageVersion", "threeDSServerTransID", "acsTransID", "dsTransID", "resultsStatus"}, nil)
	})
	t.Run("Erro", func(t *testing.T) {
		s := s.In(t)
		bad := func(areq rig.Object) rig.Object { return rig.ARes(areq, "Y").With(rig.Object{"transStatus": "Z"}) }
		s.Directory.SetAnswer(func(areq rig.Object) (int, []byte) { return 200, rig.Marshal(bad(areq)) })
		s.Refused("/auth", s.Request("2.2.0"), rig.Expected{Code: "203", Msg: "ARes"})
		s.Refused("/auth", rig.AppRequest("2.2.0", rig.EnrolledPAN, ""), rig.Expected{Code: "203", Msg: "ARes"})
		s.Directory.SetAnswer(nil)
		s.Refused("/auth", rig.Object{}, rig.Expected{Code: "201"})
		s.Refused("/preauth", rig.Object{}, rig.Expected{Code: "201"})
		s.Refused("/postauth", rig.Object{}, rig.Expected{Code: "201"})
		s.Refused("/preauth", "x", rig.Expected{Code: "203"})
	})
}

func TestG10KeysOfAMerchantShareTransactions(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	f, p := rig.NewFaulty()
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), p)
	status := func(key string) int {
		res, _ := s.Call(http.MethodPost, "/preauth", key, rig.Object{"acctNumber": rig.EnrolledPAN})
		return res.StatusCode
	}
	t.Run("works as soon as it is created", func(t *testing.T) {
		if got := status(s.CreateKey("Shop")); got != 200 {
			t.Errorf("status %d, want 200", got)
		}
	})
	t.Run("stops within 1 s of its revocation", func(t *testing.T) {
		best, slowest := time.Hour, time.Duration(0)
		for range 5 { // other work on the machine is not ours to answer for
			key := s.CreateKey("Shop")
			if got := status(key); got != 200 {
				t.Fatalf("status %d, want 200", got)
			}
			s.RevokeKey(key)
			start := time.Now()
			waittest.Until(t, "the key to stop", func() bool { return status(key) == 401 })
			took := time.Since(start)
			if best = min(best, took); best <= time.Second {
				break
			}
			start = time.Now()
			status(key)
			slowest = max(slowest, time.Since(start))
		}
		// What a request takes on a machine that is busy is not the server's doing.
		if best > time.Second+20*slowest {
			t.Errorf("it took %v, and a request at most %v", best, slowest)
		}
		if status(s.APIKey) != 200 {
			t.Error("another key of the merchant stopped too")
		}
	})
	t.Run("all keys of a merchant see its transactions", func(t *testing.T) {
		s := s.In(t)
		crd := s.Preauth(rig.EnrolledPAN)
		second := *s.World
		second.APIKey = s.CreateKey("Shop")
		code, answer := second.Post("/auth", rig.BrowserRequest("2.2.0", rig.EnrolledPAN, crd.Text("threeDSServerTransID"), "U"))
		if code != 200 {
			t.Fatalf("/auth with another key of the merchant: %d %v", code, answer)
		}
		s.Refused("/postauth", rig.Object{"threeDSServerTransID": crd["threeDSServerTransID"]},
			rig.Expected{Code: "203", Detail: "No challenge took place, the result is in the ARes"})
	})
	t.Run("a merchant's transactions are nobody else's", func(t *testing.T) {
		s := s.In(t)
		other := *s.World
		other.APIKey = s.OtherAPIKey
		other.Refused("/auth", s.Request("2.2.0"), rig.Expected{Code: "301"})
	})
	t.Run("unreachable store", func(t *testing.T) {
		s := s.In(t)
		fresh, made := unread(s, f), s.Request("2.2.0")
		defer f.NoKeys.Store(false)
		f.Down.Store(true)
		defer f.Down.Store(false)
		for _, key := range []string{fresh, "5a5a5a5a-0000-4000-8000-00000000dead"} {
			res, data := s.Call(http.MethodPost, "/preauth", key, rig.Object{"acctNumber": rig.EnrolledPAN})
			if res.StatusCode == 401 {
				t.Error("a key that cannot be looked up is called invalid")
				continue
			}
			rig.Expected{Code: "403", Description: "Transient system failure"}.Check(t, res.StatusCode, rig.ParseObject(t, data))
		}
		if got := status(s.APIKey); got != 200 {
			t.Errorf("/preauth with a known key: %d, want 200", got)
		}
		s.Refused("/auth", made, rig.Expected{Code: "403", Description: "Transient system failure"})
		s.Refused("/postauth", rig.Object{"threeDSServerTransID": rig.NewUUID()}, rig.Expected{Code: "403"})
	})
}

// version and its like are in ascending order.
func ascending(t *testing.T, crd rig.Object, name string) {
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
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{APITLS: true, Sections: "limits: {connections: 95}"})
	for listener, address := range map[string]string{"api": addressOf(t, s.API), "results": addressOf(t, s.ResultsURL)} {
		for i, want := range []string{"h2", "h2", "http/1.1"} {
			c, err := tls.Dial("tcp", address, &tls.Config{
				InsecureSkipVerify: true, Certificates: []tls.Certificate{ca.Issue("rreq.ds.example")}, NextProtos: []string{"h2", "http/1.1"},
			})
			rig.Must(t, err)
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
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: "limits: {connections: 16, wait: 10ms}"})
	areq, answer := s.Challenged("2.2.0")
	results := strings.TrimSuffix(strings.TrimPrefix(s.ResultsURL, "https://"), "/results")
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
	waittest.Until(t, "all of them to have come", func() bool {
		return s.Metrics()[`threeds_refused_total{operation="connection",reason="connections"}`] >= (2*40-16)+(40-16) // of both listeners
	})
	// A connection that is just connecting is safe for a second, those of the strangers too: of both listeners.
	waittest.Until(t, "the first second of the strangers at the results to be over", func() bool {
		c, err := tls.Dial("tcp", results, &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	waittest.Until(t, "the first second of the strangers at the API to be over", func() bool {
		http.DefaultClient.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.API+"/preauth", strings.NewReader(`{"acctNumber": "`+rig.EnrolledPAN+`"}`))
		rig.Must(t, err)
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
		s.Preauth(rig.EnrolledPAN)
	}
	if got := s.Result(rig.Marshal(rig.RReq(areq, answer, "Y"))); got.Text("messageType") != "RRes" {
		t.Errorf("a result: %v", got)
	}
	if got := s.Through(s.Request("2.2.0")); got.Text("messageType") != "AReq" {
		t.Errorf("/auth: %v", got)
	}
	res, err := http.Get(s.ConsoleURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, _ := io.ReadAll(res.Body)
	for _, want := range []string{
		`threeds_refused_total{operation="connection",reason="connections"} `, `threeds_admitted_share{priority="low"} 1`,
		`threeds_wait_seconds{for="processor"} `, `threeds_wait_seconds{for="store"} `,
	} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

package api

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// The tests of this file show docs/api.md, "/postauth" and "Results of directory servers".

func TestPostauth(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	second := rig.StartSite(t, ca, s.Directory, rig.Plan{Beside: s})
	eachVersion(t, s, func(s *rig.Site, v string) {
		areq, answer := s.Challenged(v)
		sent := rig.InsertText(rig.RReq(areq, answer, "Y"), `, "unknown" : [1.50, null],"é":"\u00e9"`)
		if got := s.Result(sent); got.Text("messageType") != "RRes" {
			s.T.Fatalf("RReq: %v", got)
		}
		id := rig.Object{"threeDSServerTransID": areq["threeDSServerTransID"]}
		s.T.Run("any number of times, from any node, byte for byte", func(t *testing.T) {
			for i := range 20 {
				node := s.In(t)
				if i%2 == 1 {
					node = second.In(t)
				}
				res, got := node.Call(http.MethodPost, "/postauth", s.APIKey, id)
				if res.StatusCode != 200 || !bytes.Equal(got, sent) {
					t.Fatalf("%d %s, the DS sent %s", res.StatusCode, got, sent)
				}
			}
		})
		s.T.Run("names in any case", func(t *testing.T) {
			if code, got := s.In(t).Post("/postauth", rig.Object{"threeDsServerTransId": areq["threeDSServerTransID"]}); code != 200 {
				t.Errorf("%d %v", code, got)
			}
			if code, got := s.In(t).Post("/postauth", rig.Object{"threeDSServerTransID": strings.ToUpper(areq.Text("threeDSServerTransID"))}); code != 200 {
				t.Errorf("an id in capitals: %d %v", code, got)
			}
		})
		s.T.Run("ids of other merchants", func(t *testing.T) {
			pending, _ := s.In(t).Challenged(v)
			final := s.In(t).Through(s.Request(v))
			unknown := rig.NewUUID()
			_, want := s.In(t).Call(http.MethodPost, "/postauth", s.OtherAPIKey, rig.Object{"threeDSServerTransID": unknown})
			for _, o := range []rig.Object{areq, pending, final} {
				id := o.Text("threeDSServerTransID")
				_, got := s.In(t).Call(http.MethodPost, "/postauth", s.OtherAPIKey, rig.Object{"threeDSServerTransID": id})
				if string(got) != strings.ReplaceAll(string(want), unknown, id) {
					t.Errorf("another's id tells %s, an unknown one %s", got, want)
				}
			}
		})
	})
}

// dial posts to the results listener with a client of one's own.
func dial(s *rig.Site, cert *tls.Certificate) (*http.Response, error) {
	conf := &tls.Config{RootCAs: s.Authority.Pool()}
	if cert != nil {
		conf.Certificates = []tls.Certificate{*cert}
	}
	transport := &http.Transport{TLSClientConfig: conf}
	defer transport.CloseIdleConnections()
	return (&http.Client{Transport: transport}).Post(s.ResultsURL, "application/json", strings.NewReader("{}"))
}

func TestResultsTLS(t *testing.T) {
	t.Parallel()
	ca, ca2 := rig.NewAuthority(t), rig.NewAuthority(t)
	master := rig.NewWire(t, ca2)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Master: master})
	good, wrongName, foreign := ca.Issue("rreq.ds.example"), ca.Issue("3dss.example"), rig.NewAuthority(t).Issue("rreq.ds.example")
	for _, tt := range []struct {
		name string
		cert *tls.Certificate
		good bool
	}{
		{"no certificate", nil, false}, {"of a foreign CA", &foreign, false}, {"under another name", &wrongName, false}, {"good", &good, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := dial(s, tt.cert)
			if err == nil {
				res.Body.Close()
			}
			if (err == nil) != tt.good {
				t.Errorf("the connection: %v, want it to succeed: %v", err, tt.good)
			}
		})
	}
	t.Run("results from another directory", func(t *testing.T) {
		s := s.In(t)
		areq, answer := s.Challenged("2.3.1")
		cert := ca2.Issue("rreq.ds.example")
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{cert}}}}
		other := &rig.Peer{Client: client}
		result := rig.Marshal(rig.RReq(areq, answer, "Y"))
		code, got, err := other.Post(s.ResultsURL, result)
		if err != nil || code != 200 || got.Text("errorCode") != "301" {
			t.Errorf("%d %v %v, want 301", code, got, err)
		}
		erro := rig.Marshal(rig.Object{"messageType": "Erro", "messageVersion": "2.3.1", "errorCode": "404", "errorComponent": "D",
			"errorDescription": "x", "errorDetail": "x", "threeDSServerTransID": areq["threeDSServerTransID"]})
		if code, got, err := other.Post(s.ResultsURL, erro); err != nil || code != 200 || got != nil {
			t.Errorf("a foreign Erro: %d %v %v", code, got, err)
		}
		s.Refused("/postauth", rig.Object{"threeDSServerTransID": areq["threeDSServerTransID"]}, rig.Expected{Code: "305"})
		if got := s.Result(result); got.Text("messageType") != "RRes" {
			t.Errorf("the right directory's result after it: %v", got)
		}
	})
	t.Run("methods", func(t *testing.T) {
		res, err := s.Directory.Client.Get(s.ResultsURL)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
			t.Errorf("GET: %d, Allow %q", res.StatusCode, res.Header.Get("Allow"))
		}
	})
	t.Run("HTTP 2", func(t *testing.T) {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{good}}}
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport}).Post(s.ResultsURL, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.Proto != "HTTP/2.0" || res.StatusCode != 200 {
			t.Errorf("%s %d", res.Proto, res.StatusCode)
		}
	})
}

func TestResults(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	second := rig.StartSite(t, ca, s.Directory, rig.Plan{Beside: s})
	eachVersion(t, s, func(s *rig.Site, v string) {
		s.T.Run("RRes", func(t *testing.T) {
			s := s.In(t)
			start := time.Now()
			areq, answer := s.Challenged(v)
			control := time.Since(start)
			start = time.Now()
			got := s.Result(rig.Marshal(rig.RReq(areq, answer, "Y")))
			if took := time.Since(start); took > 3*time.Second+10*control {
				t.Errorf("it took %v, and the /auth before it %v", took, control)
			}
			for _, name := range []string{"threeDSServerTransID", "acsTransID", "dsTransID", "messageVersion"} {
				if got[name] != answer[name] {
					t.Errorf("%s = %v, want %v", name, got[name], answer[name])
				}
			}
			if got.Text("messageType") != "RRes" || got.Text("resultsStatus") != "01" {
				t.Errorf("%v", got)
			}
		})
		s.T.Run("second", func(t *testing.T) {
			s := s.In(t)
			areq, answer := s.Challenged(v)
			first := rig.Marshal(rig.RReq(areq, answer, "N"))
			s.Result(first)
			want := "301"
			if v == "2.3.1" {
				want = "312"
			}
			for _, again := range [][]byte{first, rig.Marshal(rig.RReq(areq, answer, "Y"))} {
				for _, node := range []*rig.Site{s, second.In(t)} {
					if got := node.Result(again); got.Text("errorCode") != want || got.Text("errorMessageType") != "RReq" {
						t.Errorf("%v, want %s", got, want)
					}
				}
			}
			_, kept := s.Call(http.MethodPost, "/postauth", s.APIKey, rig.Object{"threeDSServerTransID": areq["threeDSServerTransID"]})
			if !bytes.Equal(kept, first) {
				t.Errorf("the result has become %s, was %s", kept, first)
			}
		})
		s.T.Run("many at once", func(t *testing.T) {
			s := s.In(t)
			areq, answer := s.Challenged(v)
			var all sync.WaitGroup
			var mu sync.Mutex
			var won []byte
			for i := range 16 {
				body := rig.Marshal(rig.RReq(areq, answer, "Y").With(rig.Object{"interactionCounter": "0" + string(rune('1'+i%9))}))
				all.Go(func() {
					code, got, err := s.Directory.Post(s.ResultsURL, body)
					mu.Lock()
					defer mu.Unlock()
					if err != nil || code != 200 {
						t.Errorf("%d %v", code, err)
					} else if got.Text("messageType") == "RRes" {
						if won != nil {
							t.Error("two results were acknowledged")
						}
						won = body
					}
				})
			}
			all.Wait()
			_, kept := s.Call(http.MethodPost, "/postauth", s.APIKey, rig.Object{"threeDSServerTransID": areq["threeDSServerTransID"]})
			if !bytes.Equal(kept, won) {
				t.Errorf("kept is %s, acknowledged was %s", kept, won)
			}
		})
		s.T.Run("after a final ARes", func(t *testing.T) {
			s := s.In(t)
			code, answer := s.Post("/auth", s.Request(v))
			want := "301"
			if v == "2.3.1" {
				want = "313"
			}
			got := s.Result(rig.Marshal(rig.RReq(s.Directory.Sent(answer.Text("threeDSServerTransID"))[0], answer, "Y")))
			if code != 200 || got.Text("errorCode") != want {
				t.Errorf("%v, want %s", got, want)
			}
		})
		s.T.Run("ids of another transaction", func(t *testing.T) {
			s := s.In(t)
			areq, answer := s.Challenged(v)
			for _, name := range []string{"acsTransID", "dsTransID", "threeDSServerTransID"} {
				got := s.Result(rig.Marshal(rig.RReq(areq, answer, "Y").With(rig.Object{name: rig.NewUUID()})))
				if got.Text("errorCode") != "301" || got.Text("errorDetail") != name {
					t.Errorf("another %s: %v, want 301", name, got)
				}
			}
			if got := s.Result(rig.Marshal(rig.RReq(areq, answer, "Y"))); got.Text("messageType") != "RRes" {
				t.Errorf("the good one after it: %v", got)
			}
		})
	})
}

// TestP2WaitForAResult: a /postauth that waits is answered when the result comes, to this node or another, and
// when the server ends. One whose result does not come still waits then.
func TestP2WaitForAResult(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	second := rig.StartSite(t, ca, s.Directory, rig.Plan{Beside: s})
	type answer struct {
		code int
		body rig.Object
	}
	// The server has to ask for a body before the client sends it.
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Hour}}
	t.Cleanup(client.CloseIdleConnections)
	// ask sends a /postauth with a wait of a minute, and returns when the server reads it.
	ask := func(s *rig.Site, id string) <-chan answer {
		answers := make(chan answer, 1)
		sent := make(chan struct{})
		go func() {
			body := &readNotice{Reader: bytes.NewReader(rig.Marshal(rig.Object{"threeDSServerTransID": id})), read: sent}
			req, err := http.NewRequest(http.MethodPost, s.API+"/postauth?wait=60", body)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("APIKey", s.APIKey)
			req.Header.Set("Expect", "100-continue")
			res, err := client.Do(req)
			if err != nil {
				answers <- answer{0, rig.Object{"error": err.Error()}}
				return
			}
			defer res.Body.Close()
			var o rig.Object
			_ = json.NewDecoder(res.Body).Decode(&o)
			answers <- answer{res.StatusCode, o}
		}()
		<-sent
		return answers
	}
	patient, patientAnswer := s.Challenged("2.2.0")
	control := ask(s, patient.Text("threeDSServerTransID"))
	for name, receiver := range map[string]*rig.Site{"this node": s, "another node": second} {
		areq, ares := s.Challenged("2.2.0")
		answers := ask(s, areq.Text("threeDSServerTransID"))
		if got := receiver.Result(rig.Marshal(rig.RReq(areq, ares, "Y"))); got.Text("messageType") != "RRes" {
			t.Fatalf("RReq to %s: %v", name, got)
		}
		if got := <-answers; got.code != 200 || got.body.Text("transStatus") != "Y" {
			t.Errorf("a result that came to %s: %d %v", name, got.code, got.body)
		}
	}
	s.Refused("/postauth?wait=61", rig.Object{"threeDSServerTransID": rig.NewUUID()},
		rig.Expected{Code: "203", Detail: "wait"})
	areq, _ := s.Challenged("2.2.0")
	answers := ask(second, areq.Text("threeDSServerTransID"))
	if err := second.Stop(); err != nil {
		t.Errorf("the end of a server with a request that waits: %v", err)
	}
	if got := <-answers; got.code != 400 || got.body.Text("errorCode") != "305" {
		t.Errorf("at the end of the server: %d %v, want 305", got.code, got.body)
	}
	select {
	case got := <-control:
		t.Errorf("a minute is over, or the server does not wait: %d %v", got.code, got.body)
	default:
	}
	if got := s.Result(rig.Marshal(rig.RReq(patient, patientAnswer, "Y"))); got.Text("messageType") != "RRes" {
		t.Errorf("RReq: %v", got)
	}
	<-control
}

// A readNotice closes a channel when the whole of a body has been read.
type readNotice struct {
	io.Reader
	read chan struct{}
	once sync.Once
}

func (n *readNotice) Read(p []byte) (int, error) {
	read, err := n.Reader.Read(p)
	if err == io.EOF {
		n.once.Do(func() { close(n.read) })
	}
	return read, err
}

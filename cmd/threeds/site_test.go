package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/openthreeds/threeds/internal/server"
)

// A wire is a directory server that keeps what it gets byte for byte and may
// answer as no directory server should.
type wire struct {
	*peer

	mu    sync.Mutex
	raw   map[string][]byte // AReqs by threeDSServerTransID
	trick func(w http.ResponseWriter, areq object)
}

func newWire(t *testing.T, ca *authority) *wire {
	t.Helper()
	w := &wire{peer: newPeer(t, ca), raw: make(map[string][]byte)}
	w.server.Config.Handler = w // nobody has called yet
	w.setAnswer(nil)
	return w
}

// setAnswer makes f answer every AReq; nil: with a good Y.
func (w *wire) setAnswer(f func(areq object) (int, []byte)) {
	if f == nil {
		f = says("Y")
	}
	w.peer.setAnswer(f)
}

// says answers with a good ARes of that status.
func says(status string) func(areq object) (int, []byte) {
	return func(areq object) (int, []byte) { return 200, marshal(answerTo(areq, status)) }
}

// answerTo is ares for every channel.
func answerTo(areq object, status string) object {
	o := ares(areq, status)
	switch areq.text("deviceChannel") + status {
	case "01C":
		o["acsSignedContent"] = "eyJhbGciOiJQUzI1NiJ9.e30.c2ln"
		o["acsRenderingType"] = object{"acsInterface": "01", "acsUiTemplate": "01"}
		delete(o, "acsURL")
	}
	if areq.text("deviceChannel") == "01" {
		o["sdkTransID"] = areq["sdkTransID"]
		if areq.text("messageVersion") == "2.3.1" {
			o["deviceInfoRecognisedVersion"], o["threeDSRequestorAppURLInd"] = "1.6", "N"
		}
	}
	return o
}

func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var o object
	if err := json.Unmarshal(body, &o); err != nil || o.text("messageType") != "AReq" {
		w.peer.ServeHTTP(rw, r)
		return
	}
	w.mu.Lock()
	w.raw[o.text("threeDSServerTransID")] = body
	trick := w.trick
	w.mu.Unlock()
	if trick == nil {
		w.peer.ServeHTTP(rw, r)
		return
	}
	w.peer.mu.Lock()
	w.areqs = append(w.areqs, o)
	w.peer.mu.Unlock()
	trick(rw, o)
}

// play makes f answer every AReq from now on; nil: as a good one does.
func (w *wire) play(f func(w http.ResponseWriter, areq object)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trick = f
}

// got is the AReq that came for an id, as it came.
func (w *wire) got(transID string) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.raw[transID]
}

// A site is a server that runs in this process as serve runs it, with
// directory servers that the test holds in its hands.
type site struct {
	*world
	ds      *wire
	ca      *authority
	config  string
	results string
	console string
	log     fmt.Stringer
	stop    func() error // ends it, once, and says how it ended
}

// A plan is how a site differs from the plainest one.
type plan struct {
	store    string               // lines of the configuration; empty: SQLite
	sections string               // of the configuration, whole
	console  string               // its section; empty: one without pages
	visa     string               // keys of the directory visa
	master   *wire                // a second directory for the same cards
	apiTLS   bool                 // the API over TLS
	change   func(*server.Config) // what no configuration allows
	beside   *site                // another node with the same store
	unready  bool                 // do not wait for the card ranges
	prepare  func(dir string)     // changes the files of the configuration before the start
}

// startSite serves until the test ends.
func startSite(t *testing.T, ca *authority, ds *wire, plans ...plan) *site {
	t.Helper()
	var p plan
	if len(plans) > 0 {
		p = plans[0]
	}
	dir := t.TempDir()
	log := new(lockedBuffer)
	s := &site{world: &world{t: t}, ds: ds, ca: ca, config: filepath.Join(dir, "threeds.yaml"), log: log}
	if p.beside != nil {
		s.config = p.beside.config
		s.APIKey, s.OtherAPIKey = p.beside.APIKey, p.beside.OtherAPIKey
	} else {
		write(t, s.config, []byte(s.yaml(dir, p)))
		if p.prepare != nil {
			p.prepare(dir)
		}
		s.APIKey, s.OtherAPIKey = s.key("Shop"), s.key("Other")
	}
	ctx, cancel := context.WithCancel(context.Background())
	exited, opened := make(chan error, 1), make(chan struct{})
	go func() {
		exited <- serve(ctx, s.config, log, func(cfg *server.Config) {
			s.API = "http://" + cfg.API.Addr().String()
			s.results = "https://" + cfg.Results.Addr().String() + "/results"
			s.console = "http://" + cfg.Console.Addr().String()
			if !strings.Contains(p.sections, "wait:") {
				cfg.Limits.Wait = 0 // what waits in this process are the tests as well
			}
			if p.change != nil {
				p.change(cfg)
			}
			close(opened)
		})
	}()
	s.stop = sync.OnceValue(func() error {
		cancel()
		return <-exited
	})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	select {
	case <-opened:
	case err := <-exited:
		exited <- err
		t.Fatalf("serve: %v", err)
	}
	if !p.unready {
		waitFor(t, "the card ranges", func() bool { return s.readiness() == `{"status":"ready"}` })
	}
	return s
}

// yaml is the configuration of a plan.
func (s *site) yaml(dir string, p plan) string {
	var b strings.Builder
	file := func(name string, data []byte) { write(s.t, filepath.Join(dir, name), data) }
	file("ca.pem", s.ca.pem())
	s.ca.write(dir, s.ca.issue("results.example"), "results")
	s.ca.write(dir, s.ca.issue("3dss.example"), "client")
	api := "{listen: 127.0.0.1:0}"
	if p.apiTLS {
		s.ca.write(dir, s.ca.issue("api.example"), "api")
		api = "{listen: 127.0.0.1:0, tls: {cert: api.pem, key: api-key.pem}}"
	}
	fmt.Fprintf(&b, `api: %s
results: {listen: 127.0.0.1:0, url: "https://results.example/results", tls: {cert: results.pem, key: results-key.pem}}
%s
%s
log: {level: debug}
server: {reference_number: 3DS_LOA_SER_TEST_020301_00001, requestor_id: ServerID, requestor_name: Server Name}
%s
directories:
`, api, cmp.Or(p.store, `store: {url: "file:data"}`), cmp.Or(p.console, "console: {listen: 127.0.0.1:0}"), p.sections)
	directory := func(scheme, n, extra string, ds *wire) {
		fmt.Fprintf(&b, `  - scheme: %s
    areq_url: %s/
    preq_url: %[2]s/
    operator_id: operator-%[1]s
    versions: [2.1.0, 2.2.0, 2.3.1]
    min_refresh: 1s
    client_cert: {cert: client%[3]s.pem, key: client%[3]s-key.pem}
    server_ca: ca%[3]s.pem
    client_ca: ca%[3]s.pem
    client_names: [rreq.ds.example]
%[4]s
`, scheme, ds.server.URL, n, extra)
	}
	directory("visa", "", p.visa, s.ds)
	if p.master != nil {
		file("ca2.pem", p.master.ca.pem())
		p.master.ca.write(dir, p.master.ca.issue("3dss.example"), "client2")
		directory("mastercard", "2", "", p.master)
	}
	return b.String()
}

// key makes an API key with the command that operators use.
func (s *site) key(name string, flags ...string) string {
	s.t.Helper()
	var out, errs strings.Builder
	args := append([]string{"key", "create", "--name", name, "--config", s.config}, flags...)
	if code := run(s.t.Context(), args, strings.NewReader(""), &out, &errs); code != 0 {
		s.t.Fatalf("key create: %d %s", code, errs.String())
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// revoke takes an API key back, likewise.
func (s *site) revoke(key string) {
	s.t.Helper()
	var out strings.Builder
	if code := run(s.t.Context(), []string{"key", "revoke", "--config", s.config}, strings.NewReader(key), &out, &out); code != 0 {
		s.t.Fatalf("key revoke: %d %s", code, out.String())
	}
}

// readiness is what /readyz says, without what the node runs with.
func (s *site) readiness() string {
	res, err := http.Get(s.console + "/readyz")
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	said, _, isKnown := strings.Cut(strings.TrimSpace(string(data)), `,"config":`)
	if isKnown {
		said += "}"
	}
	return said
}

// in is the site for a subtest.
func (s *site) in(t *testing.T) *site {
	c := *s
	c.world = &world{s.ready, t}
	return &c
}

// testPAN is a card that the wires enroll.
const testPAN = "4000001234567890"

// id is a fresh threeDSServerTransID for testPAN.
func (w *world) id() string {
	w.t.Helper()
	return w.preauth(testPAN).text("threeDSServerTransID")
}

// request is a good browser AReq with an id of its own.
func (s *site) request(version string) object {
	s.t.Helper()
	return browser(version, testPAN, s.id(), "U")
}

// through sends a request that must succeed and returns what the directory
// server got.
func (s *site) through(req object) object {
	s.t.Helper()
	code, got := s.post("/auth", req)
	if code != 200 {
		s.t.Fatalf("/auth: %d %v", code, got)
	}
	sent := s.ds.sent(got.text("threeDSServerTransID"))
	if len(sent) != 1 {
		s.t.Fatalf("%d AReqs came, want 1", len(sent))
	}
	return sent[0]
}

// challenged runs an /auth that ends with a challenge, and returns the AReq as
// the directory server got it, and the ARes.
func (s *site) challenged(version string) (areq, answer object) {
	s.t.Helper()
	s.ds.setAnswer(says("C"))
	defer s.ds.setAnswer(nil)
	code, answer := s.post("/auth", s.request(version))
	if code != 200 || answer.text("transStatus") != "C" {
		s.t.Fatalf("/auth: %d %v, want a challenge", code, answer)
	}
	return s.ds.sent(answer.text("threeDSServerTransID"))[0], answer
}

// result posts an RReq as the directory server.
func (s *site) result(body []byte) object {
	s.t.Helper()
	code, got, err := s.ds.post(s.results, body)
	if err != nil || code != 200 {
		s.t.Fatalf("RReq: %d %v, want 200 whatever it says", code, err)
	}
	return got
}

func (s *site) postauth(id string) (int, object) {
	s.t.Helper()
	return s.post("/postauth", object{"threeDSServerTransID": id})
}

// app and threeRI are good AReqs of the other channels.
func app(version, pan, transID string) object {
	o := core(version, pan, transID).with(object{
		"deviceChannel": "01", "sdkAppID": newUUID(), "sdkTransID": newUUID(), "sdkReferenceNumber": "SDK-REF-1",
		"sdkMaxTimeout": "05", "sdkEncData": "eyJhbGciOiJFQ0RILUVTIn0..aXY.ZGF0YQ.dGFn",
		"sdkEphemPubKey": object{
			"kty": "EC", "crv": "P-256", "x": "WKn-ZIGevcwGIyyrzFoZNBdaq9_TsqzGl96oc0CWuis",
			"y": "y77t-RvAHRKTsSGdIYUfweuOvwrvDD-Q3Hv5J0fSKbE",
		},
		"deviceRenderOptions": object{"sdkInterface": "03", "sdkUiType": []string{"01", "02", "03", "04", "05"}},
	})
	if version == "2.3.1" {
		o["sdkType"], o["defaultSdkType"] = "01", object{"sdkVariant": "01"}
	}
	return o
}

func threeRI(version, pan, transID string) object {
	o := core(version, pan, transID).with(object{"deviceChannel": "03", "threeRIInd": "11", "threeDSRequestorAuthenticationInd": nil})
	if version == "2.1.0" {
		o = o.with(object{
			"messageCategory": "02", "threeRIInd": "03", "purchaseAmount": nil, "purchaseCurrency": nil,
			"purchaseExponent": nil, "purchaseDate": nil,
		})
	}
	return o
}

// core is what the AReqs of all channels have in common.
func core(version, pan, transID string) object {
	o := browser(version, pan, transID, "")
	maps.DeleteFunc(o, func(name string, _ any) bool {
		return strings.HasPrefix(name, "browser") || name == "notificationURL" || name == "threeDSCompInd"
	})
	if transID == "" {
		delete(o, "threeDSServerTransID")
	}
	return o
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	must(t, os.WriteFile(file, data, 0o600))
}

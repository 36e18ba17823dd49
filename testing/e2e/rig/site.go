package rig

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A Wire is a directory server that keeps what it gets byte for byte and may
// answer as no directory server should.
type Wire struct {
	*Peer

	mu    sync.Mutex
	raw   map[string][]byte // AReqs by threeDSServerTransID
	trick func(w http.ResponseWriter, areq Object)
}

func NewWire(t *testing.T, ca *Authority) *Wire {
	t.Helper()
	w := &Wire{Peer: NewPeer(t, ca), raw: make(map[string][]byte)}
	w.Server.Config.Handler = w // nobody has called yet
	w.SetAnswer(nil)
	return w
}

// SetAnswer makes f answer every AReq; nil: with a good Y.
func (w *Wire) SetAnswer(f func(areq Object) (int, []byte)) {
	if f == nil {
		f = AnswerStatus("Y")
	}
	w.Peer.SetAnswer(f)
}

// AnswerStatus answers with a good ARes of that status.
func AnswerStatus(status string) func(areq Object) (int, []byte) {
	return func(areq Object) (int, []byte) { return 200, Marshal(AnswerTo(areq, status)) }
}

// AnswerTo is ares for every channel.
func AnswerTo(areq Object, status string) Object {
	o := ARes(areq, status)
	switch areq.Text("deviceChannel") + status {
	case "01C":
		o["acsSignedContent"] = "eyJhbGciOiJQUzI1NiJ9.e30.c2ln"
		o["acsRenderingType"] = Object{"acsInterface": "01", "acsUiTemplate": "01"}
		delete(o, "acsURL")
	}
	if areq.Text("deviceChannel") == "01" {
		o["sdkTransID"] = areq["sdkTransID"]
		if areq.Text("messageVersion") == "2.3.1" {
			o["deviceInfoRecognisedVersion"], o["threeDSRequestorAppURLInd"] = "1.6", "N"
		}
	}
	return o
}

func (w *Wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var o Object
	if err := json.Unmarshal(body, &o); err != nil || o.Text("messageType") != "AReq" {
		w.Peer.ServeHTTP(rw, r)
		return
	}
	w.mu.Lock()
	w.raw[o.Text("threeDSServerTransID")] = body
	trick := w.trick
	w.mu.Unlock()
	if trick == nil {
		w.Peer.ServeHTTP(rw, r)
		return
	}
	w.Peer.Mu.Lock()
	w.AReqs = append(w.AReqs, o)
	w.Peer.Mu.Unlock()
	trick(rw, o)
}

// Play makes f answer every AReq from now on; nil: as a good one does.
func (w *Wire) Play(f func(w http.ResponseWriter, areq Object)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trick = f
}

// Got is the AReq that came for an id, as it came.
func (w *Wire) Got(transID string) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.raw[transID]
}

// A Site is a server with directory servers that the test holds in its hands.
type Site struct {
	*World
	Directory  *Wire
	Authority  *Authority
	ConfigFile string
	ResultsURL string
	ConsoleURL string
	Log        fmt.Stringer
	Stop       func() error // ends the server, once, and says how it ended
	HangUp     func()       // makes the server read its configuration again immediately
}

// A Plan is how a site differs from the plainest one.
type Plan struct {
	Store    string               // lines of the configuration; empty: SQLite
	Sections string               // of the configuration, whole
	Console  string               // its section; empty: one without pages
	Visa     string               // keys of the directory visa
	Master   *Wire                // a second directory for the same cards
	APITLS   bool                 // the API over TLS
	Change   func(*server.Config) // what no configuration allows
	Beside   *Site                // another node with the same store
	Unready  bool                 // do not wait for the card ranges
	// OwnLimits leaves the limits and timeouts as they are when a configuration sets none. Others are so generous that a
	// busy machine makes no difference.
	OwnLimits bool
	Prepare   func(dir string) // changes the files of the configuration before the start
}

// StartSite serves until the test ends, with the program of the tests. A plan with Change is served in this process.
func StartSite(t *testing.T, ca *Authority, ds *Wire, plans ...Plan) *Site {
	t.Helper()
	var p Plan
	if len(plans) > 0 {
		p = plans[0]
	}
	dir := t.TempDir()
	s := &Site{World: &World{T: t}, Directory: ds, Authority: ca, ConfigFile: filepath.Join(dir, "threeds.yaml")}
	if p.Beside != nil {
		s.ConfigFile = p.Beside.ConfigFile
		s.APIKey, s.OtherAPIKey = p.Beside.APIKey, p.Beside.OtherAPIKey
	} else {
		WriteFile(t, s.ConfigFile, []byte(s.WriteConfiguration(dir, p)))
		if p.Prepare != nil {
			p.Prepare(dir)
		}
		s.CreateFirstKeys()
	}
	if p.Change != nil {
		s.serveHere(p.Change)
	} else {
		s.serve()
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	if !p.Unready {
		waittest.Until(t, "the card ranges", func() bool { return s.Readiness() == `{"status":"ready"}` })
	}
	return s
}

// serve runs threeds and waits until it listens.
func (s *Site) serve() {
	s.T.Helper()
	proc := Launch(s.T, nil, "serve", "--config", s.ConfigFile)
	s.Log = proc.Log
	s.HangUp = func() { Must(s.T, proc.Cmd.Process.Signal(syscall.SIGHUP)) }
	s.Stop = sync.OnceValue(func() error {
		_ = proc.Cmd.Process.Signal(syscall.SIGTERM) // If it has ended already, its status says how.
		<-proc.Exited
		if proc.Cmd.ProcessState.Success() {
			return nil
		}
		return fmt.Errorf("%v:\n%s", proc.Cmd.ProcessState, lastLines(proc.Log.String()))
	})
	waittest.Until(s.T, "the listeners", func() bool {
		select {
		case <-proc.Exited:
			s.T.Fatalf("serve: %v", s.Stop())
		default:
		}
		return s.readAddresses()
	})
}

// readAddresses takes the addresses of the listeners from the log, and says whether they are in it.
func (s *Site) readAddresses() bool {
	for line := range strings.Lines(s.Log.String()) {
		var got struct{ Msg, API, Results, Console string }
		if json.Unmarshal([]byte(line), &got) == nil && got.Msg == "serving" {
			s.API, s.ResultsURL, s.ConsoleURL = "http://"+got.API, "https://"+got.Results+"/results", "http://"+got.Console
			return true
		}
	}
	return false
}

// addSettings adds settings, each "key: value", to a section of a configuration, unless it has them.
func addSettings(sections, section string, settings ...string) string {
	begin := section + ": {"
	_, rest, isThere := strings.Cut(sections, begin)
	former, _, _ := strings.Cut(rest, "}")
	var added []string
	for _, setting := range settings {
		key, _, _ := strings.Cut(setting, ":")
		if !strings.Contains(former, key+":") {
			added = append(added, setting)
		}
	}
	switch text := strings.Join(added, ", "); {
	case !isThere:
		return begin + text + "}\n" + sections
	case text != "":
		return strings.Replace(sections, begin, begin+text+", ", 1)
	default:
		return sections
	}
}

// lastLines returns the end of a log.
func lastLines(log string) string { return log[max(0, len(log)-4000):] }

// serveHere serves in this process with what no configuration allows.
func (s *Site) serveHere(change func(*server.Config)) {
	s.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	exited, opened := make(chan error, 1), make(chan struct{})
	log, reload := new(LockedBuffer), make(chan os.Signal, 1)
	s.Log = log
	s.HangUp = func() { reload <- syscall.SIGHUP }
	go func() {
		exited <- server.Serve(ctx, server.Options{File: s.ConfigFile, Log: log, Build: "a test", Release: "test", Reload: reload, Change: func(cfg *server.Config) {
			s.API = "http://" + cfg.API.Addr().String()
			s.ResultsURL = "https://" + cfg.Results.Addr().String() + "/results"
			s.ConsoleURL = "http://" + cfg.Console.Addr().String()
			change(cfg)
			close(opened)
		}})
	}()
	s.Stop = sync.OnceValue(func() error {
		cancel()
		return <-exited
	})
	select {
	case <-opened:
	case err := <-exited:
		exited <- err
		s.T.Fatalf("serve: %v", err)
	}
}

// WriteConfiguration is the configuration of a plan.
func (s *Site) WriteConfiguration(dir string, p Plan) string {
	var b strings.Builder
	file := func(name string, data []byte) { WriteFile(s.T, filepath.Join(dir, name), data) }
	file("ca.pem", s.Authority.PEM())
	s.Authority.Write(dir, s.Authority.Issue("results.example"), "results")
	s.Authority.Write(dir, s.Authority.Issue("3dss.example"), "client")
	api := "{listen: 127.0.0.1:0}"
	if p.APITLS {
		s.Authority.Write(dir, s.Authority.Issue("api.example"), "api")
		api = "{listen: 127.0.0.1:0, tls: {cert: api.pem, key: api-key.pem}}"
	}
	sections := p.Sections
	if !p.OwnLimits {
		sections = addSettings(sections, "limits", "wait: 1m")
		sections = addSettings(sections, "timeouts", "authentication: 60s", "preauth: 20m", "shutdown: 2m")
	}
	fmt.Fprintf(&b, `api: %s
results: {listen: 127.0.0.1:0, url: "https://results.example/results", tls: {cert: results.pem, key: results-key.pem}}
%s
%s
log: {level: debug}
server: {reference_number: 3DS_LOA_SER_TEST_020301_00001, requestor_id: ServerID, requestor_name: Server Name}
%s
directories:
`, api, cmp.Or(p.Store, `store: {url: "file:data"}`), cmp.Or(p.Console, "console: {listen: 127.0.0.1:0}"), sections)
	directory := func(scheme, n, extra string, ds *Wire) {
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
`, scheme, ds.Server.URL, n, extra)
	}
	directory("visa", "", p.Visa, s.Directory)
	if p.Master != nil {
		file("ca2.pem", p.Master.CA.PEM())
		p.Master.CA.Write(dir, p.Master.CA.Issue("3dss.example"), "client2")
		directory("mastercard", "2", "", p.Master)
	}
	return b.String()
}

// CreateKey makes an API key with the command that operators use.
func (s *Site) CreateKey(name string, flags ...string) string {
	s.T.Helper()
	var out, errs strings.Builder
	args := append([]string{"key", "create", "--name", name, "--config", s.ConfigFile}, flags...)
	if code := Run(s.T.Context(), args, strings.NewReader(""), &out, &errs); code != 0 {
		s.T.Fatalf("key create: %d %s", code, errs.String())
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// CreateFirstKeys makes the API keys that every site has. It does what key create does, in this process, for that is
// sooner than with two processes.
func (s *Site) CreateFirstKeys() {
	s.T.Helper()
	keys := CreateKeys(s.T, s.ConfigFile, "Shop", "Other")
	s.APIKey, s.OtherAPIKey = keys[0], keys[1]
}

// CreateKeys makes an API key for each merchant.
func CreateKeys(t *testing.T, file string, merchants ...string) (keys []string) {
	t.Helper()
	Must(t, WithKeys(t.Context(), file, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		if err := journal.CreateKeys(c.Journal.Keys, c.JournalURL().Dir); err != nil {
			return err
		}
		trail := &operator.Service{Store: st, Sealer: ring, Now: time.Now}
		for _, merchant := range merchants {
			err := trail.Record(t.Context(), operator.Entry{Who: "cli:test", From: "command line", Action: "key.create", Object: merchant})
			if err != nil {
				return err
			}
			key, err := account.Create(t.Context(), st, ring, merchant, false, account.Terms{})
			if err != nil {
				return err
			}
			keys = append(keys, key)
		}
		return nil
	}))
	return keys
}

// RevokeKey takes an API key back, likewise.
func (s *Site) RevokeKey(key string) {
	s.T.Helper()
	var out strings.Builder
	if code := Run(s.T.Context(), []string{"key", "revoke", "--config", s.ConfigFile}, strings.NewReader(key), &out, &out); code != 0 {
		s.T.Fatalf("key revoke: %d %s", code, out.String())
	}
}

// Readiness is what /readyz says, without what the node runs with.
func (s *Site) Readiness() string {
	res, err := http.Get(s.ConsoleURL + "/readyz")
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

// In is the site for a subtest.
func (s *Site) In(t *testing.T) *Site {
	c := *s
	c.World = &World{s.ReadyFile, t}
	return &c
}

// EnrolledPAN is a card that the wires enroll.
const EnrolledPAN = "4000001234567890"

// NewTransactionID is a fresh threeDSServerTransID for EnrolledPAN.
func (w *World) NewTransactionID() string {
	w.T.Helper()
	return w.Preauth(EnrolledPAN).Text("threeDSServerTransID")
}

// Request is a good browser AReq with an id of its own.
func (s *Site) Request(version string) Object {
	s.T.Helper()
	return BrowserRequest(version, EnrolledPAN, s.NewTransactionID(), "U")
}

// Through sends a request that must succeed and returns what the directory
// server got.
func (s *Site) Through(req Object) Object {
	s.T.Helper()
	code, got := s.Post("/auth", req)
	if code != 200 {
		s.T.Fatalf("/auth: %d %v", code, got)
	}
	sent := s.Directory.Sent(got.Text("threeDSServerTransID"))
	if len(sent) != 1 {
		s.T.Fatalf("%d AReqs came, want 1", len(sent))
	}
	return sent[0]
}

// Challenged runs an /auth that ends with a challenge, and returns the AReq as
// the directory server got it, and the ARes.
func (s *Site) Challenged(version string) (areq, answer Object) {
	s.T.Helper()
	s.Directory.SetAnswer(AnswerStatus("C"))
	defer s.Directory.SetAnswer(nil)
	code, answer := s.Post("/auth", s.Request(version))
	if code != 200 || answer.Text("transStatus") != "C" {
		s.T.Fatalf("/auth: %d %v, want a challenge", code, answer)
	}
	return s.Directory.Sent(answer.Text("threeDSServerTransID"))[0], answer
}

// Result posts an RReq as the directory server.
func (s *Site) Result(body []byte) Object {
	s.T.Helper()
	code, got, err := s.Directory.Post(s.ResultsURL, body)
	if err != nil || code != 200 {
		s.T.Fatalf("RReq: %d %v, want 200 whatever it says", code, err)
	}
	return got
}

func (s *Site) Postauth(id string) (int, Object) {
	s.T.Helper()
	return s.Post("/postauth", Object{"threeDSServerTransID": id})
}

// AppRequest and threeRI are good AReqs of the other channels.
func AppRequest(version, pan, transID string) Object {
	o := CoreRequest(version, pan, transID).With(Object{
		"deviceChannel": "01", "sdkAppID": NewUUID(), "sdkTransID": NewUUID(), "sdkReferenceNumber": "SDK-REF-1",
		"sdkMaxTimeout": "05", "sdkEncData": "eyJhbGciOiJFQ0RILUVTIn0..aXY.ZGF0YQ.dGFn",
		"sdkEphemPubKey": Object{
			"kty": "EC", "crv": "P-256", "x": "WKn-ZIGevcwGIyyrzFoZNBdaq9_TsqzGl96oc0CWuis",
			"y": "y77t-RvAHRKTsSGdIYUfweuOvwrvDD-Q3Hv5J0fSKbE",
		},
		"deviceRenderOptions": Object{"sdkInterface": "03", "sdkUiType": []string{"01", "02", "03", "04", "05"}},
	})
	if version == "2.3.1" {
		o["sdkType"], o["defaultSdkType"] = "01", Object{"sdkVariant": "01"}
	}
	return o
}

func ThreeRIRequest(version, pan, transID string) Object {
	o := CoreRequest(version, pan, transID).With(Object{"deviceChannel": "03", "threeRIInd": "11", "threeDSRequestorAuthenticationInd": nil})
	if version == "2.1.0" {
		o = o.With(Object{
			"messageCategory": "02", "threeRIInd": "03", "purchaseAmount": nil, "purchaseCurrency": nil,
			"purchaseExponent": nil, "purchaseDate": nil,
		})
	}
	return o
}

// CoreRequest is what the AReqs of all channels have in common.
func CoreRequest(version, pan, transID string) Object {
	o := BrowserRequest(version, pan, transID, "")
	maps.DeleteFunc(o, func(name string, _ any) bool {
		return strings.HasPrefix(name, "browser") || name == "notificationURL" || name == "threeDSCompInd"
	})
	if transID == "" {
		delete(o, "threeDSServerTransID")
	}
	return o
}

func WriteFile(t *testing.T, file string, data []byte) {
	t.Helper()
	Must(t, os.WriteFile(file, data, 0o600))
}

// ReadyStatus is the HTTP status of /readyz, and what it says of one problem.
func (s *Site) ReadyStatus(problem string) (code int, status, text string) {
	s.T.Helper()
	res, err := http.Get(s.ConsoleURL + "/readyz")
	Must(s.T, err)
	defer res.Body.Close()
	var got struct {
		Status   string
		Problems map[string]string
	}
	Must(s.T, json.NewDecoder(res.Body).Decode(&got))
	return res.StatusCode, got.Status, got.Problems[problem]
}

// Problems are what /readyz says is not well, and its status.
func (s *Site) Problems() (status string, problems map[string]string) {
	var got struct {
		Status   string
		Problems map[string]string
	}
	_ = json.Unmarshal([]byte(s.Readiness()), &got)
	return got.Status, got.Problems
}

// WantProblem waits until /readyz names a part and says that the node is degraded.
func (s *Site) WantProblem(part, text string) {
	s.T.Helper()
	waittest.Until(s.T, "problem "+part, func() bool {
		status, problems := s.Problems()
		return status == "degraded" && strings.Contains(problems[part], text)
	})
	if got := s.Metric(`threeds_degraded{what="` + part + `"}`); got != 1 {
		s.T.Errorf("threeds_degraded of %s is %v", part, got)
	}
	if !strings.Contains(s.Log.String(), `"level":"ERROR","msg":"a part of the server is degraded","what":"`+part+`"`) {
		s.T.Errorf("the log has no error about %s:\n%s", part, s.Log.String())
	}
}

// WantAuthentication checks that an /auth of EnrolledPAN is answered.
func (s *Site) WantAuthentication() {
	s.T.Helper()
	if code, got := s.Post("/auth", s.Request("2.2.0")); code != 200 || got.Text("transStatus") != "Y" {
		s.T.Errorf("/auth: %d %v", code, got)
	}
}

var (
	LongAgo = time.Now().Add(-48 * time.Hour)
	JustNow = time.Now().Add(-24 * time.Hour)
)

// ExpiredCA is a CA that has expired, in PEM.
func ExpiredCA(t *testing.T) []byte {
	t.Helper()
	ca := NewAuthority(t)
	template := *ca.Cert
	template.NotBefore, template.NotAfter = LongAgo, JustNow
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, ca.Key.Public(), ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// A NodeIdentity is what /readyz says of what a node runs with.
type NodeIdentity struct {
	Config  string
	KeyFile struct{ Current, Previous, Next string }
	Build   string

	JournalKeyFile string
}

// Identity is what a node runs with, by /readyz; the metrics must say the same.
func (s *Site) Identity() (got NodeIdentity) {
	s.T.Helper()
	res, err := http.Get(s.ConsoleURL + "/readyz")
	Must(s.T, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	Must(s.T, err)
	Must(s.T, json.Unmarshal(data, &got))
	text := s.Exposed()
	for _, want := range []string{
		fmt.Sprintf("threeds_config_info{hash=%q} 1\n", got.Config),
		fmt.Sprintf("threeds_key_file_info{current=%q,next=%q,previous=%q} 1\n", got.KeyFile.Current, got.KeyFile.Next, got.KeyFile.Previous),
		fmt.Sprintf("threeds_build_info{version=%q} 1\n", got.Build),
		fmt.Sprintf("threeds_journal_key_file_info{id=%q} 1\n", got.JournalKeyFile),
	} {
		if got.JournalKeyFile == "" && strings.Contains(want, "_journal") {
			continue // its keys could not be read
		}
		if !strings.Contains(text, want) {
			s.T.Errorf("/metrics lacks %q", want)
		}
	}
	if got.Config == "" || got.KeyFile.Current == "" || got.Build == "" {
		s.T.Errorf("/readyz says %+v of what the node runs with", got)
	}
	return got
}

// Metrics are the values that the console exposes, by name and labels.
func (s *Site) Metrics() map[string]float64 {
	got := make(map[string]float64)
	for lines := bufio.NewScanner(strings.NewReader(s.Exposed())); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			got[name] = n
		}
	}
	return got
}

// ConfigText is the configuration as it is.
func (s *Site) ConfigText() string {
	s.T.Helper()
	data, err := os.ReadFile(s.ConfigFile)
	if err != nil {
		s.T.Fatal(err)
	}
	return string(data)
}

// Metric reads one series from the console; -1: there is none.
func (s *Site) Metric(name string) float64 {
	pace(s.ConsoleURL)
	res, err := http.Get(s.ConsoleURL + "/metrics")
	if err != nil {
		return -1
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			got, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return got
		}
	}
	return -1
}

const (
	ReloadApplied = `threeds_config_reloads_total{result="applied"}`
	ReloadRefused = `threeds_config_reloads_total{result="refused"}`
)

// Reload sends the signal and waits until the process has taken it.
func (s *Site) Reload(p *Process, metric string) {
	s.T.Helper()
	before := s.Metric(metric)
	if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.T.Fatal(err)
	}
	waittest.Until(s.T, metric+" to rise; the log:\n"+p.Log.String(), func() bool { return s.Metric(metric) > before })
}

// HoldAuth has an /auth under way whose AReq the directory server does not answer until
// leave is closed. Its status comes on done.
func (s *Site) HoldAuth(ds *Wire) (request Object, leave chan<- bool, done <-chan int) {
	entered, wait, status := make(chan bool), make(chan bool), make(chan int)
	ds.Play(func(w http.ResponseWriter, areq Object) {
		entered <- true
		<-wait
		_, _ = w.Write(Marshal(ARes(areq, "Y")))
	})
	request = s.Request("2.2.0")
	go func() {
		code, _ := s.Post("/auth", request)
		status <- code
	}()
	<-entered
	return request, wait, status
}

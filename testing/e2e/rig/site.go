package rig

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
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
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

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
		if err := c.JournalKeyFile().Create(); err != nil {
			return err
		}
		journalKeys, _ := c.JournalKeyFile().Load() // a test may have put another file in its place
		trail := &operator.Service{Store: st, Sealer: ring, Now: time.Now, Keys: journalKeys}
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

// In is the site for a subtest.
func (s *Site) In(t *testing.T) *Site {
	c := *s
	c.World = &World{s.ReadyFile, t}
	return &c
}

func WriteFile(t *testing.T, file string, data []byte) {
	t.Helper()
	Must(t, os.WriteFile(file, data, 0o600))
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

// ConfigText is the configuration as it is.
func (s *Site) ConfigText() string {
	s.T.Helper()
	data, err := os.ReadFile(s.ConfigFile)
	if err != nil {
		s.T.Fatal(err)
	}
	return string(data)
}

const (
	ReloadApplied = `threeds_config_reloads_total{result="applied"}`
	ReloadRefused = `threeds_config_reloads_total{result="refused"}`
)

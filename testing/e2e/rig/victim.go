package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
)

// A Victim is a server in a process of its own that is killed again and again.
type Victim struct {
	T              *testing.T
	ConfigFile     string
	APIAddress     string
	ResultsAddress string
	ready          string
	APIKey         string
	Env            []string
	Client         *http.Client
	Cmd            *exec.Cmd
	Exited         chan struct{}
	LogFile        string
}

func NewVictim(t *testing.T, ca *Authority, p *Peer, env ...string) *Victim {
	t.Helper()
	return NewVictimAt(t, ca, p, `store: {url: "file:data"}`, env...)
}

// NewVictimAt is newVictim with another store, whole lines of the configuration.
func NewVictimAt(t *testing.T, ca *Authority, p *Peer, place string, env ...string) *Victim {
	t.Helper()
	dir := t.TempDir()
	free := porttest.Addresses(t, 3)
	v := &Victim{
		T: t, ConfigFile: filepath.Join(dir, "threeds.yaml"), Env: env, LogFile: filepath.Join(dir, "log"),
		Client:     &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		APIAddress: free[0], ResultsAddress: free[1], ready: free[2],
	}
	resultsCert, resultsKey := ca.Write(dir, ca.Issue("results.example"), "results")
	clientCert, clientKey := ca.Write(dir, ca.Issue("3dss.example"), "client")
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), ca.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	place = addSettings(place, "timeouts", "authentication: 60s", "preauth: 20m", "result: 4h")
	text := fmt.Sprintf(`
api: {listen: %s}
results: {listen: %s, url: "https://%[2]s/results", tls: {cert: %s, key: %s}}
%s
console: {listen: %s}
limits: {per_key: 100000/s, wait: 1m}
server: {reference_number: 3DS_LOA_SER_TEST_020301_00001, requestor_id: R1, requestor_name: Requestor}
directories:
  - scheme: visa
    areq_url: %s/
    preq_url: %[7]s/
    versions: [2.1.0, 2.2.0, 2.3.1]
    min_refresh: 1s
    client_cert: {cert: %s, key: %s}
    server_ca: ca.pem
    client_ca: ca.pem
    client_names: [rreq.ds.example]
`, v.APIAddress, v.ResultsAddress, resultsCert, resultsKey, place, v.ready, p.Server.URL, clientCert, clientKey)
	if err := os.WriteFile(v.ConfigFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	v.APIKey = CreateKeys(t, v.ConfigFile, "Shop")[0]
	t.Cleanup(func() {
		v.Kill()
		if said, err := os.ReadFile(v.LogFile); err == nil && t.Failed() {
			t.Logf("the end of its log:\n%s", said[max(0, len(said)-8000):])
		}
	})
	return v
}

// Start runs the process and waits until it is ready.
func (v *Victim) Start() {
	v.T.Helper()
	if err := v.TryStart(); err != nil {
		v.T.Fatal(err)
	}
}

// TryStart is start that may fail: the process ends before it is ready.
func (v *Victim) TryStart() error {
	v.T.Helper()
	if err := v.Launch(); err != nil {
		return err
	}
	ended := false
	waittest.Until(v.T, "readiness", func() bool {
		select {
		case <-v.Exited:
			ended = true
			return true
		default:
			return v.IsReady()
		}
	})
	if ended {
		v.Cmd = nil
		said, _ := os.ReadFile(v.LogFile)
		return fmt.Errorf("the process has ended:\n%s", said[max(0, len(said)-2000):])
	}
	return nil
}

func (v *Victim) IsReady() bool {
	code, _ := v.Readiness()
	return code == http.StatusOK
}

// Readiness returns status and body of /readyz; 0 means that there was no answer.
func (v *Victim) Readiness() (code int, body string) {
	res, err := v.Client.Get("http://" + v.ready + "/readyz")
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(data)
}

// Metric reads one series of /metrics; -1: there is none.
func (v *Victim) Metric(name string) float64 {
	return (&Site{ConsoleURL: "http://" + v.ready}).Metric(name)
}

// Launch runs the process.
func (v *Victim) Launch() error {
	v.T.Helper()
	log, err := os.OpenFile(v.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	v.Exited = make(chan struct{})
	if isChild(v.Env) {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		v.Cmd = exec.Command(self)
		v.Cmd.Env = append(append(os.Environ(), childConfig+"="+v.ConfigFile), v.Env...)
		if _, err := v.Cmd.StdinPipe(); err != nil {
			return err
		}
	} else {
		v.Cmd = exec.Command("threeds", "serve", "--config", v.ConfigFile)
		v.Cmd.Env = append(os.Environ(), v.Env...)
	}
	v.Cmd.Stdout, v.Cmd.Stderr = log, log
	if err := v.Cmd.Start(); err != nil {
		v.Cmd = nil
		return err
	}
	go func() {
		_ = v.Cmd.Wait()
		close(v.Exited)
	}()
	return nil
}

func (v *Victim) Kill() {
	if v.Cmd == nil {
		return
	}
	_ = v.Cmd.Process.Kill()
	<-v.Exited
	v.Cmd = nil
	v.Client.CloseIdleConnections()
}

// Call posts to the API; status 0 means that no complete answer came.
func (v *Victim) Call(path string, body Object) (int, Object) {
	req, err := http.NewRequest(http.MethodPost, "http://"+v.APIAddress+path, strings.NewReader(string(Marshal(body))))
	if err != nil {
		v.T.Error(err)
		return 0, nil
	}
	req.Header.Set("APIKey", v.APIKey)
	res, err := v.Client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	var o Object
	data, err := io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(data, &o) != nil {
		return 0, nil
	}
	return res.StatusCode, o
}

// AuthenticationValue is an authentication value that belongs to one transaction.
func AuthenticationValue(id string) string {
	return "AAAB" + strings.ReplaceAll(id, "-", "")[:23] + "="
}

// ForEach calls f for all entries, sixteen at a time.
func ForEach(of map[string]Object, f func(id string, o Object)) {
	var group errgroup.Group
	group.SetLimit(16)
	for id, o := range of {
		group.Go(func() error {
			f(id, o)
			return nil
		})
	}
	_ = group.Wait()
}

// ReadCount is the number that the environment has for the long form of a test, and few otherwise.
func ReadCount(t *testing.T, name string, few int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a number of at least 1", name, text)
	}
	return n
}

func AnswerChallenge(areq Object) (int, []byte) { return 200, Marshal(ARes(areq, "C")) }

func OnPostgres(t *testing.T, url string) string {
	t.Helper()
	// The fewer connections, the faster a start.
	return fmt.Sprintf("store: {url: %q}\nkeys: %s", url+"&pool_max_conns=4", filepath.Join(t.TempDir(), "keys.json"))
}

// OnCitus is OnPostgres for a cluster of Citus.
func OnCitus(t *testing.T, url string) string {
	t.Helper()
	return strings.Replace(OnPostgres(t, url), "store: {", "store: {engine: citus, ", 1)
}

// IsLongForm reports whether the cluster's tests run as often as go -C testing run ./long cluster has them.
func IsLongForm() bool { return os.Getenv("CLUSTER") == "long" }

// HasRanges reports whether a node has the card ranges of all its directories. It is
// ready without them as soon as a PReq has failed, at whichever node.
func (n *Victim) HasRanges() bool {
	res, err := n.Client.Get("http://" + n.ready + "/readyz")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	return err == nil && res.StatusCode == http.StatusOK && !bytes.Contains(said, []byte(`"ranges of `))
}

func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Command runs the program with the configuration of a node.
func (n *Victim) Command(stdin string, args ...string) string {
	n.T.Helper()
	var out, errs strings.Builder
	if code := Run(n.T.Context(), append(args, "--config", n.ConfigFile), strings.NewReader(stdin), &out, &errs); code != 0 {
		n.T.Fatalf("%v: %d %s", args, code, errs.String())
	}
	return strings.TrimSpace(out.String())
}

// ManyRanges is a full set of 2.2.0 of which every range says the same letter.
func ManyRanges(preq Object, letter byte, n int) []byte {
	var b bytes.Buffer
	head := Marshal(Object{
		"messageType": "PRes", "messageVersion": preq["messageVersion"], "threeDSServerTransID": preq["threeDSServerTransID"],
		"dsTransID": NewUUID(), "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0",
	})
	b.Write(head[:len(head)-1])
	b.WriteString(`,"cardRangeData":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b,
			`{"startRange":"4%05d0000000000","endRange":"4%05d9999999999","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0","threeDSMethodURL":"https://acs.example/%c"}`,
			i, i, letter)
	}
	b.WriteString("]}")
	return b.Bytes()
}

func UseLab(v *Victim) *Victim {
	t := v.T
	t.Helper()
	text, err := os.ReadFile(v.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "min_refresh: 1s", "refresh: 1s\n    min_refresh: 1s", 1)
	changed = strings.Replace(changed, "versions: [2.1.0, 2.2.0, 2.3.1]", "versions: [2.1.0, 2.2.0]", 1)
	if err := os.WriteFile(v.ConfigFile, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return v
}

package browser

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/browsertest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A rehearsal is directory servers and issuers in one process, and a server in another.
type rehearsal struct {
	*rig.World
	dir    string
	docs   []string     // what docs/rehearsal.md gives to a shell, block by block
	client *http.Client // trusts ca.pem
}

// startRehearsal runs the two commands of docs/rehearsal.md from an empty directory. Only
// addresses are changed, and the results listener has a certificate of own, if any.
func startRehearsal(t *testing.T, own *rig.Authority) *rehearsal {
	t.Helper()
	empty := t.TempDir()
	r := &rehearsal{World: &rig.World{T: t}, dir: filepath.Join(empty, "lab"), docs: shellBlocks(t, "../../../docs/rehearsal.md")}
	launchLine := func(line string, more ...string) *rig.Process {
		words := strings.Fields(line)
		p := &rig.Process{T: t, Cmd: exec.Command(words[0], append(words[1:], more...)...)}
		p.Cmd.Dir = empty
		p.Start()
		return p
	}
	free := porttest.Addresses(t, 4)
	args := []string{"--listen", "127.0.0.1:0", "--directories-listen", "127.0.0.1:0"}
	if own != nil {
		ca := filepath.Join(t.TempDir(), "own.pem")
		rig.Must(t, os.WriteFile(ca, own.PEM(), 0o600))
		args = append(args, "--results-ca", ca)
	}
	directories := launchLine(r.docs[0], args...)
	waittest.Until(t, "the file ready", func() bool {
		text, err := os.ReadFile(filepath.Join(r.dir, "ready"))
		return err == nil && json.Unmarshal(text, &r.ReadyFile) == nil
	})
	r.API = "http://" + free[0]
	file := filepath.Join(r.dir, "threeds.yaml")
	text := string(rig.ReadFile(t, file))
	for i, address := range []string{"127.0.0.1:8080", "127.0.0.1:8443", "127.0.0.1:8090", "127.0.0.1:8091"} {
		if !strings.Contains(text, address) {
			t.Fatalf("threeds.yaml does not have %s", address)
		}
		text = strings.ReplaceAll(text, address, free[i])
	}
	if own != nil {
		cert, key := own.Write(r.dir, own.Issue("results.example"), "own")
		text = strings.ReplaceAll(text, "{cert: results.pem, key: results.key}", "{cert: "+cert+", key: "+key+"}")
	}
	rig.Must(t, os.WriteFile(file, []byte(text), 0o600))
	server := launchLine(r.docs[1])
	waittest.Until(t, "the card ranges", func() bool {
		res, err := http.Get("http://" + free[2] + "/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK && strings.Count(server.Log.String(), "card ranges refreshed") == len(r.DS)
	})
	var out, errs strings.Builder
	if code := rig.Run(t.Context(), []string{"key", "create", "--name", "My shop", "--config", file}, nil, &out, &errs); code != 0 {
		t.Fatalf("key create: %s", errs.String())
	}
	r.APIKey = strings.TrimSpace(out.String())
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(rig.ReadFile(t, filepath.Join(r.dir, "ca.pem")))
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		server.End(syscall.SIGTERM)
		directories.End(syscall.SIGTERM)
		if _, err := os.Stat(filepath.Join(r.dir, "ready")); err == nil {
			t.Error("the file ready is there after the end")
		}
	})
	return r
}

// authenticate sends the AReq of a card and returns the ARes.
func (r *rehearsal) authenticate(pan, status string, more rig.Object) rig.Object {
	r.T.Helper()
	crd := r.Preauth(pan)
	areq := rig.BrowserRequest("2.2.0", pan, crd.Text("threeDSServerTransID"), "N")
	code, ares := r.Post("/auth", areq.With(more))
	if code != 200 || ares.Text("transStatus") != status {
		r.T.Fatalf("/auth of %s: %d %v, want transStatus %s", pan, code, ares, status)
	}
	return ares
}

// submit posts a form to the issuer and returns the page.
func (r *rehearsal) submit(address string, fields url.Values) string {
	r.T.Helper()
	res, err := r.client.PostForm(address, fields)
	if err != nil {
		r.T.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		r.T.Fatalf("%s: %d, %v: %.300s", address, res.StatusCode, err, page)
	}
	return string(page)
}

// wantResult waits for the result of an authentication.
func (r *rehearsal) wantResult(ares rig.Object, status string) {
	r.T.Helper()
	var rreq rig.Object
	waittest.Until(r.T, "the result", func() bool {
		var code int
		code, rreq = r.Post("/postauth", rig.Object{"threeDSServerTransID": ares["threeDSServerTransID"]})
		return code == 200
	})
	if rreq.Text("messageType") != "RReq" || rreq.Text("transStatus") != status {
		r.T.Errorf("/postauth: %v, want an RReq with %s", rreq, status)
	}
}

// TestD87TwoCommandsServe: from an empty directory, two commands serve: card ranges are loaded,
// and cards are authenticated without a question, by a challenge over https, and decoupled.
func TestD87TwoCommandsServe(t *testing.T) {
	t.Parallel()
	r := startRehearsal(t, nil)
	if !strings.HasPrefix(r.ACS, "https://") {
		t.Errorf("the issuers' pages are at %s, want https", r.ACS)
	}
	t.Run("frictionless", func(t *testing.T) {
		if ares := r.authenticate("4000000000000103", "Y", nil); ares.Text("authenticationValue") == "" {
			t.Errorf("no authenticationValue: %v", ares)
		}
	})
	t.Run("challenge", func(t *testing.T) {
		ares := r.authenticate("4000000000000172", "C", nil)
		creq, _ := json.Marshal(rig.Object{
			"messageType": "CReq", "messageVersion": "2.2.0", "challengeWindowSize": "01",
			"threeDSServerTransID": ares["threeDSServerTransID"], "acsTransID": ares["acsTransID"],
		})
		page := r.submit(ares.Text("acsURL"), url.Values{"creq": {base64.RawURLEncoding.EncodeToString(creq)}})
		step := regexp.MustCompile(`name="step" value="(\d+)"`).FindStringSubmatch(page)
		action := regexp.MustCompile(`<form[^>]* action="([^"]+)"`).FindStringSubmatch(page)
		if step == nil || action == nil {
			t.Fatalf("no form for a code:\n%s", page)
		}
		base, err := url.Parse(ares.Text("acsURL"))
		rig.Must(t, err)
		to, err := base.Parse(action[1])
		rig.Must(t, err)
		r.submit(to.String(), url.Values{"step": {step[1]}, "code": {"123456"}, "action": {"submit"}})
		r.wantResult(ares, "Y")
	})
	t.Run("challenge in Chromium", r.testFirstHour)
	t.Run("decoupled", func(t *testing.T) {
		ares := r.authenticate("4000000000000183", "D", rig.Object{
			"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00005",
		})
		r.wantResult(ares, "Y")
	})
	t.Run("foreign client", r.testForeignClient)
}

// testFirstHour: who pastes what docs/rehearsal.md has for the third terminal completes a
// challenge in Chromium, at an issuer's page over https.
func (r *rehearsal) testFirstHour(t *testing.T) {
	for _, name := range []string{"sh", "curl", "openssl", "base64"} {
		rig.FindTool(t, name, "the first hour of docs/rehearsal.md")
	}
	session := "set -e\n" + r.docs[2] + readmeFunctions(t) + strings.Join(r.docs[3:6], "")
	if !strings.Contains(session, "\nchromium ") {
		t.Fatal("docs/rehearsal.md does not start a browser")
	}
	// The browser of the session waits for that of this test, and ends with the test.
	programs := t.TempDir()
	rig.Must(t, os.WriteFile(filepath.Join(programs, "chromium"), []byte(`#!/bin/sh
printf '%s\n' "$@" > "$0.new"
mv "$0.new" "$0.started"
while [ -e "$0" ] && [ ! -e "$0.closed" ]; do sleep 0.05; done
`), 0o700))
	shell := &rig.Process{T: t, Cmd: exec.Command("sh")}
	shell.Cmd.Dir = filepath.Dir(r.dir)
	shell.Cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	shell.Cmd.Stdin = strings.NewReader(strings.ReplaceAll(session, "http://127.0.0.1:8080", r.API))
	shell.Start()
	var arguments []string
	waittest.Until(t, "the browser of the session", func() bool {
		text, err := os.ReadFile(filepath.Join(programs, "chromium.started"))
		arguments = strings.Split(strings.TrimSpace(string(text)), "\n")
		return err == nil
	})
	trust := slices.IndexFunc(arguments, func(argument string) bool {
		return strings.HasPrefix(argument, "--ignore-certificate-errors-spki-list=")
	})
	if trust < 0 {
		t.Fatalf("the browser of the session trusts no authority: %q", arguments)
	}
	page := "file://" + arguments[len(arguments)-1]
	opened := browsertest.NewBrowser(t, arguments[trust], "--host-resolver-rules=MAP *.example 0.0.0.0")
	s := &shopper{t, opened}
	s.do(
		chromedp.Navigate(page), chromedp.Click(chromedp.CSS("button")),
		browsertest.WaitVisible(testID("challenge-code")), chromedp.SendKeys(testID("challenge-code"), "123456"),
	)
	at, err := chromedp.Run(s.ctx, chromedp.Evaluate[string]("location.href"))
	if rig.Must(t, err); !strings.HasPrefix(at, r.ACS+"/") {
		t.Errorf("the code is asked for at %s, want the issuer's page below %s", at, r.ACS)
	}
	s.do(chromedp.Click(testID("challenge-submit")))
	waittest.Until(t, "the way back to the shop", func() bool {
		at, err := chromedp.Run(s.ctx, chromedp.Evaluate[string]("location.href"))
		return err == nil && !strings.HasPrefix(at, r.ACS+"/challenge")
	})
	rig.Must(t, os.WriteFile(filepath.Join(programs, "chromium.closed"), nil, 0o600))
	<-shell.Exited
	lines := strings.Split(strings.TrimSpace(shell.Log.String()), "\n")
	var rreq rig.Object
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &rreq); err != nil || rreq.Text("messageType") != "RReq" ||
		rreq.Text("transStatus") != "Y" {
		t.Errorf("the session ends without an RReq with Y:\n%s", shell.Log)
	}
}

// readmeFunctions is what the README gives to a shell before its first question, without its
// key, and the function auth.
func readmeFunctions(t *testing.T) string {
	t.Helper()
	blocks := shellBlocks(t, "../../../README.md")
	first := regexp.MustCompile(`(?m)^KEY=.*\n`).ReplaceAllString(blocks[1], "")
	auth := slices.IndexFunc(blocks, func(b string) bool { return strings.HasPrefix(b, "auth() {") })
	if first == blocks[1] || auth < 0 {
		t.Fatal("README.md does not set KEY, or does not define auth")
	}
	return first + blocks[auth]
}

// TestD87ResultsCAIsTrusted: results come to a listener whose certificate is signed by an authority
// of --results-ca.
func TestD87ResultsCAIsTrusted(t *testing.T) {
	t.Parallel()
	r := startRehearsal(t, rig.NewAuthority(t))
	if strings.Contains(string(rig.ReadFile(t, filepath.Join(r.dir, "threeds.yaml"))), "{cert: results.pem") {
		t.Fatal("the results listener has the certificate of the sandbox")
	}
	ares := r.authenticate("4000000000000183", "D", rig.Object{
		"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00005",
	})
	r.wantResult(ares, "Y")
}

// testForeignClient: any 3DS Server gets an ARes with what foreign.json names, and without
// the client certificate of the scheme nothing.
func (r *rehearsal) testForeignClient(t *testing.T) {
	var foreign struct {
		Directories []map[string]string `json:"directories"`
	}
	rig.Must(t, json.Unmarshal(rig.ReadFile(t, filepath.Join(r.dir, "foreign.json")), &foreign))
	if len(foreign.Directories) != len(r.DS) {
		t.Fatalf("foreign.json has %d directories, want %d", len(foreign.Directories), len(r.DS))
	}
	for _, d := range foreign.Directories {
		if d["areq_url"] != r.DS[d["scheme"]] || d["preq_url"] != d["areq_url"] {
			t.Errorf("foreign.json: %v, want the address %s", d, r.DS[d["scheme"]])
		}
		if d["scheme"] != "visa" {
			continue
		}
		cert, err := tls.LoadX509KeyPair(filepath.Join(r.dir, d["client_cert"]), filepath.Join(r.dir, d["client_key"]))
		rig.Must(t, err)
		ca := x509.NewCertPool()
		ca.AppendCertsFromPEM(rig.ReadFile(t, filepath.Join(r.dir, d["server_ca"])))
		post := func(certs ...tls.Certificate) (rig.Object, error) {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca, Certificates: certs}}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			res, err := client.Post(d["areq_url"], "application/json; charset=utf-8", bytes.NewReader(r.sentAReq(t)))
			if err != nil {
				return nil, err
			}
			defer res.Body.Close()
			var o rig.Object
			return o, json.NewDecoder(res.Body).Decode(&o)
		}
		ares, err := post(cert)
		if err != nil || ares.Text("messageType") != "ARes" || ares.Text("transStatus") != "Y" {
			t.Errorf("with the certificate of foreign.json: %v, %v, want an ARes with Y", ares, err)
		}
		if got, err := post(); err == nil {
			t.Errorf("without a certificate: %v, want a connection that is refused", got)
		}
	}
}

// sentAReq is the AReq of a card as a server sends it, with a new id.
func (r *rehearsal) sentAReq(t *testing.T) []byte {
	t.Helper()
	ares := r.authenticate("4000000000000103", "Y", nil)
	res, err := http.Get(r.Control + "/exchanges?transID=" + ares.Text("threeDSServerTransID"))
	rig.Must(t, err)
	defer res.Body.Close()
	var all []struct{ Type, Body string }
	rig.Must(t, json.NewDecoder(res.Body).Decode(&all))
	for _, e := range all {
		var areq rig.Object
		if e.Type == "AReq" && json.Unmarshal([]byte(e.Body), &areq) == nil {
			return rig.Marshal(areq.With(rig.Object{"threeDSServerTransID": rig.NewUUID()}))
		}
	}
	t.Fatalf("the sandbox has seen no AReq: %v", all)
	return nil
}

// TestD87FlagsExclude: what only a sandbox with a server of its own can do is refused beside
// --directories, and so is --results-ca without it.
func TestD87FlagsExclude(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"sandbox --directories lab --data x":       "--data and --directories exclude each other",
		"sandbox --directories lab --rate-limit 1": "--rate-limit and --directories exclude each other",
		"sandbox --results-ca ca.pem":              "want --directories DIR with it",
	} {
		var out, errs strings.Builder
		if code := rig.Run(t.Context(), strings.Fields(line), nil, &out, &errs); code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("threeds %s: exit status %d, %s", line, code, errs.String())
		}
	}
}

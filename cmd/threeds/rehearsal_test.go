package main

import (
	"bytes"
	"context"
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
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/browsertest"
)

// A rehearsal is directory servers and issuers in one process, and a server in another.
type rehearsal struct {
	*world
	dir    string
	docs   []string     // what docs/rehearsal.md gives to a shell, block by block
	client *http.Client // trusts ca.pem
}

// startRehearsal runs the two commands of docs/rehearsal.md from an empty directory. Only
// addresses are changed, and the results listener has a certificate of own, if any.
func startRehearsal(t *testing.T, own *authority) *rehearsal {
	t.Helper()
	empty := t.TempDir()
	r := &rehearsal{world: &world{t: t}, dir: filepath.Join(empty, "lab"), docs: shellBlocks(t, "../../docs/rehearsal.md")}
	launchLine := func(line string, more ...string) *process {
		words := strings.Fields(line)
		p := &process{t: t, cmd: exec.Command(words[0], append(words[1:], more...)...)}
		p.cmd.Dir = empty
		p.start()
		return p
	}
	free := freeAddresses(t, 3)
	args := []string{"--listen", "127.0.0.1:0", "--directories-listen", "127.0.0.1:0"}
	if own != nil {
		ca := filepath.Join(t.TempDir(), "own.pem")
		must(t, os.WriteFile(ca, own.pem(), 0o600))
		args = append(args, "--results-ca", ca)
	}
	directories := launchLine(r.docs[0], args...)
	waitFor(t, "the file ready", func() bool {
		text, err := os.ReadFile(filepath.Join(r.dir, "ready"))
		return err == nil && json.Unmarshal(text, &r.ready) == nil
	})
	r.API = "http://" + free[0]
	file := filepath.Join(r.dir, "threeds.yaml")
	text := string(contents(t, file))
	for i, address := range []string{"127.0.0.1:8080", "127.0.0.1:8443", "127.0.0.1:9090"} {
		if !strings.Contains(text, address) {
			t.Fatalf("threeds.yaml does not have %s", address)
		}
		text = strings.ReplaceAll(text, address, free[i])
	}
	if own != nil {
		cert, key := own.write(r.dir, own.issue("results.example"), "own")
		text = strings.Replace(text, "{cert: results.pem, key: results.key}", "{cert: "+cert+", key: "+key+"}", 1)
	}
	must(t, os.WriteFile(file, []byte(text), 0o600))
	server := launchLine(r.docs[1])
	waitFor(t, "the card ranges", func() bool {
		res, err := http.Get("http://" + free[2] + "/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK && strings.Count(server.out.String(), "card ranges refreshed") == len(r.DS)
	})
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"key", "create", "--name", "Shop", "--config", file}, nil, &out, &errs); code != 0 {
		t.Fatalf("key create: %s", errs.String())
	}
	r.APIKey = strings.TrimSpace(out.String())
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(contents(t, filepath.Join(r.dir, "ca.pem")))
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		server.end(syscall.SIGTERM)
		directories.end(syscall.SIGTERM)
		if _, err := os.Stat(filepath.Join(r.dir, "ready")); err == nil {
			t.Error("the file ready is there after the end")
		}
	})
	return r
}

// authenticate sends the AReq of a card and returns the ARes.
func (r *rehearsal) authenticate(pan, status string, more object) object {
	r.t.Helper()
	crd := r.preauth(pan)
	areq := browser("2.2.0", pan, crd.text("threeDSServerTransID"), "N")
	code, ares := r.post("/auth", areq.with(more))
	if code != 200 || ares.text("transStatus") != status {
		r.t.Fatalf("/auth of %s: %d %v, want transStatus %s", pan, code, ares, status)
	}
	return ares
}

// submit posts a form to the issuer and returns the page.
func (r *rehearsal) submit(address string, fields url.Values) string {
	r.t.Helper()
	res, err := r.client.PostForm(address, fields)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %d, %v: %.300s", address, res.StatusCode, err, page)
	}
	return string(page)
}

// wantResult waits for the result of an authentication.
func (r *rehearsal) wantResult(ares object, status string) {
	r.t.Helper()
	var rreq object
	waitFor(r.t, "the result", func() bool {
		var code int
		code, rreq = r.post("/postauth", object{"threeDSServerTransID": ares["threeDSServerTransID"]})
		return code == 200
	})
	if rreq.text("messageType") != "RReq" || rreq.text("transStatus") != status {
		r.t.Errorf("/postauth: %v, want an RReq with %s", rreq, status)
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
		if ares := r.authenticate("4000000000000103", "Y", nil); ares.text("authenticationValue") == "" {
			t.Errorf("no authenticationValue: %v", ares)
		}
	})
	t.Run("challenge", func(t *testing.T) {
		ares := r.authenticate("4000000000000172", "C", nil)
		creq, _ := json.Marshal(object{
			"messageType": "CReq", "messageVersion": "2.2.0", "challengeWindowSize": "01",
			"threeDSServerTransID": ares["threeDSServerTransID"], "acsTransID": ares["acsTransID"],
		})
		page := r.submit(ares.text("acsURL"), url.Values{"creq": {base64.RawURLEncoding.EncodeToString(creq)}})
		step := regexp.MustCompile(`name="step" value="(\d+)"`).FindStringSubmatch(page)
		action := regexp.MustCompile(`<form[^>]* action="([^"]+)"`).FindStringSubmatch(page)
		if step == nil || action == nil {
			t.Fatalf("no form for a code:\n%s", page)
		}
		base, err := url.Parse(ares.text("acsURL"))
		must(t, err)
		to, err := base.Parse(action[1])
		must(t, err)
		r.submit(to.String(), url.Values{"step": {step[1]}, "code": {"123456"}, "action": {"submit"}})
		r.wantResult(ares, "Y")
	})
	t.Run("challenge in Chromium", r.testFirstHour)
	t.Run("decoupled", func(t *testing.T) {
		ares := r.authenticate("4000000000000183", "D", object{
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
		tool(t, name, "the first hour of docs/rehearsal.md")
	}
	session := "set -e\n" + r.docs[2] + readmeFunctions(t) + strings.Join(r.docs[3:6], "")
	if !strings.Contains(session, "\nchromium ") {
		t.Fatal("docs/rehearsal.md does not start a browser")
	}
	// The browser of the session waits for that of this test, for a minute, and ends with the test.
	programs := t.TempDir()
	must(t, os.WriteFile(filepath.Join(programs, "chromium"), []byte(`#!/bin/sh
printf '%s\n' "$@" > "$0.new"
mv "$0.new" "$0.started"
for n in $(seq 1200); do [ -e "$0" ] && [ ! -e "$0.closed" ] || exit 0; sleep 0.05; done
`), 0o700))
	shell := &process{t: t, cmd: exec.Command("sh")}
	shell.cmd.Dir = filepath.Dir(r.dir)
	shell.cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	shell.cmd.Stdin = strings.NewReader(strings.ReplaceAll(session, "http://127.0.0.1:8080", r.API))
	shell.start()
	var arguments []string
	waitFor(t, "the browser of the session", func() bool {
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
	ctx, cancel := context.WithTimeout(opened, time.Minute)
	defer cancel()
	s := &shopper{t, ctx}
	s.do(
		chromedp.Navigate(page), chromedp.Click(chromedp.CSS("button")),
		chromedp.WaitVisible(testID("challenge-code")), chromedp.SendKeys(testID("challenge-code"), "123456"),
	)
	at, err := chromedp.Run(s.ctx, chromedp.Evaluate[string]("location.href"))
	if must(t, err); !strings.HasPrefix(at, r.ACS+"/") {
		t.Errorf("the code is asked for at %s, want the issuer's page below %s", at, r.ACS)
	}
	s.do(chromedp.Click(testID("challenge-submit")))
	waitFor(t, "the way back to the shop", func() bool {
		at, err := chromedp.Run(s.ctx, chromedp.Evaluate[string]("location.href"))
		return err == nil && !strings.HasPrefix(at, r.ACS+"/challenge")
	})
	must(t, os.WriteFile(filepath.Join(programs, "chromium.closed"), nil, 0o600))
	<-shell.exited
	lines := strings.Split(strings.TrimSpace(shell.out.String()), "\n")
	var rreq object
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &rreq); err != nil || rreq.text("messageType") != "RReq" ||
		rreq.text("transStatus") != "Y" {
		t.Errorf("the session ends without an RReq with Y:\n%s", shell.out)
	}
}

// readmeFunctions is what the README gives to a shell before its first question, without its
// key, and the function auth.
func readmeFunctions(t *testing.T) string {
	t.Helper()
	blocks := shellBlocks(t, "../../README.md")
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
	r := startRehearsal(t, newAuthority(t))
	if strings.Contains(string(contents(t, filepath.Join(r.dir, "threeds.yaml"))), "{cert: results.pem") {
		t.Fatal("the results listener has the certificate of the sandbox")
	}
	ares := r.authenticate("4000000000000183", "D", object{
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
	must(t, json.Unmarshal(contents(t, filepath.Join(r.dir, "foreign.json")), &foreign))
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
		must(t, err)
		ca := x509.NewCertPool()
		ca.AppendCertsFromPEM(contents(t, filepath.Join(r.dir, d["server_ca"])))
		post := func(certs ...tls.Certificate) (object, error) {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca, Certificates: certs}}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			res, err := client.Post(d["areq_url"], "application/json; charset=utf-8", bytes.NewReader(r.sentAReq(t)))
			if err != nil {
				return nil, err
			}
			defer res.Body.Close()
			var o object
			return o, json.NewDecoder(res.Body).Decode(&o)
		}
		ares, err := post(cert)
		if err != nil || ares.text("messageType") != "ARes" || ares.text("transStatus") != "Y" {
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
	res, err := http.Get(r.Control + "/exchanges?transID=" + ares.text("threeDSServerTransID"))
	must(t, err)
	defer res.Body.Close()
	var all []struct{ Type, Body string }
	must(t, json.NewDecoder(res.Body).Decode(&all))
	for _, e := range all {
		var areq object
		if e.Type == "AReq" && json.Unmarshal([]byte(e.Body), &areq) == nil {
			return marshal(areq.with(object{"threeDSServerTransID": newUUID()}))
		}
	}
	t.Fatalf("the sandbox has seen no AReq: %v", all)
	return nil
}

// TestD87FlagsExclude: what only a sandbox with a server of its own can do is refused beside
// --directories, and so is --results-ca without it.
func TestD87FlagsExclude(t *testing.T) {
	for line, want := range map[string]string{
		"sandbox --directories lab --data x":       "--data and --directories exclude each other",
		"sandbox --directories lab --rate-limit 1": "--rate-limit and --directories exclude each other",
		"sandbox --results-ca ca.pem":              "want --directories DIR with it",
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), strings.Fields(line), nil, &out, &errs); code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("threeds %s: exit status %d, %s", line, code, errs.String())
		}
	}
}

package main

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
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A rehearsal is directory servers and issuers in one process, and a server in another.
type rehearsal struct {
	*world
	dir    string
	client *http.Client // trusts ca.pem
}

// startRehearsal runs both commands from an empty directory. Only the addresses of the
// server are changed in between, and its results listener has a certificate of own, if any.
func startRehearsal(t *testing.T, own *authority) *rehearsal {
	t.Helper()
	r := &rehearsal{world: &world{t: t}, dir: filepath.Join(t.TempDir(), "lab")}
	free := freeAddresses(t, 3)
	args := []string{"sandbox", "--directories", r.dir, "--listen", "127.0.0.1:0", "--directories-listen", "127.0.0.1:0"}
	if own != nil {
		ca := filepath.Join(t.TempDir(), "own.pem")
		must(t, os.WriteFile(ca, own.pem(), 0o600))
		args = append(args, "--results-ca", ca)
	}
	directories := launch(t, nil, args...)
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
	server := launch(t, nil, "serve", "--config", file)
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
	t.Run("decoupled", func(t *testing.T) {
		ares := r.authenticate("4000000000000183", "D", object{
			"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00005",
		})
		r.wantResult(ares, "Y")
	})
	t.Run("foreign client", r.testForeignClient)
}

// TestD87ResultsCAIsTrusted: results come to a listener whose certificate is signed by an authority
// of --results-ca.
func TestD87ResultsCAIsTrusted(t *testing.T) {
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

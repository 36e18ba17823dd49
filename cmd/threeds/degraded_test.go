package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/config"
)

// problems are what /readyz says is not well, and its status.
func (s *site) problems() (status string, problems map[string]string) {
	var got struct {
		Status   string
		Problems map[string]string
	}
	_ = json.Unmarshal([]byte(s.readiness()), &got)
	return got.Status, got.Problems
}

// wantProblem waits until /readyz names a part and says that the node is degraded.
func (s *site) wantProblem(part, text string) {
	s.t.Helper()
	waitFor(s.t, "problem "+part, func() bool {
		status, problems := s.problems()
		return status == "degraded" && strings.Contains(problems[part], text)
	})
	if got := s.metric(`threeds_degraded{what="` + part + `"}`); got != 1 {
		s.t.Errorf("threeds_degraded of %s is %v", part, got)
	}
	if !strings.Contains(s.log.String(), `"level":"ERROR","msg":"a part of the server is degraded","what":"`+part+`"`) {
		s.t.Errorf("the log has no error about %s:\n%s", part, s.log.String())
	}
}

// wantAuthentication checks that an /auth of testPAN is answered.
func (s *site) wantAuthentication() {
	s.t.Helper()
	if code, got := s.post("/auth", s.request("2.2.0")); code != 200 || got.text("transStatus") != "Y" {
		s.t.Errorf("/auth: %d %v", code, got)
	}
}

var (
	longAgo = time.Now().Add(-48 * time.Hour)
	justNow = time.Now().Add(-24 * time.Hour)
)

// TestD104ExpiredClientCertificateIsServedWith: one directory's certificate that is not
// valid degrades that directory. The others authenticate, and a reload is taken up.
func TestD104ExpiredClientCertificateIsServedWith(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string][2]time.Time{
		"has expired on":      {longAgo, justNow},
		"is not valid before": {time.Now().Add(24 * time.Hour), time.Now().Add(48 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			ca, other := newAuthority(t), newAuthority(t)
			s := startSite(t, ca, newWire(t, ca), plan{master: newWire(t, other), unready: true, prepare: func(dir string) {
				other.write(dir, other.issueFor("3dss.example", valid[0], valid[1]), "client2")
			}})
			s.wantProblem("directory mastercard", "directories[1].client_cert.cert: the certificate "+name)
			if got := s.metric(`threeds_degraded{what="directory visa"}`); got != 0 {
				t.Errorf("threeds_degraded of visa is %v", got)
			}
			waitFor(t, "the card ranges of visa", func() bool {
				_, problems := s.problems()
				return problems["ranges of visa"] == "" && problems["directories"] == ""
			})
			s.wantAuthentication()
			write(t, s.config, []byte(strings.Replace(s.text(), "requestor_id: ServerID", "requestor_id: AnotherID", 1)))
			waitFor(t, "the reload", func() bool { return s.metric(applied) == 1 })
			if sent := s.through(s.request("2.2.0")); sent.text("threeDSRequestorID") != "AnotherID" {
				t.Errorf("the configuration of before is in use: %v", sent["threeDSRequestorID"])
			}
			other.write(filepath.Dir(s.config), other.issue("3dss.example"), "client2")
			waitFor(t, "the end of the problem", func() bool { return s.metric(`threeds_degraded{what="directory mastercard"}`) == 0 })
		})
	}
}

// TestD104ExpiredListenerCertificatesAreServed: the listeners show their certificates
// though they have expired.
func TestD104ExpiredListenerCertificatesAreServed(t *testing.T) {
	ca := newAuthority(t)
	pages := freeAddress(t)
	browserTLS := fmt.Sprintf("browser: {listen: %q, url: \"https://pay.example\", tls: {cert: browser.pem, key: browser-key.pem}}", pages)
	s := startSite(t, ca, newWire(t, ca), plan{apiTLS: true, unready: true, sections: browserTLS, prepare: func(dir string) {
		ca.write(dir, ca.issueFor("pay.example", longAgo, justNow), "browser")
		ca.write(dir, ca.issueFor("api.example", longAgo, justNow), "api")
		ca.write(dir, ca.issueFor("results.example", longAgo, justNow), "results")
	}})
	s.wantProblem("api", "api.tls.cert: the certificate has expired on")
	s.wantProblem("results", "results.tls.cert: the certificate has expired on")
	s.wantProblem("browser", "browser.tls.cert: the certificate has expired on")
	for _, address := range []string{strings.TrimPrefix(s.API, "http://"), strings.TrimSuffix(strings.TrimPrefix(s.results, "https://"), "/results"), pages} {
		var shown *x509.Certificate
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{ca.issue("rreq.ds.example")}})
		if err != nil {
			t.Fatal(err)
		}
		shown = c.ConnectionState().PeerCertificates[0]
		_ = c.Close()
		if !time.Now().After(shown.NotAfter) {
			t.Errorf("%s shows a certificate that ends at %v", address, shown.NotAfter)
		}
	}
}

// TestD104ExpiredCAIsLoaded: an expired member of a bundle degrades its directory and
// leaves the other members good.
func TestD104ExpiredCAIsLoaded(t *testing.T) {
	ca := newAuthority(t)
	var old []byte
	s := startSite(t, ca, newWire(t, ca), plan{unready: true, prepare: func(dir string) {
		old = expiredCA(t)
		write(t, filepath.Join(dir, "ca.pem"), append(ca.pem(), old...))
	}})
	s.wantProblem("directory visa", "directories[0].server_ca: the certificate has expired on")
	waitFor(t, "the card ranges", func() bool {
		_, problems := s.problems()
		return problems["ranges of visa"] == "" && problems["directories"] == ""
	})
	s.wantAuthentication()
	areq, answer := s.challenged("2.2.0")
	if got := s.result(marshal(rreq(areq, answer, "Y"))); got.text("messageType") != "RRes" {
		t.Errorf("a result: %v", got)
	}
}

// expiredCA is a CA that has expired, in PEM.
func expiredCA(t *testing.T) []byte {
	t.Helper()
	ca := newAuthority(t)
	template := *ca.cert
	template.NotBefore, template.NotAfter = longAgo, justNow
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, ca.key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestD104ExpiredRootOfPAResIsLoaded: an expired root of signatures degrades its scheme of
// 3-D Secure 1.0.2 alone, and the other roots of the file stay good.
func TestD104ExpiredRootOfPAResIsLoaded(t *testing.T) {
	s := startLegacy(t, plan{unready: true, prepare: func(dir string) {
		config, err := os.ReadFile(filepath.Join(dir, "threeds.yaml"))
		must(t, err)
		_, rest, _ := strings.Cut(string(config), "{scheme: visa, directory_url")
		_, rest, _ = strings.Cut(rest, "pares_roots: ")
		file, _, _ := strings.Cut(rest, "}")
		roots, err := os.ReadFile(file)
		must(t, err)
		write(t, file, append(expiredRoot(t), roots...))
	}})
	s.wantProblem("v1 visa", "pares_roots: the certificate has expired on")
	req := s.enroll(purchase(v1Visa))
	if code, got := s.check("visa", req.Answer(v1Visa, "Y")); code != 200 || got.text("status") != "Y" {
		t.Errorf("/check: %d %v", code, got)
	}
	if _, problems := s.problems(); problems["v1 mastercard"] != "" {
		t.Errorf("mastercard: %s", problems["v1 mastercard"])
	}
}

// expiredRoot is a root of PARes signatures that has expired, in PEM.
func expiredRoot(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "Old Root"}, NotBefore: longAgo, NotAfter: justNow,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestD104UnreadableFileAtAReload: the directory whose file cannot be used keeps the
// former one, and all else of the new configuration counts. At the start it is refused.
func TestD104UnreadableFileAtAReload(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	master := newWire(t, other)
	s := startSite(t, ca, newWire(t, ca), plan{master: master})
	dir := filepath.Dir(s.config)
	other.write(dir, other.issue("3dss.example"), "spare")
	must(t, os.Rename(filepath.Join(dir, "spare-key.pem"), filepath.Join(dir, "client2-key.pem"))) // belongs to another certificate
	write(t, s.config, []byte(strings.Replace(s.text(), "requestor_id: ServerID", "requestor_id: AnotherID", 1)))
	s.wantProblem("directory mastercard", "directories[1].client_cert.key: the key does not belong to the certificate")
	if got := s.metric(refused); got != 0 {
		t.Errorf("%v reloads were refused", got)
	}
	if sent := s.through(s.request("2.2.0")); sent.text("threeDSRequestorID") != "AnotherID" {
		t.Errorf("the rest of the configuration is not in use: %v", sent["threeDSRequestorID"])
	}
	if _, _, err := config.Load(s.config, time.Now()); err == nil || !strings.Contains(err.Error(), "threeds.yaml:") || !strings.Contains(err.Error(), "directories[1].client_cert.key") {
		t.Errorf("at the start: %v", err)
	}
	res, err := http.Get(s.console + "/readyz")
	must(t, err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("/readyz is %d", res.StatusCode)
	}
	other.write(dir, other.issue("3dss.example"), "client2")
	waitFor(t, "the end of the problem", func() bool { return s.readiness() == `{"status":"ready"}` })
	for file, want := range map[string][2]string{
		"ca2.pem":     {"directory mastercard", "directories[1].server_ca: the file holds no certificate"},
		"results.pem": {"results", "results.tls.cert: open"},
	} {
		before, err := os.ReadFile(filepath.Join(dir, file))
		must(t, err)
		if file == "ca2.pem" {
			write(t, filepath.Join(dir, file), nil)
		} else {
			must(t, os.Remove(filepath.Join(dir, file)))
		}
		s.wantProblem(want[0], want[1])
		areq, answer := s.challenged("2.2.0")
		if got := s.result(marshal(rreq(areq, answer, "Y"))); got.text("messageType") != "RRes" {
			t.Errorf("%s: a result: %v", file, got)
		}
		write(t, filepath.Join(dir, file), before)
		waitFor(t, "the end of the problem", func() bool { return s.readiness() == `{"status":"ready"}` })
	}
}

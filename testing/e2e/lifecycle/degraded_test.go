package lifecycle

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD104ExpiredClientCertificateIsServedWith: one directory's certificate that is not
// valid degrades that directory. The others authenticate, and a reload is taken up.
func TestD104ExpiredClientCertificateIsServedWith(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string][2]time.Time{
		"has expired on":      {rig.LongAgo, rig.JustNow},
		"is not valid before": {time.Now().Add(24 * time.Hour), time.Now().Add(48 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca, other := rig.NewAuthority(t), rig.NewAuthority(t)
			s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Master: rig.NewWire(t, other), Unready: true, Prepare: func(dir string) {
				other.Write(dir, other.IssueFor("3dss.example", valid[0], valid[1]), "client2")
			}})
			s.WantProblem("directory mastercard", "directories[1].client_cert.cert: the certificate "+name)
			if got := s.Metric(`threeds_degraded{what="directory visa"}`); got != 0 {
				t.Errorf("threeds_degraded of visa is %v", got)
			}
			waittest.Until(t, "the card ranges of visa", func() bool {
				_, problems := s.Problems()
				return problems["ranges of visa"] == "" && problems["directories"] == ""
			})
			s.WantAuthentication()
			rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(s.ConfigText(), "requestor_id: ServerID", "requestor_id: AnotherID", 1)))
			s.HangUp()
			waittest.Until(t, "the reload", func() bool { return s.Metric(rig.ReloadApplied) == 1 })
			if sent := s.Through(s.Request("2.2.0")); sent.Text("threeDSRequestorID") != "AnotherID" {
				t.Errorf("the configuration of before is in use: %v", sent["threeDSRequestorID"])
			}
			other.Write(filepath.Dir(s.ConfigFile), other.Issue("3dss.example"), "client2")
			s.HangUp()
			waittest.Until(t, "the end of the problem", func() bool { return s.Metric(`threeds_degraded{what="directory mastercard"}`) == 0 })
		})
	}
}

// TestD104ExpiredListenerCertificatesAreServed: the listeners show their certificates
// though they have expired.
func TestD104ExpiredListenerCertificatesAreServed(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	pages := porttest.Address(t)
	browserTLS := fmt.Sprintf("browser: {listen: %q, url: \"https://pay.example\", tls: {cert: browser.pem, key: browser-key.pem}}", pages)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{APITLS: true, Unready: true, Sections: browserTLS, Prepare: func(dir string) {
		ca.Write(dir, ca.IssueFor("pay.example", rig.LongAgo, rig.JustNow), "browser")
		ca.Write(dir, ca.IssueFor("api.example", rig.LongAgo, rig.JustNow), "api")
		ca.Write(dir, ca.IssueFor("results.example", rig.LongAgo, rig.JustNow), "results")
	}})
	s.WantProblem("api", "api.tls.cert: the certificate has expired on")
	s.WantProblem("results", "results.tls.cert: the certificate has expired on")
	s.WantProblem("browser", "browser.tls.cert: the certificate has expired on")
	for _, address := range []string{strings.TrimPrefix(s.API, "http://"), strings.TrimSuffix(strings.TrimPrefix(s.ResultsURL, "https://"), "/results"), pages} {
		var shown *x509.Certificate
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{ca.Issue("rreq.ds.example")}})
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
	t.Parallel()
	ca := rig.NewAuthority(t)
	var old []byte
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Unready: true, Prepare: func(dir string) {
		old = rig.ExpiredCA(t)
		rig.WriteFile(t, filepath.Join(dir, "ca.pem"), append(ca.PEM(), old...))
	}})
	s.WantProblem("directory visa", "directories[0].server_ca: the certificate has expired on")
	waittest.Until(t, "the card ranges", func() bool {
		_, problems := s.Problems()
		return problems["ranges of visa"] == "" && problems["directories"] == ""
	})
	s.WantAuthentication()
	areq, answer := s.Challenged("2.2.0")
	if got := s.Result(rig.Marshal(rig.RReq(areq, answer, "Y"))); got.Text("messageType") != "RRes" {
		t.Errorf("a result: %v", got)
	}
}

// TestD104ExpiredRootOfPAResIsLoaded: an expired root of signatures degrades its scheme of
// 3-D Secure 1.0.2 alone, and the other roots of the file stay good.
func TestD104ExpiredRootOfPAResIsLoaded(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t, rig.Plan{Unready: true, Prepare: func(dir string) {
		config, err := os.ReadFile(filepath.Join(dir, "threeds.yaml"))
		rig.Must(t, err)
		_, rest, _ := strings.Cut(string(config), "{scheme: visa, directory_url")
		_, rest, _ = strings.Cut(rest, "pares_roots: ")
		file, _, _ := strings.Cut(rest, "}")
		roots, err := os.ReadFile(file)
		rig.Must(t, err)
		rig.WriteFile(t, file, append(expiredRoot(t), roots...))
	}})
	s.WantProblem("v1 visa", "pares_roots: the certificate has expired on")
	req := s.Enroll(rig.Purchase(rig.V1Visa))
	if code, got := s.Check("visa", req.Answer(rig.V1Visa, "Y")); code != 200 || got.Text("status") != "Y" {
		t.Errorf("/check: %d %v", code, got)
	}
	if _, problems := s.Problems(); problems["v1 mastercard"] != "" {
		t.Errorf("mastercard: %s", problems["v1 mastercard"])
	}
}

// expiredRoot is a root of PARes signatures that has expired, in PEM.
func expiredRoot(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	rig.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "Old Root"}, NotBefore: rig.LongAgo, NotAfter: rig.JustNow,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	rig.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestD104UnreadableFileAtAReload: the directory whose file cannot be used keeps the
// former one, and all else of the new configuration counts. At the start it is refused.
func TestD104UnreadableFileAtAReload(t *testing.T) {
	t.Parallel()
	ca, other := rig.NewAuthority(t), rig.NewAuthority(t)
	master := rig.NewWire(t, other)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Master: master})
	dir := filepath.Dir(s.ConfigFile)
	other.Write(dir, other.Issue("3dss.example"), "spare")
	rig.Must(t, os.Rename(filepath.Join(dir, "spare-key.pem"), filepath.Join(dir, "client2-key.pem"))) // belongs to another certificate
	rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(s.ConfigText(), "requestor_id: ServerID", "requestor_id: AnotherID", 1)))
	s.HangUp()
	s.WantProblem("directory mastercard", "directories[1].client_cert.key: the key does not belong to the certificate")
	if got := s.Metric(rig.ReloadRefused); got != 0 {
		t.Errorf("%v reloads were refused", got)
	}
	if sent := s.Through(s.Request("2.2.0")); sent.Text("threeDSRequestorID") != "AnotherID" {
		t.Errorf("the rest of the configuration is not in use: %v", sent["threeDSRequestorID"])
	}
	if _, _, err := config.Load(s.ConfigFile, time.Now()); err == nil || !strings.Contains(err.Error(), "threeds.yaml:") ||
		!strings.Contains(err.Error(), "directories[1].client_cert.key") {
		t.Errorf("at the start: %v", err)
	}
	res, err := http.Get(s.ConsoleURL + "/readyz")
	rig.Must(t, err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("/readyz is %d", res.StatusCode)
	}
	other.Write(dir, other.Issue("3dss.example"), "client2")
	s.HangUp()
	waittest.Until(t, "the end of the problem", func() bool { return s.Readiness() == `{"status":"ready"}` })
	for file, want := range map[string][2]string{
		"ca2.pem":     {"directory mastercard", "directories[1].server_ca: the file holds no certificate"},
		"results.pem": {"results", "results.tls.cert: open"},
	} {
		before, err := os.ReadFile(filepath.Join(dir, file))
		rig.Must(t, err)
		if file == "ca2.pem" {
			rig.WriteFile(t, filepath.Join(dir, file), nil)
		} else {
			rig.Must(t, os.Remove(filepath.Join(dir, file)))
		}
		s.HangUp()
		s.WantProblem(want[0], want[1])
		areq, answer := s.Challenged("2.2.0")
		if got := s.Result(rig.Marshal(rig.RReq(areq, answer, "Y"))); got.Text("messageType") != "RRes" {
			t.Errorf("%s: a result: %v", file, got)
		}
		rig.WriteFile(t, filepath.Join(dir, file), before)
		s.HangUp()
		waittest.Until(t, "the end of the problem", func() bool { return s.Readiness() == `{"status":"ready"}` })
	}
}

package pages_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
)

// TestK7CertificatesInTheConsole: an operator makes a key, sends the request away, installs the answer, tries it,
// brings it into use and goes back. A refusal is shown with what was typed. No page has a key.
func TestK7CertificatesInTheConsole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := s.AddNode()
	n.Directories[0].Managed = true
	ca := consoletest.NewCA(s.Site)
	s.want(s.get("viewer", "/certificates"), 200, "From files", "CN=3ds.example", "122 days")
	s.want(
		s.post("operator", "/certificates/visa", url.Values{"do": {"request"}, "key": {"p256"}, "subject": {"3ds.example"}}),
		400, "is not KEY=VALUE", `value="3ds.example"`)
	s.want(s.post("operator", "/certificates/visa", url.Values{
		"do": {"install"}, "certificate": {"-----BEGIN"}, "at": {"2028-01-31"},
	}), 400, "holds no certificate in PEM", "-----BEGIN</textarea>", `value="2028-01-31"`)
	s.want(s.post("operator", "/certificates/visa", url.Values{"do": {"install"}, "at": {"tomorrow"}}), 400, "The time needs a form such as")
	s.want(s.post("operator", "/certificates/visa", url.Values{"do": {"activate"}}), 400, "no certificate of visa waits to be activated")
	s.InstallCertificate(ca, "first.example", "")
	s.want(s.get("viewer", "/certificates"), 200, "waits to be activated")
	s.want(s.post("operator", "/certificates/visa", url.Values{"do": {"test"}}), 200,
		"The directory server took the certificate", "CN=first.example (next), to ds.visa.example:443", "TLS 1.3")
	s.want(s.post("operator", "/certificates/visa", url.Values{"do": {"activate"}}), 303)
	s.InstallCertificate(ca, "second.example", "2028-01-31T03:00")
	w := s.get("operator", "/certificates/visa?done=install")
	s.want(w, 200, "The certificate is installed.", "planned for 31 Jan 2028, 03:00:00 UTC", "CN=first.example", "CN=second.example", "Use it now")
	s.want(s.post("operator", "/certificates/visa", url.Values{"do": {"activate"}}), 303)
	s.want(s.post("operator", "/certificates/visa", url.Values{"do": {"rollback"}}), 303)
	page := s.get("operator", "/certificates/visa").Body.String()
	if first, second := strings.Index(page, "CN=first.example"), strings.Index(page, "CN=second.example"); first < 0 || second < first {
		t.Errorf("after the rollback the first is at %d and the second at %d", first, second)
	}
	if strings.Contains(page, "PRIVATE") || strings.Contains(w.Body.String(), "PRIVATE") {
		t.Error("a page has a key")
	}
	n.Problems["directory visa"] = "directories[0].client_cert: the certificate has expired"
	s.want(s.get("viewer", "/certificates/visa"), 200, "Degraded", "the certificate has expired")
	if body := s.get("viewer",
		"/certificates/visa").Body.String(); strings.Contains(body, "<button class=\"btn danger\"") ||
		strings.Contains(body, "Install a certificate") {
		t.Error("a viewer has buttons")
	}
	for _, action := range []string{"request", "install", "activate", "rollback"} {
		s.checkTrail("certificate."+action, "passkey:operator")
	}
}

// TestK7CertificateOfTheStoreIsNotInUseBesideFiles: while the configuration names files, the page calls no certificate
// of the store "in use". It does not say that nodes change over, and has no button that goes back.
func TestK7CertificateOfTheStoreIsNotInUseBesideFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := s.AddNode()
	ca := consoletest.NewCA(s.Site)
	for _, name := range []string{"first.example", "second.example"} {
		s.InstallCertificate(ca, name, "")
		s.want(s.get("operator", "/certificates/visa"), 200, `value="activate">Activate</button>`)
		s.want(s.post("operator", "/certificates/visa", url.Values{"do": {"activate"}}), 303)
	}
	untrue := []string{"In use", "in use. Nodes", "change over", `value="rollback"`}
	for _, done := range []string{"", "?done=activate", "?done=rollback"} {
		w := s.get("operator", "/certificates/visa"+done)
		s.want(w, 200, "In the store, not used", "CN=second.example", "CN=first.example", `value="test"`)
		for _, text := range untrue {
			if page, _, _ := strings.Cut(w.Body.String(), "<h2>Install a certificate"); strings.Contains(page, text) {
				t.Errorf("/certificates/visa%s has %q", done, text)
			}
		}
	}
	s.want(s.get("operator", "/certificates/visa?done=activate"), 200, "activated in the store. The directory goes on with its files.")
	n.Directories[0].Managed = true
	w := s.get("operator", "/certificates/visa?done=activate")
	s.want(w, 200, "<h2>In use</h2>", "The certificate is in use. Nodes change over within seconds.", `value="rollback"`)
}

// TestK7MatrixIsExact gets and sends each page of certificates as each role, and without csrf.
func TestK7MatrixIsExact(t *testing.T) {
	t.Parallel()
	withNode := func() *site {
		s := newSite(t)
		s.AddNode()
		return s
	}
	changesNothing := withNode()
	for at, want := range map[string][6]int{
		"GET /certificates":              {200, 200, 200, 403, 403, 403},
		"GET /certificates/visa":         {200, 200, 200, 403, 403, 403},
		"GET /certificates/jcb":          {404, 404, 404, 403, 403, 403},
		"POST /certificates/visa?p256":   {403, 303, 303, 403, 403, 403},
		"POST /certificates/visa?remove": {403, 404, 404, 403, 403, 403},
	} {
		method, path, _ := strings.Cut(at, " ")
		path, word, _ := strings.Cut(path, "?")
		for i, caller := range callers() {
			s := changesNothing
			if method == "POST" && want[i] < 400 {
				s = withNode()
			}
			w := s.get(caller, path)
			if method == "POST" {
				if w := s.serve(caller, httptest.NewRequest(method, path, nil)); w.Code != 403 {
					t.Errorf("%s as %s without csrf: %d", at, caller, w.Code)
				}
				form := url.Values{"do": {"request"}, "key": {word}}
				if word == "remove" {
					form.Set("do", word)
				}
				w = s.post(caller, path, form)
			}
			if w.Code != want[i] {
				t.Errorf("%s as %s: %d, want %d", at, caller, w.Code, want[i])
			}
		}
	}
}

// TestK1AttacksInCertificatesAreText: in what is typed.
func TestK1AttacksInCertificatesAreText(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.AddNode()
	const attack = `CN="><script>alert(1)</script>`
	for _, form := range []url.Values{
		{"do": {"request"}, "subject": {attack + ",X=y"}, "key": {"p256"}},
		{"do": {"install"}, "certificate": {"</textarea>" + attack}, "at": {attack}},
	} {
		if w := s.post("operator", "/certificates/visa", form); w.Code != 400 || strings.Contains(w.Body.String(), "<script>alert") {
			t.Errorf("%v: %d %s", form, w.Code, w.Body)
		}
	}
	w := s.post("operator", "/certificates/visa", url.Values{"do": {"request"}, "subject": {attack}, "key": {"p256"}})
	s.want(w, 303)
	if body := s.get("operator", "/certificates/visa").Body.String(); strings.Contains(body, "<script>alert") || !strings.Contains(body, "&gt;alert(1)") {
		t.Errorf("the page: %d bytes", len(body))
	}
}

package config

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/internal/base/txtartest"
	"github.com/openthreeds/threeds/internal/protocol/transid"
)

var update = flag.Bool("update", false, "rewrite the files that tests compare with")

// noon is the time that the certificates of these tests are made around.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// TestConfig loads threeds.yaml of each archive in testdata/config, among
// certificates made for it, and compares everything that is said of it.
func TestConfig(t *testing.T) {
	files, err := filepath.Glob("testdata/config/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	certs := certificates(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtartest.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			for name, data := range certs {
				write(t, filepath.Join(dir, name), data)
			}
			want := (*txtartest.File)(nil)
			for i := range a.Files {
				if a.Files[i].Name == "want" {
					want = &a.Files[i]
				} else {
					write(t, filepath.Join(dir, a.Files[i].Name), a.Files[i].Data)
				}
			}
			if want == nil {
				a.Files = append(a.Files, txtartest.File{Name: "want"})
				want = &a.Files[len(a.Files)-1]
			}
			got := strings.ReplaceAll(said(filepath.Join(dir, "threeds.yaml")), dir+string(filepath.Separator), "")
			if *update {
				want.Data = []byte(got)
				write(t, file, txtartest.Format(a))
				return
			}
			if diff := difftest.Diff(string(want.Data), got); diff != "" {
				t.Errorf("said of threeds.yaml (-want +got):\n%s", diff)
			}
		})
	}
}

// loadConfig reads a file as serve does.
func loadConfig(file string, now time.Time) (_ *Config, warnings []string, _ error) {
	c, _, err := Load(file, now)
	if err != nil {
		return nil, nil, err
	}
	return c, c.Warnings, nil
}

// said is what loading the file says: faults, or warnings and "ok".
func said(file string) string {
	_, warnings, err := loadConfig(file, noon)
	if err != nil {
		return err.Error() + "\n"
	}
	for i := range warnings {
		warnings[i] = "warning: " + warnings[i]
	}
	return strings.Join(append(warnings, "ok"), "\n") + "\n"
}

// fullConfig is the configuration that names everything, in a file of its own with all
// the files that it names.
func fullConfig(t *testing.T) (file string, c *Config) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range certificates(t) {
		write(t, filepath.Join(dir, name), data)
	}
	a, err := txtartest.ParseFile("testdata/config/full.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		write(t, filepath.Join(dir, f.Name), f.Data)
	}
	file = filepath.Join(dir, "threeds.yaml")
	if c, _, err = loadConfig(file, noon); err != nil {
		t.Fatal(err)
	}
	return file, c
}

func TestConfigValues(t *testing.T) {
	file, c := fullConfig(t)
	dir := filepath.Dir(file)
	for _, tt := range []struct {
		key       string
		got, want any
	}{
		{"store.url", c.Store.URL, StoreURL{Dir: filepath.Join(dir, "threeds-data")}},
		{"keys", c.Keys, filepath.Join(dir, "keys.json")},
		{"limits.per_key", c.Limits.PerKey, Rate{Count: 30, Per: time.Minute}},
		{"limits.per_key, per second", c.Limits.PerKey.PerSecond(), 0.5},
		{"limits.body (default)", c.Limits.Body, 64 << 10},
		{"limits.auth_body", c.Limits.AuthBody, 1 << 20},
		{"server.reference_numbers", c.Server.ReferenceNumbers, map[string]string{"2.2.0": "3DS_LOA_SER_0001"}},
		{"timeouts.decoupled_result (default)", c.Timeouts.DecoupledResult, 20 * time.Minute},
		{"merchants[0].acquirer_country", c.Merchants[0].AcquirerCountry, "208"},
		{"merchants[0].transliterate", c.Merchants[0].Transliterate, true},
		{"merchants[0].per_directory", c.Merchants[0].PerDirectory, map[string]Identity{
			"visa": {RequestorID: "visa-7", AcquirerBIN: "400551", AcquirerMerchantID: "M-1"}}},
		{"merchants[0].mcc", c.Merchants[0].MCC, "0742"},
		{"merchants[0].origins", c.Merchants[0].Origins, []string{"https://shop.example", "https://pay.shop.example", "http://localhost:8000"}},
		{"merchants[0].page.logo", c.Merchants[0].Page.Logo.MediaType, "image/svg+xml"},
		{"merchants[0].page.colour", c.Merchants[0].Page.Colour, "#0a5c36"},
		{"directories[0].versions", c.Directories[0].Versions, []string{"2.1.0", "2.2.0", "2.3.1"}},
		{"directories[0].refresh", c.Directories[0].Refresh, 4 * time.Hour},
		{"directories[0].client_cert", len(c.Directories[0].ClientCert.Certificate.Certificate), 1},
		{"directories[0].results.url", c.Directories[0].Results.URL, "https://visa.acquirer.example/results"},
		{"webhooks.operator[0].url", c.Webhooks.Operator[0].URL, "http://10.1.2.3/threeds"},
		{"webhooks.operator[0].secret", c.Webhooks.Operator[0].Secret.Key.Text(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
		{"webhooks.operator[0].types", c.Webhooks.Operator[0].Types, []api.EventType{"ranges.stale", "webhook.disabled"}},
		{"v1[0].allow_sha1", c.V1[0].AllowSHA1, true},
		{"v1[0].min_key_bits", c.V1[0].MinKeyBits, 1024},
		{"v1[0].verify_at", c.V1[0].VerifyAt, "signing_time"},
		{"v1[0].card_ranges", c.V1[0].CardRanges.AcquirerBIN, "400551"},
		{"v1[0].pares_roots", len(c.V1[0].PAResRoots.Roots), 1},
		{"v1[1].allow_sha1 (default)", c.V1[1].AllowSHA1, false},
		{"v1[1].min_key_bits (default)", c.V1[1].MinKeyBits, 2048},
		{"v1[1].verify_at (default)", c.V1[1].VerifyAt, "now"},
	} {
		if diff := difftest.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.key, diff)
		}
	}
	if c.Directories[0].ServerCA.Pool == nil || c.Directories[0].ClientCA.Pool == nil {
		t.Error("directories[0]: CA pools are not filled")
	}
}

// TestPublicKeys: a private key, or a password, that everybody may read is a warning; one that a
// group may read is how a manager of services hands it out.
func TestPublicKeys(t *testing.T) {
	file, c := fullConfig(t)
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		for _, secret := range []string{c.Results.TLS.Key, c.ForwardProxy.Credentials, c.Tracing.Headers, c.Webhooks.Operator[0].Secret.File} {
			if err := os.Chmod(secret, mode); err != nil {
				t.Fatal(err)
			}
		}
		text := said(file)
		for _, warning := range []string{"results.tls.key: every user of this machine may read the key",
			"forward_proxy.credentials: every user of this machine may read the password",
			"tracing.headers: every user of this machine may read the headers",
			"webhooks.operator[0].secret: every user of this machine may read the secret"} {
			if got := strings.Contains(text, warning); got != want {
				t.Errorf("mode %v: is there a warning: %v, want %v; %s", mode, got, want, text)
			}
		}
	}
}

// TestD50SecretOfAgentsIsChecked: a secret that cannot be used is a fault that names the key and the file, says what to
// do, and shows nothing of the secret.
func TestD50SecretOfAgentsIsChecked(t *testing.T) {
	for name, tt := range map[string]struct{ content, want string }{
		"short":   {"hunter2-hunter2", "has less than 16 bytes: make one by openssl rand -hex 32"},
		"blanks":  {strings.Repeat(" ", 40) + "\n", "has less than 16 bytes"},
		"empty":   {"", "has less than 16 bytes"},
		"missing": {"-", "no such file"},
		"good":    {"hunter2-hunter2-\n", ""},
	} {
		file, c := fullConfig(t)
		secret := c.ACP.Signature.File
		if err := os.Remove(secret); err != nil {
			t.Fatal(err)
		}
		if tt.content != "-" {
			write(t, secret, []byte(tt.content))
		}
		text := said(file)
		isRefused := strings.Contains(text, "acp.signature: ") && strings.Contains(text, filepath.Base(secret)) && strings.Contains(text, tt.want)
		if (tt.want == "") != strings.HasSuffix(text, "ok\n") || tt.want != "" && !isRefused || strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s, want %q", name, text, tt.want)
		}
	}
}

// TestPublicSecretsOfTheDatabase: the same of what the URL of the database names.
func TestPublicSecretsOfTheDatabase(t *testing.T) {
	file, _ := fullConfig(t)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const given, database = `"file:threeds-data"`, `"postgres://u@localhost/threeds?passfile=pgpass&sslkey=db.key"`
	if !bytes.Contains(data, []byte(given)) {
		t.Fatal("the configuration has another store")
	}
	write(t, file, bytes.Replace(data, []byte(given), []byte(database), 1))
	for _, secret := range []struct{ name, file string }{{"passfile", "pgpass"}, {"sslkey", "db.key"}} {
		path := filepath.Join(filepath.Dir(file), secret.file)
		write(t, path, []byte("secret"))
		for mode, want := range map[os.FileMode]bool{0o600: false, 0o440: false, 0o644: true} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			text := said(file)
			if got := strings.Contains(text, "store.url: every user of this machine may read the "+secret.name+": chmod o-r "+path); got != want {
				t.Errorf("%s, mode %v: is there a warning: %v, want %v; %s", secret.name, mode, got, want, text)
			}
		}
	}
}

// TestBounds: values at the bounds of what is allowed, and just beyond.
func TestBounds(t *testing.T) {
	long := "https://ds.example/" + strings.Repeat("x", 2048-len("https://ds.example/"))
	checkBounds(t, httpsURL, []string{"https://a:1", "https://a:65535", long},
		[]string{"https://a:0", "https://a:65536", "https://a:99999999999999999999", long + "x"})
	checkBounds(t, count(2, 5), []string{"2", "5"}, []string{"1", "6"})
	checkBounds(t, duration("2s", "5s"), []string{"2s", "5s"}, []string{"1999ms", "5001ms"})
	checkBounds(t, size("1KiB", "1MiB"), []string{"1024", "1024KiB"}, []string{"1023", "1048577", "2MiB"})
	checkBounds(t, text(2, 5), []string{"ab", "a bcd", "\u00e6\u00f8\u00e5"}, []string{"a", "abcdef", "ab ", "a\u0007b", "a\u200bb"})
	store := (&loader{dir: t.TempDir()}).storeURL()
	checkBounds(t, store, []string{"postgres://a/b", "postgres:///b?host=/run"}, []string{"postgres:b", "postgres:///b", "postgres://a", "postgres://a/"})
}

func checkBounds[T any](t *testing.T, k kind[T], good, bad []string) {
	t.Helper()
	for _, s := range good {
		if _, err := k.parse(s); err != nil {
			t.Errorf("%s: %.40q: %v", k.want, s, err)
		}
	}
	for _, s := range bad {
		if got, err := k.parse(s); err == nil {
			t.Errorf("%s: %.40q is taken, as %v", k.want, s, got)
		}
	}
}

// TestValidityOfCertificates: a certificate is of use neither before its time nor after it.
func TestValidityOfCertificates(t *testing.T) {
	end := noon.Add(2 * Soon)
	for after, want := range map[time.Duration]struct {
		said string
		bad  bool
	}{
		-time.Second: {"is not valid before 2026-06-01", true}, 0: {}, Soon: {},
		Soon + time.Second: {"expires on " + end.Format("2006-01-02"), false}, 2 * Soon: {"expires on " + end.Format("2006-01-02"), false},
		2*Soon + time.Second: {"has expired on " + end.Format("2006-01-02"), true},
	} {
		if said, bad := describeValidity(noon, end, noon.Add(after)); said != want.said || bad != want.bad {
			t.Errorf("after %v: %q, %t; want %q, %t", after, said, bad, want.said, want.bad)
		}
	}
}

// TestPostgresURL: what is in the URL of a database comes to the driver as it was
// meant, with spaces and plus signs; so do files, wherever the configuration is.
func TestPostgresURL(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with space")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "pass+word file"), []byte("db1:5432:threeds:node:geheim\n"))
	got, err := parseStore("postgres://node@db1/threeds?sslmode=disable&default_transaction_isolation=read%20committed&passfile=pass+word%20file", dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := pgxpool.ParseConfig(got.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.ConnConfig.RuntimeParams["default_transaction_isolation"]; got != "read committed" {
		t.Errorf("default_transaction_isolation is %q", got)
	}
	if cfg.ConnConfig.Password != "geheim" {
		t.Error("the password was not found")
	}
}

// FuzzConfig: whatever the file says, the answer is a config or complaints that
// each name a place in it, and no complaint quotes what looks like a secret.
func FuzzConfig(f *testing.F) {
	files, _ := filepath.Glob("testdata/config/*.txtar")
	for _, file := range files {
		a, err := txtartest.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(a.Files[0].Data)
	}
	place := regexp.MustCompile(`^threeds\.yaml:[1-9][0-9]*:[1-9][0-9]*: .`)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := Parse("threeds.yaml", data)
		var faults Faults
		if err != nil && !errors.As(err, &faults) {
			t.Fatalf("an error of another type: %v", err)
		}
		for _, fault := range faults {
			if !place.MatchString(fault.String()) {
				t.Errorf("%q does not name its place", fault)
			}
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents are those of a file.
func contents(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	return data
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// sharedCertificates are those that makeCertificates made first. Most tests do with them.
var sharedCertificates map[string][]byte

// certificates are files that configurations name, the same ones for all tests.
func certificates(t *testing.T) map[string][]byte {
	t.Helper()
	if sharedCertificates == nil {
		sharedCertificates = makeCertificates(t)
	}
	return sharedCertificates
}

// makeCertificates makes files that configurations name, most of them PEM, good and bad.
func makeCertificates(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	year := 365 * 24 * time.Hour
	ca := newCert(t, files, "ca", nil, noon.Add(year))
	newCert(t, files, "server", ca, noon.Add(year), x509.ExtKeyUsageServerAuth)
	newCert(t, files, "client", ca, noon.Add(year), x509.ExtKeyUsageClientAuth)
	newCert(t, files, "expired", ca, noon.Add(-time.Hour), x509.ExtKeyUsageServerAuth)
	newCert(t, files, "ending", ca, noon.Add(time.Hour), x509.ExtKeyUsageServerAuth)
	newLists(t, files, ca)
	newRoot(t, files, noon.Add(year), "root", "renewed")
	newRoot(t, files, noon.Add(-time.Hour), "oldroot")
	files["proxy.secret"] = []byte("threeds:hush\n")
	files["collector.secret"] = []byte("X-Token: hush\n")
	files["nothing.pem"] = []byte("nothing of the kind\n")
	files["torn.pem"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("torn")})
	files["chain.pem"] = slices.Concat(files["server.pem"], files["expired.pem"], files["ending.pem"], files["ca.pem"])
	files["all.pem"] = slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS"}), files["client.pem"], files["client.key"])
	files["cut.pem"] = slices.Concat(files["ca.pem"], files["server.pem"][:200])
	files["moved.pem"] = slices.Concat([]byte(" "), files["ca.pem"])
	files["commented.pem"] = slices.Concat([]byte("# -----BEGIN CERTIFICATE-----\n"), files["ca.pem"])
	files["sealed.key"] = pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("?")})
	files["sealed1.key"] = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"DEK-Info": "AES-256-CBC,00"}, Bytes: []byte("?")})
	return files
}

// newLists makes files of revocation lists, good and bad, by name, and those of CAs that
// it takes for them: below.pem of one under ca, both.pem of the two, deep.pem of one under
// below, three.pem of all, four.pem with a second one of the name and key of below, and
// strange.pem of the two and one that another CA of that name has signed, numbered as below.
func newLists(t *testing.T, files map[string][]byte, ca *signer) {
	t.Helper()
	below, other := newCert(t, files, "below", ca, noon.Add(365*24*time.Hour)), newCert(t, files, "other", nil, noon.Add(365*24*time.Hour))
	below.cert.IsCA = true
	files["below.pem"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed(t, below.cert, below.key, ca)})
	files["both.pem"] = slices.Concat(files["ca.pem"], files["below.pem"])
	deep := newCert(t, files, "deep", below, noon.Add(365*24*time.Hour))
	deep.cert.IsCA = true
	files["deep.pem"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed(t, deep.cert, deep.key, below)})
	files["three.pem"] = slices.Concat(files["deep.pem"], files["both.pem"])
	twin := *below.cert
	twin.SerialNumber = big.NewInt(1 << 32)
	files["four.pem"] = slices.Concat(files["three.pem"],
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed(t, &twin, below.key, &signer{&twin, below.key})}))
	strange := *below.cert
	strange.Subject.CommonName = "strange"
	files["strange.pem"] = slices.Concat(files["both.pem"],
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed(t, &strange, below.key, &signer{ca.cert, other.key})}))
	const day = 24 * time.Hour
	list := func(name string, by *signer, from, to time.Duration, change func(*x509.RevocationList)) []byte {
		l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: noon.Add(from), NextUpdate: noon.Add(to)}
		if change != nil {
			change(l)
		}
		issuer := &x509.Certificate{RawSubject: rawName(t, by.cert), KeyUsage: x509.KeyUsageCRLSign, SubjectKeyId: []byte("id")}
		der, err := x509.CreateRevocationList(rand.Reader, l, issuer, by.key)
		if err != nil {
			t.Fatal(err)
		}
		files[name+".crl"] = pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
		return der
	}
	files["der.crl"] = list("ca", ca, -day, day, nil)
	list("late", ca, -2*day, -day, nil)
	list("early", ca, day, 2*day, nil)
	list("below", below, -day, day, nil)
	list("revoked", ca, -day, day, func(l *x509.RevocationList) {
		for _, cert := range []*x509.Certificate{below.cert, ca.cert} { // itself, too, which changes nothing
			l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: noon})
		}
	})
	list("forged", &signer{ca.cert, other.key}, -day, day, nil)
	list("delta", ca, -day, day, func(l *x509.RevocationList) {
		l.ExtraExtensions = []pkix.Extension{{Id: []int{2, 5, 29, 27}, Critical: true, Value: []byte{2, 1, 1}}}
	})
	files["all.crl"] = slices.Concat(files["ca.crl"], files["late.crl"], files["below.crl"])
}

// rawName is the name of a certificate as its own signature covers it.
func rawName(t *testing.T, c *x509.Certificate) []byte {
	t.Helper()
	der, err := asn1.Marshal(c.Subject.ToRDNSequence())
	if err != nil {
		t.Fatal(err)
	}
	return der
}

type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newCert makes NAME.pem and NAME.key, signed by ca, or by itself as a CA.
func newCert(t *testing.T, files map[string][]byte, name string, ca *signer, end time.Time, uses ...x509.ExtKeyUsage) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(files) + 1)), Subject: pkix.Name{CommonName: name},
		NotBefore: noon.Add(-365 * 24 * time.Hour), NotAfter: end,
		ExtKeyUsage: uses, DNSNames: []string{name + ".example"},
		IsCA: ca == nil, BasicConstraintsValid: true,
	}
	by := &signer{c, key}
	if ca != nil {
		by = ca
	}
	der := signed(t, c, key, by)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files[name+".pem"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	files[name+".key"] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	return &signer{c, key}
}

func signed(t *testing.T, c *x509.Certificate, key *ecdsa.PrivateKey, by *signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, by.cert, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// newRoot makes NAME.pem for each name: certificates of one root of PARes
// signatures, which has the first name.
func newRoot(t *testing.T, files map[string][]byte, end time.Time, names ...string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: names[0]}, IsCA: true, BasicConstraintsValid: true,
			NotBefore: noon.Add(-365 * 24 * time.Hour), NotAfter: end, KeyUsage: x509.KeyUsageCertSign,
		}
		der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		files[name+".pem"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
}

// TestSecretsAreNotQuoted puts a key where its path belongs.
func TestSecretsAreNotQuoted(t *testing.T) {
	secret := certificates(t)["server.key"]
	text := "results:\n  tls:\n    key: |\n" + regexp.MustCompile(`(?m)^`).ReplaceAllString(string(bytes.TrimSpace(secret)), "      ") + "\n"
	l := parseConfig("threeds.yaml", []byte(text))
	got := fmt.Sprint(l.err())
	if !strings.Contains(got, "results.tls.key: is not the path of a file") {
		t.Errorf("a key in place of its path is not told apart:\n%s", got)
	}
	for line := range strings.Lines(string(secret)) {
		if strings.Contains(got, strings.TrimSpace(line)) {
			t.Fatal("a complaint quotes the key")
		}
	}
}

// TestFileMustBeUTF8: a byte order mark is no part of the first key, and what is not UTF-8 is
// refused with its place, for it would go out as something else.
func TestFileMustBeUTF8(t *testing.T) {
	const good = "log: {level: warn}\nserver: {requestor_name: Café}\n"
	for name, data := range map[string][]byte{"plain": []byte(good), "with a mark": []byte("\ufeff" + good)} {
		l := parseConfig("threeds.yaml", data)
		if c := l.config; c.Log.Level != "warn" || c.Server.RequestorName != "Café" {
			t.Errorf("%s: %q, %q; %v", name, c.Log.Level, c.Server.RequestorName, l.err())
		}
	}
	latin1 := []byte(strings.ReplaceAll(good, "é", "\xe9"))
	if got, want := fmt.Sprint(parseConfig("threeds.yaml", latin1).err()), "threeds.yaml:2:29: not UTF-8 (save the file in that encoding)"; got != want {
		t.Errorf("Latin-1: %s, want %s", got, want)
	}
	if _, err := text(1, 100).parse("Caf\xe9"); err == nil {
		t.Error("a name that is not UTF-8 is taken from the command line")
	}
}

// TestPreauthFitsIntoAnID: what an id has no room for cannot be configured.
func TestPreauthFitsIntoAnID(t *testing.T) {
	text := fmt.Sprintf("timeouts: {preauth: %ds}\n", int(transid.MaxLife.Seconds())+1)
	if err := parseConfig("threeds.yaml", []byte(text)).err(); err == nil || !strings.Contains(err.Error(), "timeouts.preauth") {
		t.Errorf("taken: %s", text)
	}
}

package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/state/store/postgres"
)

// checkRelations checks values against each other.
func (l *loader) checkRelations() {
	c := l.config
	l.checkKeyHelper()
	if c.Keys == "" && c.Store.URL.Dir != "" {
		c.Keys = filepath.Join(c.Store.URL.Dir, "keys.json")
	}
	if j := &c.Journal; j.Keys == "" {
		dir := c.Store.URL.Dir
		if dir == "" {
			dir = filepath.Dir(c.Keys)
		}
		j.Keys = filepath.Join(dir, "journal-keys.json")
	}
	if c.Store.URL.Postgres != "" {
		c.Store.URL.Engine = c.Store.Engine
		if l.positions["keys"] == nil {
			l.fault("keys", "missing (with PostgreSQL all nodes have the same key file, so there is no default)")
		}
	}
	if c.Store.URL.Dir != "" && c.Store.Engine == postgres.Citus {
		l.fault("store.engine",
			"citus is a database, and store.url is a directory (remove this key, or let store.url name a database)")
	}
	l.checkListeners()
	l.checkValuesTime()
	names := map[string]int{}
	for i, m := range c.Merchants {
		l.requireUnique(names, m.Name, i, "merchants", "name")
	}
	seen := map[string]int{}
	for i, d := range c.Directories {
		l.requireUnique(seen, d.Scheme, i, "directories", "scheme")
		at := fmt.Sprintf("directories[%d]", i)
		if d.MinRefresh > 0 && d.Refresh > 0 && d.Refresh < d.MinRefresh {
			l.fault(at+".refresh", "shorter than min_refresh (at least %s)", d.MinRefresh)
		}
		l.requireCRLs(d.CRLs, d.Revocation, at)
		twice := map[string]bool{}
		for j, v := range d.Versions {
			if v != "" && twice[v] {
				l.fault(fmt.Sprintf("%s.versions[%d]", at, j), "given twice")
			}
			twice[v] = true
		}
	}
	l.checkWords()
	l.checkV1()
	l.checkProxies()
	l.checkWebhooks()
	l.checkSIEM()
	l.checkTracing()
	l.checkConsole()
	l.checkReferenceNumbers()
}

// requireUnique adds a fault for the second of two list items with the same value.
func (l *loader) requireUnique(seen map[string]int, value string, i int, list, key string) {
	if value == "" {
		return
	}
	if first, ok := seen[value]; ok {
		l.fault(fmt.Sprintf("%s[%d].%s", list, i, key), "given twice (first in %s[%d])", list, first)
		return
	}
	seen[value] = i
}

// checkValuesTime raises timeouts.values to timeouts.result, unless the file says it itself.
func (l *loader) checkValuesTime() {
	t := &l.config.Timeouts
	if t.Values >= t.Result {
		return
	}
	if l.positions["timeouts.values"] != nil {
		l.fault("timeouts.values", "shorter than timeouts.result (at least %s)", t.Result)
	}
	t.Values = t.Result
}

func (l *loader) checkListeners() {
	c := l.config
	seen := map[string]string{}
	listeners := []struct{ path, address string }{
		{"api.listen", c.API.Listen}, {"results.listen", c.Results.Listen}, {"console.listen", c.Console.Listen},
		{"console.metrics_listen", c.Console.MetricsListen},
	}
	if c.Browser != nil {
		listeners = append(listeners, struct{ path, address string }{"browser.listen", c.Browser.Listen})
	}
	for _, at := range listeners {
		if other, ok := seen[at.address]; ok && at.address != "" && !strings.HasSuffix(at.address, ":0") {
			l.fault(at.path, "the same address as %s (each listener has its own)", other)
		}
		seen[at.address] = at.path
	}
}

// checkReferenceNumbers requires a reference number for every version in use.
func (l *loader) checkReferenceNumbers() {
	c := l.config
	if c.Server.ReferenceNumber != "" || l.positions["server.reference_number"] != nil {
		return
	}
	for _, v := range Versions {
		for i, d := range c.Directories {
			for _, used := range d.Versions {
				if used == v && c.Server.ReferenceNumbers[v] == "" && l.positions["server.reference_numbers."+v] == nil {
					l.fault("server.reference_number",
						"missing (directories[%d] uses %s, which reference_numbers does not name)", i, v)
					return
				}
			}
		}
	}
}

// loadFiles reads all files that the configuration names. A path that has a fault is not read.
func (l *loader) loadFiles(now time.Time) {
	c := l.config
	l.loadListenerPair("api", func(c *Config) *KeyPair { return c.API.TLS }, now)
	l.loadListenerPair("browser", (*Config).browserTLS, now)
	l.loadListenerPair("results", func(c *Config) *KeyPair { return &c.Results.TLS }, now)
	for i := range c.Directories {
		d, at := &c.Directories[i], fmt.Sprintf("directories[%d]", i)
		l.loadRules(d, at+".rules")
		l.loadPart(at, func() { l.loadDirectoryFiles(d, at, now) }, d.keepFiles)
	}
	for i := range c.Merchants {
		l.loadLogo(&c.Merchants[i].Page.Logo, fmt.Sprintf("merchants[%d].page.logo", i))
	}
	l.loadV1Files(now)
	l.loadProxyFiles(now)
	l.loadWebhookFiles(now)
	l.loadSIEMFiles(now)
	l.loadAgentSecret()
	l.loadTracingFiles(now)
	l.loadConsoleFiles(now)
	l.warnOfWrapping()
}

// loadListenerPair reads the certificate and the key of a listener, which is a part by itself. pairOf returns nil when
// the listener is without TLS.
func (l *loader) loadListenerPair(part string, pairOf func(*Config) *KeyPair, now time.Time) {
	pair := pairOf(l.config)
	if pair == nil {
		return
	}
	l.loadPart(part, func() { l.loadKeyPair(pair, part+".tls", x509.ExtKeyUsageServerAuth, now) },
		func(former *Config) string {
			was := pairOf(former)
			if was == nil {
				return ""
			}
			pair.Certificate = was.Certificate
			return part
		})
}

// loadDirectoryFiles reads the files of one directory.
func (l *loader) loadDirectoryFiles(d *Directory, at string, now time.Time) {
	if !d.ClientCert.IsManaged {
		l.loadKeyPair(&d.ClientCert, at+".client_cert", x509.ExtKeyUsageClientAuth, now)
	}
	l.loadCA(&d.ServerCA, at+".server_ca", now)
	l.loadCA(&d.ClientCA, at+".client_ca", now)
	l.loadCRLs(&d.CRLs, d.Revocation, at, now, &d.ServerCA, &d.ClientCA)
	if d.Results != nil {
		l.loadKeyPair(&d.Results.TLS, at+".results.tls", x509.ExtKeyUsageServerAuth, now)
	}
}

// keepFiles takes over what the previous configuration read for the directory of the same scheme. It returns the
// beginning of the keys of that directory, or "" if the previous configuration has none with the same files.
func (d *Directory) keepFiles(former *Config) string {
	for i := range former.Directories {
		was := &former.Directories[i]
		if was.Scheme != d.Scheme || (was.Results == nil) != (d.Results == nil) ||
			was.ClientCert.IsManaged != d.ClientCert.IsManaged {
			continue
		}
		d.ClientCert.Certificate = was.ClientCert.Certificate
		d.ServerCA.Certs, d.ServerCA.Pool = was.ServerCA.Certs, was.ServerCA.Pool
		d.ClientCA.Certs, d.ClientCA.Pool = was.ClientCA.Certs, was.ClientCA.Pool
		d.CRLs.Lists = was.CRLs.Lists
		if d.Results != nil {
			d.Results.TLS.Certificate = was.Results.TLS.Certificate
		}
		return fmt.Sprintf("directories[%d]", i)
	}
	return ""
}

// Soon is how long before its end a certificate is worth a warning.
const Soon = 30 * 24 * time.Hour

func (l *loader) loadKeyPair(k *KeyPair, path string, use x509.ExtKeyUsage, now time.Time) {
	cert, certOK := l.openFile(k.Cert, path+".cert")
	label, isHeld := strings.CutPrefix(k.Key, helperPrefix)
	var key []byte
	keyOK := isHeld
	if !isHeld {
		key, keyOK = l.openSecret(k.Key, path+".key", "key")
	}
	if !certOK {
		return
	}
	chain := l.parseCertificates(cert, path+".cert")
	if len(chain) == 0 {
		return
	}
	l.noteValidity(chain[0], path+".cert", now)
	for i, between := range chain[1:] {
		addEnd(l.config.Ends, path+".cert", between)
		// a peer may know another way to its root
		if said, _ := describeValidity(between.NotBefore, between.NotAfter, now); said != "" {
			l.warn(path+".cert", "certificate %d of the file %s", i+2, said)
		}
	}
	if !isMadeFor(chain[0], use) {
		l.fault(path+".cert", "the certificate is not made for this side of a connection (%s)",
			map[x509.ExtKeyUsage]string{
				x509.ExtKeyUsageServerAuth: "server authentication", x509.ExtKeyUsageClientAuth: "client authentication",
			}[use])
	}
	switch {
	case !keyOK:
		return
	case isHeld:
		l.useHeldKey(k, label, path+".key", chain)
		return
	}
	if err := checkPrivateKey(key); err != nil {
		l.fault(path+".key", "%v", err)
		return
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		l.fault(path+".key", "the key does not belong to the certificate of %s.cert, or is of an unknown form", path)
		return
	}
	k.Certificate = pair
}

// isWorldReadable reports whether a file may be read by everybody, where files say so.
func isWorldReadable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0
}

// checkPrivateKey looks for a private key among whatever else is in PEM data: parameters of
// a curve, say, or the certificate itself.
func checkPrivateKey(data []byte) error {
	for {
		var block *pem.Block
		switch block, data = pem.Decode(data); {
		case block == nil:
			return errors.New("the file holds no private key (PEM)")
		case block.Type == "ENCRYPTED PRIVATE KEY",
			strings.HasSuffix(block.Type, "PRIVATE KEY") && block.Headers["DEK-Info"] != "":
			return errors.New("the private key is encrypted (store it without a passphrase, readable only by the server's user)")
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return nil
		}
	}
}

func (l *loader) loadCA(f *CAFile, path string, now time.Time) {
	data, ok := l.openFile(f.File, path)
	if !ok {
		return
	}
	for i, cert := range l.parseCertificates(data, path) {
		if !cert.IsCA {
			l.fault(path, "certificate %d of the file is not a CA's (name the CA that signed it)", i+1)
			continue
		}
		l.noteValidity(cert, path, now)
		f.Certs = append(f.Certs, cert)
	}
	f.Pool = newPool(f.Certs)
}

func newPool(certs []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, cert := range certs {
		pool.AddCert(cert)
	}
	return pool
}

// openFile reads a file. An empty name has a fault already.
func (l *loader) openFile(file, path string) ([]byte, bool) {
	if file == "" {
		return nil, false
	}
	data, err := l.files.Read(file)
	if err != nil {
		l.fault(path, "%v", err) // names the file as it was looked for
		return nil, false
	}
	return data, true
}

// openSecret is openFile for a secret. It adds a warning if others may read the file.
func (l *loader) openSecret(file, path, what string) ([]byte, bool) {
	data, ok := l.openFile(file, path)
	if ok && isWorldReadable(file) {
		l.warn(path, "every user of this machine may read the %s: chmod o-r %s", what, file)
	}
	return data, ok
}

// certificateStart matches where a certificate was meant to begin, even where the decoder of
// PEM sees none: behind a block that was cut off, or behind space.
var certificateStart = regexp.MustCompile(`(?m)(^[\s\x{feff}]*|-)-----BEGIN (TRUSTED |X509 )?CERTIFICATE-----`)

// parseCertificates returns the certificates in PEM data. It adds a fault if there is none, or
// one that cannot be read, which the decoder of PEM skips in silence.
func (l *loader) parseCertificates(data []byte, path string) []*x509.Certificate {
	var all []*x509.Certificate
	meant := len(certificateStart.FindAllIndex(data, -1))
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			l.fault(path, "certificate %d of the file cannot be read: %v", len(all)+1, err)
			return nil
		}
		all = append(all, cert)
	}
	switch {
	case meant > len(all):
		l.fault(path, "%d of %d certificates in the file cannot be read (PEM that is cut off or damaged)",
			meant-len(all), meant)
	case len(all) == 0:
		l.fault(path, "the file holds no certificate (PEM)")
	}
	return all
}

// noteValidity records when a certificate is valid. One that is not valid now is loaded all
// the same: the other side may accept it, and if not, only its part of the server fails.
func (l *loader) noteValidity(cert *x509.Certificate, path string, now time.Time) {
	addEnd(l.config.Ends, path, cert)
	l.config.Certificates.addCertificate(l.partOf(path), path, cert)
	if said, bad := describeValidity(cert.NotBefore, cert.NotAfter, now); said != "" && !bad {
		l.warn(path, "the certificate %s", said)
	}
}

// describeValidity returns what to warn of about something that is valid from from to to, "" if
// nothing, and whether it is not valid now.
func describeValidity(from, to, now time.Time) (said string, bad bool) {
	const day = "2006-01-02"
	switch {
	case now.After(to):
		return "has expired on " + to.UTC().Format(day), true
	case now.Before(from):
		return "is not valid before " + from.UTC().Format(day), true
	case now.Add(Soon).After(to):
		return "expires on " + to.UTC().Format(day), false
	}
	return "", false
}

func isMadeFor(cert *x509.Certificate, use x509.ExtKeyUsage) bool {
	if len(cert.ExtKeyUsage)+len(cert.UnknownExtKeyUsage) == 0 {
		return true
	}
	return slices.Contains(cert.ExtKeyUsage, use) || slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// addWarnings adds a warning for everything that works but is rarely meant.
func (l *loader) addWarnings() {
	c := l.config
	if c.API.TLS == nil && !isLoopback(c.API.Listen) {
		l.warn("api.tls", "unset, so API keys and card numbers travel in the clear unless a proxy ends TLS in front")
	}
	for i, d := range c.Directories {
		if slices.Contains(d.Versions, "2.1.0") {
			l.warn(fmt.Sprintf("directories[%d].versions", i),
				"2.1.0 ended at all schemes in September 2024: use 2.2.0 and 2.3.1")
		}
	}
	results := func(path, address string) {
		if u, err := url.Parse(address); err == nil && u.Scheme == "http" {
			l.warn(path, "not https: directory servers refuse such an address")
		}
	}
	results("results.url", c.Results.URL)
	if isRemoteWithoutVerification(c.Store.URL.Postgres) {
		l.warn("store.url", "no sslmode=verify-full, so another may answer in the place of the database")
	}
	for _, name := range []string{"passfile", "sslkey"} {
		if file := urlParameter(c.Store.URL.Postgres, name); file != "" && isWorldReadable(file) {
			l.warn("store.url", "every user of this machine may read the %s: chmod o-r %s", name, file)
		}
	}
	for i, d := range c.Directories {
		at := fmt.Sprintf("directories[%d]", i)
		if len(d.ClientNames) == 0 {
			l.warn(at+".client_names", "unset, so any certificate under client_ca may post this directory's results")
		}
		if d.MinRefresh > 0 && d.MinRefresh < time.Hour {
			l.warn(at+".min_refresh", "under the protocol's 1h: for laboratories only")
		}
		l.warnOfLab(at, d.Lab)
		if d.Results != nil {
			results(at+".results.url", d.Results.URL)
		}
	}
	l.warnOfV1()
	l.warnOfProxies()
	l.warnOfTracing()
}

// mergeWarnings returns the warnings in their order. If several say the same about different directories, they become
// one in the place of the first, and its key has the names of the schemes.
func (l *loader) mergeWarnings() []Fault {
	type subject struct{ list, key, text string }
	schemes := map[subject][]string{}
	subjectOf := func(w Fault) (of subject, scheme string) {
		list, rest, _ := strings.Cut(w.Key, "[")
		index, key, _ := strings.Cut(rest, "]")
		i, err := strconv.Atoi(index)
		switch of = (subject{list, key, w.Text}); {
		case err == nil && list == "directories":
			return of, l.config.Directories[i].Scheme
		case err == nil && list == "v1":
			return of, l.config.V1[i].Scheme
		}
		return of, ""
	}
	for _, w := range l.warnings {
		if of, scheme := subjectOf(w); scheme != "" {
			schemes[of] = append(schemes[of], scheme)
		}
	}
	var merged []Fault
	for _, w := range l.warnings {
		of, scheme := subjectOf(w)
		if all := schemes[of]; scheme != "" && len(all) > 1 {
			if scheme != all[0] {
				continue
			}
			w.Key = of.list + "[]" + of.key + " of " + strings.Join(all, ", ")
		}
		merged = append(merged, w)
	}
	return merged
}

// warnOfLab adds a warning for a directory whose URLs for browsers may be http or local.
func (l *loader) warnOfLab(at string, lab bool) {
	if lab {
		l.warn(at+".lab", "browsers may be sent to http and loopback URLs: for laboratories only")
	}
}

// isRemoteWithoutVerification reports whether a database is on another machine and its
// certificate is not verified.
func isRemoteWithoutVerification(database string) bool {
	u, err := url.Parse(database)
	if err != nil || database == "" || u.Query().Get("sslmode") == "verify-full" {
		return false
	}
	host := cmp.Or(u.Query().Get("host"), u.Hostname())
	return !strings.HasPrefix(host, "/") && !isLoopback(net.JoinHostPort(host, "0"))
}

// urlParameter returns a parameter of the URL of a database, "" if it is not there.
func urlParameter(database, name string) string {
	u, err := url.Parse(database)
	if err != nil {
		return ""
	}
	return u.Query().Get(name)
}

// isLoopback reports whether only this machine can reach the address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

package config

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/peers/certs"
)

// Certificates say which parts of the server have certificates that are not valid, or
// files that cannot be used. Such a part is degraded: it is tried as it is configured, and
// all others work.
type Certificates struct {
	lifetimes   []lifetime
	formerFiles []partFault // of files that are replaced by the previous ones
	parts       []string    // all that have certificates
}

// A lifetime is from when to when one certificate of a part is valid.
type lifetime struct {
	part     string // as /readyz calls it: "directory visa", "v1 visa", "api", "results"
	key      string // of the configuration that names the file
	from, to time.Time
}

// A partFault is what is wrong with a file of a part.
type partFault struct{ part, text string }

// addCertificate notes a certificate of a part.
func (c *Certificates) addCertificate(part, key string, cert *x509.Certificate) {
	c.lifetimes = append(c.lifetimes, lifetime{part, key, cert.NotBefore, cert.NotAfter})
	c.addPart(part)
}

func (c *Certificates) addPart(part string) {
	if !slices.Contains(c.parts, part) {
		c.parts = append(c.parts, part)
	}
}

// Faults returns what is wrong with the parts now, by part.
func (c *Certificates) Faults(now time.Time) map[string]string {
	all := map[string][]string{}
	for _, f := range c.formerFiles {
		all[f.part] = append(all[f.part], f.text)
	}
	for _, l := range c.lifetimes {
		said, bad := describeValidity(l.from, l.to, now)
		text := l.key + ": the certificate " + said
		if bad && !slices.Contains(all[l.part], text) {
			all[l.part] = append(all[l.part], text)
		}
	}
	faults := make(map[string]string, len(all))
	for part, texts := range all {
		faults[part] = strings.Join(texts, "; ")
	}
	return faults
}

// A ManagedCertificate is what the store has for the client certificate of a directory.
type ManagedCertificate struct {
	Scheme, Key string
	Chain       []*x509.Certificate // the certificate itself first; none: there is none
	Fault       string              // why the store's cannot be used, "" if that is not so
}

// WithManaged returns c with the certificates of directories that the store has. c may be nil.
func (c *Certificates) WithManaged(all []ManagedCertificate) *Certificates {
	next := &Certificates{}
	if c != nil {
		*next = *c
	}
	next.lifetimes, next.formerFiles, next.parts = slices.Clone(next.lifetimes), slices.Clone(next.formerFiles),
		slices.Clone(next.parts)
	for _, m := range all {
		part := "directory " + m.Scheme
		next.addPart(part)
		if m.Fault != "" {
			next.formerFiles = append(next.formerFiles, partFault{part, m.Key + ": " + m.Fault})
		}
		if len(m.Chain) > 0 {
			next.addCertificate(part, m.Key, m.Chain[0])
		}
	}
	return next
}

// AddEnds adds to ends when the certificates of a directory end, by their keys in the configuration.
func (m *ManagedCertificate) AddEnds(ends map[string]time.Time) {
	for _, cert := range m.Chain {
		addEnd(ends, m.Key, cert)
	}
}

// Parts are all parts that have certificates.
func (c *Certificates) Parts() []string { return c.parts }

// Log writes an error for each part that is degraded.
func (c *Certificates) Log(log *slog.Logger, now time.Time) {
	faults := c.Faults(now)
	for _, part := range slices.Sorted(maps.Keys(faults)) {
		log.Error("a part of the server is degraded", "what", part, "fault", faults[part])
	}
}

// partOf is the part of the server that a key of the configuration belongs to.
func (l *loader) partOf(key string) string {
	for i, d := range l.config.Directories {
		if strings.HasPrefix(key, fmt.Sprintf("directories[%d].", i)) {
			return "directory " + d.Scheme
		}
	}
	for i, d := range l.config.V1 {
		if strings.HasPrefix(key, fmt.Sprintf("v1[%d].", i)) {
			return "v1 " + d.Scheme
		}
	}
	part, _, _ := strings.Cut(key, ".")
	return part
}

// loadPart loads the files of one part, whose keys of the configuration begin with path. If a file cannot be used while
// the server runs, keep puts the files of the previous configuration in their place and returns the beginning of their
// keys there. Then the part is degraded, and the rest of the configuration is used. At the start, and if keep returns
// "" because there is no previous configuration, the faults stay faults.
func (l *loader) loadPart(path string, load func(), keep func(former *Config) string) {
	part := l.partOf(path + ".")
	l.config.Certificates.addPart(part)
	before, lifetimes := len(l.faults), len(l.config.Certificates.lifetimes)
	load()
	if len(l.faults) == before || l.former == nil {
		return
	}
	at := keep(l.former)
	if at == "" {
		return
	}
	for _, f := range l.faults[before:] {
		l.config.Certificates.formerFiles = append(l.config.Certificates.formerFiles,
			partFault{part, f.Key + ": " + f.Text + "; the previous file stays in use"})
	}
	l.faults = l.faults[:before]
	l.config.Certificates.lifetimes = l.config.Certificates.lifetimes[:lifetimes]
	for _, was := range l.former.Certificates.lifetimes {
		if was.part == part {
			was.key = path + strings.TrimPrefix(was.key, at)
			l.config.Certificates.lifetimes = append(l.config.Certificates.lifetimes, was)
		}
	}
	for key, end := range l.former.Ends {
		if rest, ok := strings.CutPrefix(key, at+"."); ok {
			l.config.Ends[path+"."+rest] = end
		}
	}
}

// A Term is from when to when a revocation list is valid.
type Term struct{ From, To time.Time }

func addEnd(ends map[string]time.Time, key string, cert *x509.Certificate) {
	if at, ok := ends[key]; !ok || cert.NotAfter.Before(at) {
		ends[key] = cert.NotAfter
	}
}

func addTerm(terms map[string]Term, key string, list *certs.RevocationList) {
	if other, ok := terms[key]; !ok || list.Next.Before(other.To) {
		terms[key] = Term{list.This, list.Next}
	}
}

package config

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func parseFraction(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= 1) { // NaN is neither
		return 0, errors.New("not a fraction (a number from 0 to 1, such as 0.01)")
	}
	return f, nil
}

// isSecure reports whether the collector is reached over TLS.
func (t *Tracing) isSecure() bool {
	u, err := url.Parse(t.Endpoint)
	return err == nil && u.Scheme == "https"
}

// checkTracing checks the values of the section tracing against each other.
func (l *loader) checkTracing() {
	t := l.config.Tracing
	if t == nil {
		return
	}
	const path = "tracing.ca"
	known := slices.ContainsFunc(l.faults, func(f Fault) bool { return f.Key == path })
	switch {
	case t.isSecure() && t.CA.File == "" && !known:
		l.fault(path, "missing (an https collector shows a certificate, and no authority is trusted by itself)")
	case t.Endpoint != "" && !t.isSecure() && t.CA.File != "":
		l.fault(path, "an http collector shows no certificate")
	}
}

// headerLine is the form of a header in a file of headers.
var headerLine = regexp.MustCompile("^([0-9A-Za-z!#$%&'*+.^_`|~-]+):[ \t]*([!-~](?:[ -~]*[!-~])?)$")

// loadTracingFiles reads the files of the section tracing.
func (l *loader) loadTracingFiles(now time.Time) {
	t := l.config.Tracing
	if t == nil {
		return
	}
	l.loadCA(&t.CA, "tracing.ca", now)
	const path = "tracing.headers"
	data, ok := l.openSecret(t.Headers, path, "headers")
	if !ok {
		return
	}
	t.Header = make(http.Header)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		parts := headerLine.FindStringSubmatch(line)
		if parts == nil {
			l.fault(path, "the file does not hold lines of NAME: VALUE, in ASCII")
			return
		}
		t.Header.Add(parts[1], parts[2])
	}
}

// warnOfTracing adds the warnings about the section tracing.
func (l *loader) warnOfTracing() {
	t := l.config.Tracing
	if t == nil || t.Headers == "" || t.isSecure() {
		return
	}
	if u, err := url.Parse(t.Endpoint); err == nil && !isLoopback(net.JoinHostPort(u.Hostname(), "0")) {
		l.warn("tracing.headers", "travel in the clear to an http collector")
	}
}

// isSame reports whether other is equal except for what a running process can change.
func (t *Tracing) isSame(other *Tracing) bool {
	if t == nil || other == nil {
		return t == other
	}
	return t.Endpoint == other.Endpoint && t.CA.File == other.CA.File && t.Headers == other.Headers
}

package config

import (
	"errors"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/operate/webhook"
)

// syslogScheme begins the address of a receiver of syslog.
const syslogScheme = "tls://"

// The values of siem.confirmation.
const (
	ByCloseNotify = "close_notify"
	ByEnd         = "end"
)

var syslogURL = kind[string]{want: "tls://HOST:PORT", parse: parseSyslog}

func parseSyslog(s string) (string, error) {
	at, isTLS := strings.CutPrefix(s, syslogScheme)
	_, err := parseAddress(at)
	if !isTLS || err != nil || strings.HasPrefix(at, ":") || strings.HasSuffix(at, ":0") {
		return "", errors.New("not a receiver of syslog over TLS (tls://HOST:PORT; the usual port is 6514)")
	}
	return s, nil
}

func readSIEM(s *section) (c SIEM) {
	defer s.close()
	c.Syslog = optional(s, "syslog", syslogURL, "")
	c.Webhook = optional(s, "webhook", httpsURL, "")
	c.Secret = optional(s, "secret",
		fileKind(s.l, func(path string) SigningSecret { return SigningSecret{File: path} }), "")
	c.CA = optional(s, "ca", s.l.caFile(), "")
	c.Confirmation = optional(s, "confirmation", oneOf(ByCloseNotify, ByEnd), ByCloseNotify)
	return c
}

// checkSIEM checks the values of the section siem against each other.
func (l *loader) checkSIEM() {
	c := l.config.SIEM
	if c == nil {
		return
	}
	hasSyslog, hasWebhook := l.positions["siem.syslog"] != nil, l.positions["siem.webhook"] != nil
	hasSecret, hasCA := l.positions["siem.secret"] != nil, l.positions["siem.ca"] != nil
	switch {
	case hasSyslog && hasWebhook:
		l.fault("siem.webhook", "there is siem.syslog, too (one of both)")
	case !hasSyslog && !hasWebhook:
		l.fault("siem", "names no receiver (syslog: tls://HOST:PORT, or webhook: an https URL)")
	case hasSyslog && !hasCA:
		l.fault("siem.ca", "missing (the receiver shows a certificate, and no authority is trusted by itself)")
	case hasSyslog && hasSecret:
		l.fault("siem.secret", "signs nothing (messages of syslog have no signature)")
	case hasWebhook && !hasSecret:
		l.fault("siem.secret", "missing (the file of the secret that signs the requests)")
	case hasWebhook && c.Confirmation == ByEnd:
		l.fault("siem.confirmation", "is for syslog (a webhook answers with a status)")
	}
}

// loadSIEMFiles reads the files of the section siem.
func (l *loader) loadSIEMFiles(now time.Time) {
	c := l.config.SIEM
	if c == nil {
		return
	}
	l.loadCA(&c.CA, "siem.ca", now)
	l.loadSigningSecret(&c.Secret, "siem.secret")
}

// loadSigningSecret reads the file of a secret that signs.
func (l *loader) loadSigningSecret(s *SigningSecret, path string) {
	data, ok := l.openSecret(s.File, path, "secret")
	if !ok {
		return
	}
	var err error
	if s.Key, err = webhook.ParseSecret(strings.TrimSpace(string(data))); err != nil {
		l.fault(path, "the file does not hold a secret: %v", err)
	}
}

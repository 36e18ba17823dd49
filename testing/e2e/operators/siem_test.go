package operators

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A siemReceiver keeps what came to it, as text.
type siemReceiver struct {
	mu  sync.Mutex
	all []string
}

func (r *siemReceiver) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, text)
}

// has reports whether a message has all of the texts in it.
func (r *siemReceiver) has(texts ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, message := range r.all {
		n := 0
		for _, text := range texts {
			if strings.Contains(message, text) {
				n++
			}
		}
		if n == len(texts) {
			return true
		}
	}
	return false
}

// listen receives syslog over TLS until the listener is closed.
func (r *siemReceiver) listen(t *testing.T, address string, certificate tls.Certificate) net.Listener {
	t.Helper()
	l, err := tls.Listen("tcp", address, &tls.Config{Certificates: []tls.Certificate{certificate}})
	rig.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				text, err := io.ReadAll(conn)
				for err == nil && len(text) > 0 {
					length, rest, _ := bytes.Cut(text, []byte(" "))
					n, wrong := strconv.Atoi(string(length))
					if wrong != nil || n > len(rest) {
						t.Errorf("not a frame: %q", text)
						return
					}
					r.add(string(rest[:n]))
					text = rest[n:]
				}
			}()
		}
	}()
	return l
}

// siemSite returns a site that sends to a receiver.
func siemSite(t *testing.T, ca *rig.Authority, section string) *rig.Site {
	t.Helper()
	dir := t.TempDir()
	rig.WriteFile(t, filepath.Join(dir, "siem-ca.pem"), ca.PEM())
	return rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{
		Sections: fmt.Sprintf("journal: {keys: journal-keys.json}\nsiem: {%s, ca: %s}\n", section, filepath.Join(dir, "siem-ca.pem")),
	})
}

// createToken creates a token, which the audit trail says.
func createToken(t *testing.T, s *rig.Site, name string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := rig.Run(t.Context(), []string{"token", "create", "--name", name, "--role", "viewer", "--config", s.ConfigFile}, nil, &out, &errs); code != 0 {
		t.Fatalf("token create: %d %s", code, errs.String())
	}
}

// TestSIEMGetsTheAuditTrailOverSyslog: from whichever of two nodes runs, and after the receiver was away, during which
// readiness and metrics say how much waits.
func TestSIEMGetsTheAuditTrailOverSyslog(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	certificate, r := ca.Issue("siem.example"), &siemReceiver{}
	l := r.listen(t, "127.0.0.1:0", certificate)
	first := siemSite(t, ca, "syslog: tls://"+l.Addr().String())
	second := rig.StartSite(t, ca, first.Directory, rig.Plan{Beside: first})
	wantMessage := func(name string) {
		t.Helper()
		waittest.Until(t, "the entry of "+name, func() bool {
			return r.has("<109>1 ", " threeds - token.create [threeds@32473 chain=\"audit\" number=", `object="`+name+`"`, `"type":"record","chain":"audit"`)
		})
	}
	createToken(t, first, "one")
	wantMessage("one")
	rig.Must(t, first.Stop())
	createToken(t, second, "two")
	wantMessage("two")
	waittest.Until(t, "the position", func() bool { return second.Metric(`threeds_siem_waiting{chain="audit"}`) == 0 })
	rig.Must(t, l.Close())
	createToken(t, second, "three")
	waittest.Until(t, "the entry that waits", func() bool {
		return second.Metric(`threeds_siem_waiting{chain="audit"}`) == 1 && second.Metric("threeds_siem_failures_total") > 0
	})
	third := rig.StartSite(t, ca, first.Directory, rig.Plan{Beside: first})
	r.listen(t, l.Addr().String(), certificate)
	wantMessage("three")
	waittest.Until(t, "the metrics", func() bool { return third.Metric(`threeds_siem_waiting{chain="audit"}`) == 0 })
	second.WantAuthentication()
	waittest.Until(t, "a head of the journal", func() bool {
		return r.has("<110>1 ", " threeds - journal.head ", `chain="journal" number="`, `"type":"seal"`)
	})
}

// TestSIEMGetsTheAuditTrailByWebhook: signed requests, in the order of the trail. One that is refused comes again.
func TestSIEMGetsTheAuditTrailByWebhook(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	verifier, err := standardwebhooks.NewWebhook(secret)
	rig.Must(t, err)
	r, refusals, last := &siemReceiver{}, 0, 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil {
			err = verifier.Verify(body, req.Header)
		}
		var got struct {
			ID, Type string
			Data     struct {
				Chain string
				Seq   int
			}
		}
		if err == nil {
			err = json.Unmarshal(body, &got)
		}
		if err != nil || got.ID != req.Header.Get("Webhook-Id") {
			t.Errorf("%s: %v", body, err)
		}
		if refusals < 2 {
			refusals++
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if got.Data.Chain == "audit" {
			if got.Data.Seq > last+1 {
				t.Errorf("after entry %d came entry %d", last, got.Data.Seq)
			}
			last = max(last, got.Data.Seq)
		}
		r.add(string(body))
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue("siem.example")}}
	server.StartTLS()
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "siem.secret")
	rig.WriteFile(t, file, []byte(secret))
	s := siemSite(t, ca, fmt.Sprintf("webhook: %q, secret: %s", server.URL, file))
	createToken(t, s, "one")
	waittest.Until(t, "the entry", func() bool { return r.has(`"type":"token.create"`, `"object":"one"`) })
}

package results

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// TestD113EncodedResultIsRefused: a message in a content coding gets 415 and Erro 101, and the
// engine hears nothing of it.
func TestD113EncodedResultIsRefused(t *testing.T) {
	trust, cert := member(t)
	for encoding, want := range map[string]int{"": 200, "identity": 200, "Identity": 200, "gzip": 415, "x": 415, "identity, br": 415} {
		got := new(counted)
		h := &Handler{Engine: got, Trust: trust, Log: slog.New(slog.DiscardHandler)}
		r := httptest.NewRequest(http.MethodPost, "/results", strings.NewReader("{}"))
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		r.Header.Set("Content-Encoding", encoding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || (got.bytes > 0) != (want == 200) {
			t.Errorf("%q: %d, want %d; the engine got %d bytes", encoding, w.Code, want, got.bytes)
		}
		if want == 200 {
			continue
		}
		m, err := message.Parse(w.Body.Bytes(), message.Limits{})
		if err != nil || message.ReadError(m).Code != message.InvalidMessage {
			t.Errorf("%q: the answer is %s, want Erro 101", encoding, w.Body)
		}
	}
}

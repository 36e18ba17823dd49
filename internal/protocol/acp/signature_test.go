package acp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"testing"
	"time"
)

// TestD50SignatureCoversTimestampAndBody: only the signature of this body at this time is good, and only for 300 s.
func TestD50SignatureCoversTimestampAndBody(t *testing.T) {
	secret := []byte("0123456789abcdef")
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(`2026-11-26T12:00:00Z.{"a":1}`))
	good := base64.URLEncoding.EncodeToString(mac.Sum(nil)) // Padding does not matter.
	for _, tt := range []struct {
		name, timestamp, signature, body string
		after                            time.Duration
		want                             error
	}{
		{"good", "2026-11-26T12:00:00Z", good, `{"a":1}`, 0, nil},
		{"without padding", "2026-11-26T12:00:00Z", good[:43], `{"a":1}`, 0, nil},
		{"300 s later", "2026-11-26T12:00:00Z", good, `{"a":1}`, 300 * time.Second, nil},
		{"301 s later", "2026-11-26T12:00:00Z", good, `{"a":1}`, 301 * time.Second, errSkew},
		{"301 s earlier", "2026-11-26T12:00:00Z", good, `{"a":1}`, -301 * time.Second, errSkew},
		{"another body", "2026-11-26T12:00:00Z", good, `{"a":2}`, 0, errSignature},
		{"no body", "2026-11-26T12:00:00Z", good, ``, 0, errSignature},
		{"another time", "2026-11-26T12:00:01Z", good, `{"a":1}`, 0, errSignature},
		{"the same time in another form", "2026-11-26T12:00:00+00:00", good, `{"a":1}`, 0, errSignature},
		{"no time", "", good, `{"a":1}`, 0, errNoTimestamp},
		{"no signature", "2026-11-26T12:00:00Z", "", `{"a":1}`, 0, errSignature},
		{"half a signature", "2026-11-26T12:00:00Z", good[:20], `{"a":1}`, 0, errSignature},
	} {
		header := http.Header{}
		if tt.timestamp != "" {
			header.Set("Timestamp", tt.timestamp)
		}
		if tt.signature != "" {
			header.Set("Signature", tt.signature)
		}
		s := Signature{Secret: secret, Now: func() time.Time { return at.Add(tt.after) }}
		if err := s.Check(header, []byte(tt.body)); err != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if err := (&Signature{}).Check(http.Header{"Signature": {"x"}}, nil); err != nil {
		t.Errorf("without a secret the header counts: %v", err)
	}
}

package acp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"
)

// MaxSkew is how far the Timestamp of a signed request may be from our time.
const MaxSkew = 300 * time.Second

// Errors of [Signature.Check].
var (
	errNoTimestamp = errors.New("the header Timestamp is missing, or is no time of RFC 3339")
	errSkew        = errors.New("the header Timestamp is more than 300 seconds from the time of the server")
	errSignature   = errors.New("the header Signature is not that of this body and Timestamp")
)

// A Signature has the secret that agents sign requests with. Without a secret it checks nothing.
type Signature struct {
	Secret []byte
	Now    func() time.Time
}

// Sign returns the signature of a body at a time: base64url of the HMAC-SHA256 of the time, a dot and the body.
func (s *Signature) Sign(timestamp string, body []byte) string {
	return base64.RawURLEncoding.EncodeToString(s.sum(timestamp, body))
}

func (s *Signature) sum(timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte(timestamp + ".")) // a hash never fails
	mac.Write(body)
	return mac.Sum(nil)
}

// Check returns what is wrong with the signature of a request, nil if nothing is.
func (s *Signature) Check(header http.Header, body []byte) error {
	if len(s.Secret) == 0 {
		return nil
	}
	timestamps, signatures := header["Timestamp"], header["Signature"]
	if len(timestamps) != 1 {
		return errNoTimestamp
	}
	at, err := time.Parse(time.RFC3339, timestamps[0])
	if err != nil {
		return errNoTimestamp
	}
	if len(signatures) != 1 {
		return errSignature
	}
	sent, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(signatures[0], "="))
	if err != nil || !hmac.Equal(sent, s.sum(timestamps[0], body)) {
		return errSignature
	}
	if s.Now().Sub(at).Abs() > MaxSkew { // only a caller that has the secret learns this
		return errSkew
	}
	return nil
}

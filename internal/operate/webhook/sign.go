package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The headers of a delivery.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// secretPrefix begins every secret in its text form.
const secretPrefix = "whsec_"

// A secret has this many bytes.
const (
	minSecret = 24
	maxSecret = 64
	newSecret = 32
)

// A Secret signs the deliveries to one endpoint. It prints as stars.
type Secret []byte

// NewSecret makes a secret at random.
func NewSecret() Secret {
	s := make(Secret, newSecret)
	rand.Read(s)
	return s
}

// ParseSecret reads the text form of a secret, "whsec_" and base64 of 24 to 64 bytes. Its errors do not quote it.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, errors.New(`a secret begins with "whsec_"`)
	}
	s, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New(`a secret is "whsec_" and base64`)
	}
	if len(s) < minSecret || len(s) > maxSecret {
		return nil, fmt.Errorf("a secret has %d to %d bytes, this one has %d", minSecret, maxSecret, len(s))
	}
	return s, nil
}

// Text returns the text form of the secret, which its owner may see once.
func (s Secret) Text() string { return secretPrefix + base64.StdEncoding.EncodeToString(s) }

// String hides the secret.
func (s Secret) String() string { return secretPrefix + "***" }

// Format hides the secret, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// signature returns the signature of one delivery by one secret, such as "v1,K5oZ…".
func (s Secret) signature(id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, s)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Sign returns the value of the header webhook-signature: a signature for each secret, with a blank between. During a
// rotation there are two.
func Sign(id string, at time.Time, body []byte, secrets ...Secret) string {
	var all []string
	for _, s := range secrets {
		all = append(all, s.signature(id, at, body))
	}
	return strings.Join(all, " ")
}

// tolerance is how old, or how far in the future, a delivery may be.
const tolerance = 5 * time.Minute

// Errors of [Verify].
var (
	ErrTimestamp = errors.New("webhook: the timestamp is not within five minutes of now")
	ErrSignature = errors.New("webhook: no signature fits")
)

// Verify checks a delivery as its receiver should: timestamp is the value of webhook-timestamp and signature that of
// webhook-signature.
func Verify(id, timestamp, signature string, body []byte, now time.Time, secrets ...Secret) error {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	at := time.Unix(seconds, 0)
	if err != nil || now.Sub(at).Abs() > tolerance {
		return ErrTimestamp
	}
	for word := range strings.FieldsSeq(signature) {
		for _, s := range secrets {
			if hmac.Equal([]byte(word), []byte(s.signature(id, at, body))) {
				return nil
			}
		}
	}
	return ErrSignature
}

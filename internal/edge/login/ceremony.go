package login

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A ceremony is a login or a registration that has begun. It travels with the browser, sealed.
type ceremony struct {
	ID       string                `json:"id"`      // random, so that it is good once
	Browser  []byte                `json:"browser"` // SHA-256 of the cookie of the browser that has begun it
	Ends     time.Time             `json:"ends"`
	Next     string                `json:"next,omitempty"`     // where to go on
	Nonce    string                `json:"nonce,omitempty"`    // of OpenID Connect
	Verifier string                `json:"verifier,omitempty"` // the same
	WebAuthn *webauthn.SessionData `json:"webauthn,omitempty"`
	Form     *waitingForm          `json:"form,omitempty"`    // of a confirmation
	Waiting  string                `json:"waiting,omitempty"` // the secret under which a form waits for a fresh login
}

// The kinds of ceremonies: what is sealed for one is no other.
const (
	passkeyLogin        = "passkey"
	passkeyRegistration = "registration"
	oidcLogin           = "oidc"
	confirmation        = "confirmation"
)

// ceremonyTime is how long a login may take.
const ceremonyTime = 15 * time.Minute

// timeOf returns how long a ceremony of a kind may take.
func timeOf(kind string) time.Duration {
	if kind == confirmation {
		return confirmTime
	}
	return ceremonyTime
}

// The errors of ceremonies, which the pages tell.
var (
	errLate    = errors.New("the page was open for too long")
	errForeign = errors.New("the page was made for another browser, or cookies are off")
	errSpent   = errors.New("the page was used before")
)

func hashOf(text string) []byte {
	hash := sha256.Sum256([]byte(text))
	return hash[:]
}

// sealCeremony seals a ceremony, and binds it to the browser, which gets a cookie if it has none.
func (s *Service) sealCeremony(w http.ResponseWriter, r *http.Request, kind string, c ceremony) string {
	browser := ""
	if cookie, err := r.Cookie(s.browserCookie()); err == nil {
		browser = cookie.Value
	}
	if len(browser) != len(operator.NewSecret()) {
		browser = operator.NewSecret()
		s.setCookie(w, s.browserCookie(), browser, 0)
	}
	c.ID, c.Browser, c.Ends = operator.NewSecret(), hashOf(browser), s.Operators.Now().Add(timeOf(kind))
	plain, err := json.Marshal(c)
	if err != nil {
		panic(err) // a ceremony has nothing that cannot be encoded
	}
	return base64.RawURLEncoding.EncodeToString(s.Operators.Sealer.Seal(sealName(kind), plain))
}

func sealName(kind string) string { return "console ceremony " + kind }

// openCeremony opens what sealCeremony has sealed.
func (s *Service) openCeremony(r *http.Request, kind, text string) (c ceremony, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return ceremony{}, errForeign
	}
	plain, err := s.Operators.Sealer.Open(sealName(kind), sealed)
	if err == nil {
		err = json.Unmarshal(plain, &c)
	}
	if err != nil {
		return ceremony{}, errForeign
	}
	cookie, err := r.Cookie(s.browserCookie())
	if err != nil || subtle.ConstantTimeCompare(c.Browser, hashOf(cookie.Value)) != 1 {
		return ceremony{}, errForeign
	}
	if !s.Operators.Now().Before(c.Ends) {
		return ceremony{}, errLate
	}
	return c, nil
}

// spendCeremony makes sure that a ceremony succeeds once.
func (s *Service) spendCeremony(r *http.Request, c *ceremony) error {
	// The clock of the store may be ahead of ours: what is spent is known for longer than the ceremony is good.
	err := s.Operators.SpendOnce(r.Context(), c.ID, c.Ends.Add(ceremonyTime))
	switch {
	case errors.Is(err, store.ErrExists):
		return errSpent
	case err != nil:
		return &storeError{err}
	}
	return nil
}

// isAboutPage reports whether an error is one that a new page helps against.
func isAboutPage(err error) bool {
	return errors.Is(err, errLate) || errors.Is(err, errForeign) || errors.Is(err, errSpent)
}

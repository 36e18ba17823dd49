package auth_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
)

// TestD65TokenLivesUntilHalfAnHourAfterTheEnd: a browser may begin until 30 minutes are over. Then its token is good for as
// long as the authentication takes, and for 30 minutes more.
func TestD65TokenLivesUntilHalfAnHourAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld()
	var asked object
	w.reply = func(_ string, areq object) ([]byte, error) { asked = areq; return ares(areq, "C"), nil }
	p := w.newPage(t)
	w.pass(30*time.Minute - time.Second)
	p.startBrowser()
	p.await(auth.StepChallenge)
	w.pass(9 * time.Minute)
	if got := p.Receive(t.Context(), []string{"visa"}, rreq(asked, "Y", 1).json()); got.Refused != nil {
		t.Fatalf("%+v", got.Refused)
	}
	for range 2 {
		if v := p.await(auth.StepEnd); v.End != "completed" {
			t.Errorf("%+v", v)
		}
		w.pass(15*time.Minute - time.Second)
	}
	w.pass(3 * time.Second)
	if v, err := p.ViewBrowser(t.Context(), p.token, p.binding, -1); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("30 minutes after the end: %+v, %v", v, err)
	}
	if _, err := p.OpenBrowser(t.Context(), p.token); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("30 minutes after the end: %v", err)
	}
}

// TestD65OnlyADigestOfTheTokenIsStored: before and after the browser has begun, the row has neither token nor secret, in any
// form. A token has 256 bits that no other has.
func TestD65OnlyADigestOfTheTokenIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.reply = func(_ string, areq object) ([]byte, error) { return ares(areq, "C"), nil }
	p, other := w.newPage(t), w.newPage(t)
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{43,}$`).MatchString(p.token) {
		t.Errorf("the token %q", p.token)
	}
	raw, err := base64.RawURLEncoding.DecodeString(p.token)
	if err != nil || len(raw) < 32 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	secret := raw[len(raw)-32:]
	theirs, err := base64.RawURLEncoding.DecodeString(other.token)
	if err != nil || bytes.Equal(secret, theirs[len(theirs)-32:]) {
		t.Errorf("two tokens of one secret, %v", err)
	}
	for _, when := range []string{"waiting", "begun"} {
		data := w.txns[p.id].Data
		for name, form := range map[string]string{
			"token": p.token, "secret": string(secret), "hexadecimal": hex.EncodeToString(secret),
			"base64": base64.StdEncoding.EncodeToString(secret)[:40], "base64url": base64.RawURLEncoding.EncodeToString(secret)[:40],
		} {
			if bytes.Contains(data, []byte(form)) {
				t.Errorf("%s: the row has the %s", when, name)
			}
		}
		p.startBrowser()
		p.await(auth.StepChallenge)
	}
}

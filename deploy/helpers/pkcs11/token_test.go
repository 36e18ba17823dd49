package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/pkcs11"
)

// TestRefusedPINIsNotTriedAgain: each code by which a token refuses a PIN keeps the process from ending, so from a
// second login, and says what to do. Other failures of a login end it.
func TestRefusedPINIsNotTriedAgain(t *testing.T) {
	for code, want := range map[pkcs11.Error]string{
		pkcs11.CKR_PIN_INCORRECT: "is wrong", pkcs11.CKR_PIN_INVALID: "characters", pkcs11.CKR_PIN_LEN_RANGE: "too long or too short",
		pkcs11.CKR_PIN_EXPIRED: "has expired", pkcs11.CKR_PIN_LOCKED: "is locked", pkcs11.CKR_USER_PIN_NOT_INITIALIZED: "no PIN",
	} {
		err := describeLogin(code)
		text := err.Error()
		if !isRefusedPIN(err) || isGone(err) || !strings.Contains(text, want) || !strings.HasPrefix(text, "C_Login: ") {
			t.Errorf("%v: %q, refused: %t, gone: %t", code, text, isRefusedPIN(err), isGone(err))
		}
	}
	for _, err := range []error{
		nil,
		describeLogin(pkcs11.Error(pkcs11.CKR_DEVICE_ERROR)),
		fmt.Errorf("C_OpenSession: %w", pkcs11.Error(pkcs11.CKR_SESSION_COUNT)),
	} {
		if isRefusedPIN(err) {
			t.Errorf("%v counts as a PIN that is refused", err)
		}
	}
}

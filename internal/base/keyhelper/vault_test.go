package keyhelper_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/keyhelper"
)

// A fakeVault has what the transit engine of Vault answers, with one key for each purpose.
type fakeVault struct {
	t       *testing.T
	key     *ecdsa.PrivateKey
	wrapped map[string][2]string // key and context, by what it has wrapped
}

func (v *fakeVault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Plaintext, Ciphertext, Input string
		Context                      string `json:"associated_data"`
	}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			v.t.Error(err)
		}
	}
	data := map[string]any{}
	switch path := r.URL.Path; {
	case r.Header.Get("X-Vault-Token") != "a token":
		w.WriteHeader(http.StatusForbidden)
		return
	case path == "/v1/transit/encrypt/threeds":
		name := "vault:v1:" + base64.StdEncoding.EncodeToString([]byte(rand.Text()))
		v.wrapped[name], data["ciphertext"] = [2]string{body.Plaintext, body.Context}, name
	case path == "/v1/transit/decrypt/threeds" && v.wrapped[body.Ciphertext][1] == body.Context:
		data["plaintext"] = v.wrapped[body.Ciphertext][0]
	case path == "/v1/transit/keys/visa":
		der, err := x509.MarshalPKIXPublicKey(v.key.Public())
		if err != nil {
			v.t.Error(err)
		}
		public := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		data["keys"] = map[string]any{"2": map[string]string{"public_key": public}}
	case path == "/v1/transit/sign/visa/sha2-256":
		digest, err := base64.StdEncoding.DecodeString(body.Input)
		if err != nil {
			v.t.Error(err)
		}
		signature, err := v.key.Sign(rand.Reader, digest, crypto.SHA256)
		if err != nil {
			v.t.Error(err)
		}
		data["signature"] = "vault:v2:" + base64.StdEncoding.EncodeToString(signature)
	default:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if err := json.NewEncoder(w).Encode(map[string]any{"data": data}); err != nil {
		v.t.Error(err)
	}
}

// TestK6ExampleForVaultSpeaksTheProtocol: the program deploy/helpers/vault wraps, unwraps and signs with what a transit
// engine answers, and says what the engine refuses.
func TestK6ExampleForVaultSpeaksTheProtocol(t *testing.T) {
	needProgram(t, "python3")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&fakeVault{t, key, map[string][2]string{}})
	defer server.Close()
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("a token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs("../../../deploy/helpers/vault/threeds-vault")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("VAULT_ADDR", server.URL)
	t.Setenv("VAULT_TOKEN_FILE", tokenFile)
	h := keyhelper.New([]string{program}, patience)
	defer h.Close()
	secret := bytes.Repeat([]byte{9}, 32)
	wrapped, err := h.Wrap("threeds", secret, "keys.json")
	if err != nil || !strings.HasPrefix(string(wrapped), "vault:v1:") {
		t.Fatalf("wrapped as %q, %v", wrapped, err)
	}
	if got, err := h.Unwrap("threeds", wrapped, "keys.json"); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("unwrapped as %x, %v", got, err)
	}
	_, err = h.Unwrap("threeds", wrapped, "other.json")
	wantError(t, err, `threeds-vault: unwrap with key "threeds": Vault answers with status 400`)
	signer, err := h.Signer("visa")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signer.Sign(rand.Reader, make([]byte, 32), crypto.SHA256); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(tokenFile, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = h.Signer("visa")
	wantError(t, err, `public with key "visa": Vault answers with status 403`)
	if h.Starts() != 1 {
		t.Errorf("%d starts", h.Starts())
	}
}

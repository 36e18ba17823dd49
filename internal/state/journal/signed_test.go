package journal_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestD121WhatIsSignedIsAsDocumented: who has the page, the public key and an export checks its signatures without threeds.
func TestD121WhatIsSignedIsAsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operating/journal.md")
	if err != nil || !strings.Contains(string(page), `"threeds journal export LINES DIGEST"`) || !strings.Contains(string(page), `"threeds journal day CHAIN SEQ LINK"`) {
		t.Fatalf("the page does not say what is signed: %v", err)
	}
	keys := journal.NewKeys()
	st, err := journal.OpenFiles(t.TempDir(), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	write(t, st, entry(keys, 0, journal.Claimed), entry(keys, 1, journal.Claimed))
	if err := st.Sign(t.Context(), day.AddDate(0, 0, 1)); err != nil {
		t.Fatal(err)
	}
	sum, signed := sha256.New(), 0
	for n, line := range strings.SplitAfter(strings.TrimSuffix(export(t, st, keys, journal.Query{}), "\n"), "\n") {
		var l struct {
			Type, Chain, Link, Digest, Signature string
			Seq, Lines                           int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		text := ""
		switch l.Type {
		case "day":
			text = fmt.Sprintf("threeds journal day %s %d %s", l.Chain, l.Seq, l.Link)
		case "end":
			if l.Lines != n || l.Digest != hex.EncodeToString(sum.Sum(nil)) {
				t.Errorf("end: %d lines, digest %s; want %d, %x", l.Lines, l.Digest, n, sum.Sum(nil))
			}
			text = fmt.Sprintf("threeds journal export %d %s", n, l.Digest)
		}
		if signature, err := base64.StdEncoding.DecodeString(l.Signature); text != "" {
			signed++
			if err != nil || !ed25519.Verify(keys.PublicKey(), []byte(text), signature) {
				t.Errorf("the signature of line %d does not fit: %s", n+1, line)
			}
		}
		sum.Write([]byte(line))
	}
	if signed != 2 {
		t.Errorf("%d signatures, want those of a day and of the end", signed)
	}
}

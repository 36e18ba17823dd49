package keyring

import (
	"encoding/hex"
	"testing"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// TestD108KeyIDsNameTheSecrets: each secret of a file has the id that stands in what it seals, whatever its place.
func TestD108KeyIDsNameTheSecrets(t *testing.T) {
	secrets := make([][]byte, 3)
	var ids [3]string
	for i := range secrets {
		secrets[i] = make([]byte, secretLen)
		secrets[i][0] = byte(i + 1)
		ring, err := newRing(keyfile.Vault{}, secrets[i:i+1], 0)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = hex.EncodeToString(ring.Seal("name", nil)[1 : 1+keyIDLen])
	}
	for _, test := range []struct {
		secrets int
		former  int
		want    KeyIDs
	}{
		{1, 0, KeyIDs{Current: ids[0]}},
		{2, 1, KeyIDs{Current: ids[0], Previous: ids[1]}},
		{2, 0, KeyIDs{Current: ids[0], Next: ids[1]}},
		{3, 1, KeyIDs{Current: ids[0], Previous: ids[1], Next: ids[2]}},
	} {
		ring, err := newRing(keyfile.Vault{}, secrets[:test.secrets], 0)
		if err != nil {
			t.Fatal(err)
		}
		ring.former = test.former
		if got := ring.KeyIDs(); got != test.want {
			t.Errorf("%d secrets, previous: %d: %v, want %v", test.secrets, test.former, got, test.want)
		}
	}
}

package keyring

import (
	"encoding/hex"
	"testing"
)

// TestD108KeyIDsNameTheSecrets: each secret of a file has the id that stands in what it seals, whatever its place.
func TestD108KeyIDsNameTheSecrets(t *testing.T) {
	secrets := make([][]byte, 3)
	var ids [3]string
	for i := range secrets {
		secrets[i] = make([]byte, secretLen)
		secrets[i][0] = byte(i + 1)
		ring, err := newRing(secrets[i : i+1])
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = hex.EncodeToString(ring.Seal("name", nil)[1 : 1+keyIDLen])
	}
	for _, test := range []struct {
		secrets     int
		hasPrevious bool
		want        KeyIDs
	}{
		{1, false, KeyIDs{Current: ids[0]}},
		{2, true, KeyIDs{Current: ids[0], Previous: ids[1]}},
		{2, false, KeyIDs{Current: ids[0], Next: ids[1]}},
		{3, true, KeyIDs{Current: ids[0], Previous: ids[1], Next: ids[2]}},
	} {
		ring, err := newRing(secrets[:test.secrets])
		if err != nil {
			t.Fatal(err)
		}
		ring.hasPrevious = test.hasPrevious
		if got := ring.KeyIDs(); got != test.want {
			t.Errorf("%d secrets, previous: %t: %v, want %v", test.secrets, test.hasPrevious, got, test.want)
		}
	}
}

package porttest_test

import (
	"net"
	"testing"

	"github.com/openthreeds/threeds/internal/base/porttest"
)

// TestAddressesAreFreeAndNeverTheSame: more of them than a block has, and each can be listened on.
func TestAddressesAreFreeAndNeverTheSame(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 3 {
		for _, address := range porttest.Addresses(t, 50) {
			if seen[address] {
				t.Errorf("%s twice", address)
			}
			seen[address] = true
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Error(err)
				continue
			}
			defer l.Close()
		}
	}
	if address := porttest.Address(t); seen[address] {
		t.Errorf("%s again", address)
	}
}

package operators

import (
	"io"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD148StoreMerchantNeedsNoRestart: a merchant that is added while a server runs, and its key, are used at once. A
// change is used within a second, and the hash of the configuration stays, so that nodes do not seem to differ.
func TestD148StoreMerchantNeedsNoRestart(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	before := s.Identity()
	merchant(s, "add", "--name", "Stored", "--requestor-id", "StoredID")
	s.APIKey = s.CreateKey("Stored")
	if sent := s.Through(s.Request("2.2.0")); sent.Text("threeDSRequestorID") != "StoredID" {
		t.Errorf("the requestor is %q, want that of the store", sent.Text("threeDSRequestorID"))
	}
	merchant(s, "set", "--name", "Stored", "--per-directory", "visa.requestor_id=VisaID")
	waittest.Until(t, "the change", func() bool {
		return s.Through(s.Request("2.2.0")).Text("threeDSRequestorID") == "VisaID"
	})
	if got := s.Identity(); got != before {
		t.Errorf("the node runs with %+v, before with %+v", got, before)
	}
}

// merchant runs a command for merchants.
func merchant(s *rig.Site, args ...string) {
	s.T.Helper()
	var errs strings.Builder
	args = append([]string{"merchant"}, append(args, "--config", s.ConfigFile)...)
	if code := rig.Run(s.T.Context(), args, strings.NewReader(""), io.Discard, &errs); code != 0 {
		s.T.Fatalf("%q: %d %s", args, code, errs.String())
	}
}

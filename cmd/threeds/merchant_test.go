package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

// TestD148StoreMerchantNeedsNoRestart: a merchant that is added while a server runs, and its key, are used at once. A
// change is used within a second, and the hash of the configuration stays, so that nodes do not seem to differ.
func TestD148StoreMerchantNeedsNoRestart(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	before := s.identity()
	s.merchant("add", "--name", "Stored", "--requestor-id", "StoredID")
	s.APIKey = s.key("Stored")
	if sent := s.through(s.request("2.2.0")); sent.text("threeDSRequestorID") != "StoredID" {
		t.Errorf("the requestor is %q, want that of the store", sent.text("threeDSRequestorID"))
	}
	s.merchant("set", "--name", "Stored", "--per-directory", "visa.requestor_id=VisaID")
	deadline := time.Now().Add(2 * time.Minute) // one second on a machine that is not busy
	for {
		sent := s.through(s.request("2.2.0"))
		if sent.text("threeDSRequestorID") == "VisaID" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the requestor is %q long after the change", sent.text("threeDSRequestorID"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got := s.identity(); got != before {
		t.Errorf("the node runs with %+v, before with %+v", got, before)
	}
}

// merchant runs a command for merchants.
func (s *site) merchant(args ...string) {
	s.t.Helper()
	var errs strings.Builder
	args = append([]string{"merchant"}, append(args, "--config", s.config)...)
	if code := run(s.t.Context(), args, strings.NewReader(""), io.Discard, &errs); code != 0 {
		s.t.Fatalf("%q: %d %s", args, code, errs.String())
	}
}

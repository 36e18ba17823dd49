package server

import (
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/state/store"
)

// TestD145RowSealedDuringARotationIsSealedAnew: what a command has sealed with the previous secret outlives that
// secret.
func TestD145RowSealedDuringARotationIsSealedAnew(t *testing.T) {
	s, _ := idleServer(t)
	former := s.ring.Load()
	handover, err := former.NewHandover(nil)
	must(t, err)
	now, err := former.Follow(&handover)
	must(t, err)
	s.useRing(now)
	late := &clientcert.Service{Store: s.db, Sealer: former, Now: time.Now}
	spec := clientcert.Spec{Curve: "P-256", Subject: "CN=3ds.example"}
	_, _, err = late.Request(t.Context(), "visa", spec, func(_, _ clientcert.Status) error { return nil })
	must(t, err)
	must(t, s.resealObjects(t.Context()))
	row, err := s.db.Object(t.Context(), store.CertificateObjects, "visa")
	must(t, err)
	if now.IsSealedByPrevious(row.Data) {
		t.Error("the row is sealed under the former secret")
	}
	if status, err := s.managed.service.Status(t.Context(), "visa"); err != nil || len(status.Requests) != 1 {
		t.Errorf("status %+v, %v", status, err)
	}
}

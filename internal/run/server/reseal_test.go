package server

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// TestD102WhatLastsIsSealedAnewAtOnce: tokens, client certificates and webhook endpoints work even if the previous
// secret leaves the key file soon after a rotation by hand.
func TestD102WhatLastsIsSealedAnewAtOnce(t *testing.T) {
	s, _ := idleServer(t)
	former := s.ring.Load()
	settings := WebhookSettings{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	s.hooks.Configure(settings.forDeliveries(s.timestamp))
	endpoint, err := s.hooks.Add(t.Context(), "Shop", webhook.Endpoint{URL: "http://127.0.0.1:1/"})
	must(t, err)
	token, err := s.operators.CreateToken(t.Context(), operator.Token{Name: "deploy", Role: operator.Admin})
	must(t, err)
	spec := clientcert.Spec{Curve: "P-256", Subject: "CN=3ds.example"}
	_, _, err = s.managed.service.Request(t.Context(), "visa", spec, func(_, _ clientcert.Status) error { return nil })
	must(t, err)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		s.keepObjects(ctx)
		close(ended)
	}()
	defer func() {
		stop()
		<-ended
	}()
	handover, err := former.NewHandover(nil)
	must(t, err)
	now, err := former.Follow(&handover)
	must(t, err)
	s.useRing(now)
	isSealedAnew := func(kind, id string) bool {
		row, err := s.db.Object(t.Context(), kind, id)
		must(t, err)
		return !now.IsSealedByPrevious(row.Data)
	}
	waittest.Until(t, "all rows to be sealed under the new secret", func() bool {
		rows, err := s.db.Endpoints(t.Context())
		must(t, err)
		return isSealedAnew(store.TokenObjects, "deploy") && isSealedAnew(store.CertificateObjects, "visa") && !now.IsSealedByPrevious(rows[0].Data)
	})

	file := filepath.Join(t.TempDir(), "keys.json")
	write(t, file, nil)
	must(t, now.WriteFile(file))
	var content map[string]any
	data, err := os.ReadFile(file)
	must(t, err)
	must(t, json.Unmarshal(data, &content))
	delete(content, "previous")
	data, err = json.Marshal(content)
	must(t, err)
	write(t, file, data)
	alone, err := keyring.Load(file)
	must(t, err)
	s.useRing(alone)
	if got, err := s.hooks.Endpoint(t.Context(), "Shop", endpoint.ID); err != nil || string(got.Secret) != string(endpoint.Secret) {
		t.Errorf("the endpoint: %v", err)
	}
	if _, err := s.operators.FindActor(t.Context(), token); err != nil {
		t.Errorf("the token: %v", err)
	}
	if _, err := s.managed.service.Status(t.Context(), "visa"); err != nil {
		t.Errorf("the client certificate: %v", err)
	}
}

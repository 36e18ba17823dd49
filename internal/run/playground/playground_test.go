package playground

import (
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/sandbox"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.Stop()
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestServerConfig: the server of a playground asks a directory server that is silent again
// and again, takes what is of this machine, and knows each directory server by its name.
func TestServerConfig(t *testing.T) {
	p := &Playground{Sandbox: &sandbox.Sandbox{Log: slog.New(slog.DiscardHandler)}}
	must(t, p.Sandbox.Start())
	defer p.Sandbox.Close()
	cfg := p.serverConfig(Options{DirectoryTimeout: time.Minute}, nil, nil)
	for i, d := range p.Sandbox.Directories() {
		peer, engine, client := cfg.Peers[i], cfg.Directories[i], cfg.Clients[i]
		if !peer.AlwaysTry || !peer.Lab || !engine.Lab || !engine.Informational || peer.OperatorID == "" || engine.OperatorID != peer.OperatorID {
			t.Errorf("%s: %+v, %+v", d.Scheme, peer, engine)
		}
		if cfg.Timeouts.Authentication != time.Minute || peer.Timeout != time.Minute || peer.DialTimeout != 30*time.Second {
			t.Errorf("%s: waits %v, for one answer %v, connects for %v; want 1m0s twice and 30s", d.Scheme,
				cfg.Timeouts.Authentication, peer.Timeout, peer.DialTimeout)
		}
		if client.Scheme != d.Scheme || !slices.Equal(client.Names, []string{d.ClientName}) || client.CA == nil || client.CA.Equal(x509.NewCertPool()) {
			t.Errorf("%s: who may send results: %+v", d.Scheme, client)
		}
	}
	for i, d := range p.Sandbox.V1Directories() {
		if peer := cfg.V1Peers[i]; !peer.AlwaysTry || peer.Scheme != d.Scheme || peer.DialTimeout != 30*time.Second {
			t.Errorf("%s of 1.0.2: %+v", d.Scheme, peer)
		}
	}
}

// TestF1SandboxMerchantsHaveCompleteProfiles: both merchants have all that an authentication wants, for every
// scheme, and pages of any origin may call: those of developers are anywhere.
func TestF1SandboxMerchantsHaveCompleteProfiles(t *testing.T) {
	p := &Playground{Sandbox: &sandbox.Sandbox{Log: slog.New(slog.DiscardHandler)}}
	must(t, p.Sandbox.Start())
	defer p.Sandbox.Close()
	api, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer api.Close()
	merchants := p.serverConfig(Options{API: api}, nil, nil).Merchants
	if len(merchants) != 2 || merchants[0].Name != shopMerchant || merchants[1].Name != otherMerchant {
		t.Fatalf("merchants %+v", merchants)
	}
	for _, m := range merchants {
		if m.MerchantName == "" || m.MCC == "" || m.MerchantCountry == "" || m.RequestorURL == "" ||
			len(m.Origins) > 0 || m.Page.Colour == "" || m.Page.Accent == "" {
			t.Errorf("%+v", m)
		}
		if got, err := config.CheckLogo(m.Page.Logo); err != nil || got != m.Page.LogoType {
			t.Errorf("the logo of %s: %q, %v", m.Name, got, err)
		}
		for _, d := range p.Sandbox.Directories() {
			if r := m.Requestor(d.Scheme); r.AcquirerBIN == "" || r.AcquirerMerchantID == "" {
				t.Errorf("%s at %s: %+v", m.Name, d.Scheme, r)
			}
		}
	}
}

// TestWellKnownKeys: the well-known keys are there in a new store and in one that is kept,
// and take requests as leniently as a new key does.
func TestWellKnownKeys(t *testing.T) {
	dir := t.TempDir()
	ring, err := keyring.LoadOrCreate(filepath.Join(dir, "keys.json"))
	must(t, err)
	db, err := server.OpenStore(t.Context(), config.StoreURL{Dir: dir})
	must(t, err)
	for range 2 {
		must(t, putKeys(t.Context(), db, ring, nil))
	}
	keys, err := db.Keys(t.Context())
	if err != nil || len(keys) != 2 || keys[0].Strict || keys[1].Strict {
		t.Errorf("%+v, %v", keys, err)
	}
	must(t, db.Close())
	if err := putKeys(t.Context(), db, ring, nil); err == nil {
		t.Error("the keys are in a store that is closed")
	}
}

package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"reflect"
	"testing"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/revocation"
	"github.com/openthreeds/threeds/internal/tunnel"
	"github.com/openthreeds/threeds/internal/xmldsig"
	"github.com/openthreeds/threeds/message"
)

// filler gives every value of a configuration one that no other has.
type filler struct{ n int }

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch {
	case v.Type() == reflect.TypeFor[tls.Certificate]():
		v.Set(reflect.ValueOf(tls.Certificate{Certificate: [][]byte{fmt.Append(nil, "certificate ", f.n)}}))
		return
	case v.Type() == reflect.TypeFor[*x509.CertPool]():
		v.Set(reflect.ValueOf(x509.NewCertPool()))
		return
	case v.Type() == reflect.TypeFor[*x509.Certificate]():
		v.Set(reflect.ValueOf(new(x509.Certificate)))
		return
	case v.Type() == reflect.TypeFor[*revocation.List]():
		v.Set(reflect.ValueOf(new(revocation.List)))
		return
	case v.Type() == reflect.TypeFor[*xmldsig.Root]():
		v.Set(reflect.ValueOf(new(xmldsig.Root)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text ", f.n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Float64:
		v.SetFloat(float64(f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		f.fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("2.2.0"), value) // a version, or the name of a scheme
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	default:
		panic("a kind of value that no configuration has had: " + v.Kind().String())
	}
}

// TestConfigReachesTheNode: what the configuration says of limits, times, directories and
// merchants is told to those who go by it, each in its place.
func TestConfigReachesTheNode(t *testing.T) {
	c := new(config)
	new(filler).fill(reflect.ValueOf(c).Elem())
	d, v1, m := &c.Directories[0], &c.V1[0], &c.Merchants[0]
	d.Versions = []string{"2.2.0", "2.1.0"}
	d.Informational, v1.VerifyAt = "any", "signing_time"
	d.Revocation = "required"
	c.Log.Level, c.ends, c.due = "error", ends{"results.tls.cert": noon}, terms{"directories[0].crls": {noon, noon}}
	for _, p := range c.proxies {
		p.URL.Direct = false
	}
	proxyOf := func(p *proxyConfig) *tunnel.Proxy {
		return &tunnel.Proxy{Address: p.URL.Address, Roots: p.CA.Pool, User: p.User, Password: p.Password}
	}
	log := slog.New(slog.DiscardHandler)
	cfg := c.node(log, nil)
	peer, engine, client := cfg.Peers[0], cfg.Directories[0], cfg.Clients[0]
	v1Peer, v1Engine := cfg.V1Peers[0], cfg.V1Directories[0]
	versions := []message.Version{message.V210, message.V220}
	for _, tt := range []struct {
		key       string
		got, want any
	}{
		{"log.level", c.level(), slog.LevelError},
		{"store", cfg.At, c.Store.URL},
		{"shutdown", cfg.Shutdown, c.Timeouts.Shutdown},
		{"lame_duck", cfg.LameDuck, c.Timeouts.LameDuck},
		{"timeouts", cfg.Timeouts, auth.Timeouts{
			Authentication: c.Timeouts.Authentication, Preauth: c.Timeouts.Preauth, Challenge: c.Timeouts.Challenge,
			Result: c.Timeouts.Result, DecoupledResult: c.Timeouts.DecoupledResult,
		}},
		{"limits", cfg.Limits, limits{
			PerKey: c.Limits.PerKey.PerSecond(), InFlight: int64(c.Limits.InFlight), Connections: c.Limits.Connections, Wait: c.Limits.Wait,
			AuthBody: int64(c.Limits.AuthBody), Body: int64(c.Limits.Body), Message: message.Limits{Depth: c.Limits.Depth, Members: c.Limits.Members},
		}},
		{"server.requestor_id", cfg.Server.RequestorID, c.Server.RequestorID},
		{"server.requestor_name", cfg.Server.RequestorName, c.Server.RequestorName},
		{"server.reference_numbers", cfg.Server.RefNumber(message.V220), c.Server.ReferenceNumbers["2.2.0"]},
		{"server.reference_number", cfg.Server.RefNumber(message.V231), c.Server.ReferenceNumber},
		{"the same of a PReq", peer.RefNumber(message.V220) + peer.RefNumber(message.V231), c.Server.ReferenceNumbers["2.2.0"] + c.Server.ReferenceNumber},
		{"merchants", cfg.Merchants, []account.Merchant{{
			Name: m.Name, RequestorID: m.RequestorID, RequestorName: m.RequestorName, AcquirerCountry: m.AcquirerCountry, SchemeRules: m.SchemeRules,
			PerDirectory: map[string]account.Requestor{"2.2.0": {ID: m.PerDirectory["2.2.0"].RequestorID, Name: m.PerDirectory["2.2.0"].RequestorName}},
		}}},
		{"certificates", cfg.Certs, []tls.Certificate{c.Results.TLS.Certificate, d.Results.TLS.Certificate}},
		{"their ends", cfg.Ends, c.ends},
		{"those of lists", cfg.Due, c.due},
		{"api.tls", *cfg.APICert, c.API.TLS.Certificate},

		{"schemes", []string{peer.Scheme, engine.Scheme, client.Scheme}, []string{d.Scheme, d.Scheme, d.Scheme}},
		{"urls", []string{peer.AReqURL, peer.PReqURL, engine.ResultsURL}, []string{d.AReqURL, d.PReqURL, d.Results.URL}},
		{"operator_id", []string{peer.OperatorID, engine.OperatorID}, []string{d.OperatorID, d.OperatorID}},
		{"versions", [][]message.Version{peer.Versions, engine.Versions}, [][]message.Version{versions, versions}},
		{"client_cert", peer.TLS.Certificates, []tls.Certificate{d.ClientCert.Certificate}},
		{"timeout", peer.Timeout, d.Timeout},
		{"refresh", peer.Refresh, d.Refresh},
		{"min_refresh", peer.MinRefresh, d.MinRefresh},
		{"limits.per_directory", peer.MaxInFlight, c.Limits.PerDirectory},
		{"limits.per_merchant", peer.MaxPerMerchant, c.Limits.PerMerchant},
		{"file_hosts", peer.FileHosts, d.FileHosts},
		{"forward_proxy of its own", peer.Proxy, proxyOf(d.ForwardProxy)},
		{"requestor_id", engine.RequestorID, d.RequestorID},
		{"requestor_name", engine.RequestorName, d.RequestorName},
		{"informational", engine.Informational, true},
		{"lab", []bool{peer.Lab, engine.Lab}, []bool{true, true}},
		{"critical_extensions", engine.CriticalExtensions, d.CriticalExtensions},
		{"client_names", client.Names, d.ClientNames},

		{"v1.scheme", []string{v1Peer.Scheme, v1Engine.Scheme, v1Engine.Policy().Name}, []string{v1.Scheme, v1.Scheme, v1.Scheme}},
		{"v1 urls", []string{v1Peer.URL, v1Peer.Fallback, v1Engine.CardRanges.URL}, []string{v1.DirectoryURL, v1.FallbackURL, v1.DirectoryURL}},
		{"v1.forward_proxy of its own", v1Peer.Proxy, proxyOf(v1.ForwardProxy)},
		{"v1.client_cert", v1Peer.TLS.Certificates, []tls.Certificate{v1.ClientCert.Certificate}},
		{"v1.allow_sha1", v1Engine.Policy().AllowSHA1, true},
		{"v1.min_key_bits", v1Engine.Policy().MinKeyBits, v1.MinKeyBits},
		{"v1.verify_at", v1Engine.SigningTime, true},
		{"v1.lab", v1Engine.Lab, true},
		{"v1.card_ranges", []string{v1Engine.CardRanges.AcquirerBIN, v1Engine.CardRanges.MerchantID}, []string{v1.CardRanges.AcquirerBIN, v1.CardRanges.MerchantID}},
		{"limits.breaker", []bool{peer.AlwaysTry, v1Peer.AlwaysTry}, []bool{false, false}},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.key, tt.got, tt.want)
		}
	}
	tracing := obs.Tracing{Endpoint: c.Tracing.Endpoint, Header: c.Tracing.Header, Fraction: c.Tracing.SamplingFraction, Version: release(), TLS: cfg.Tracing.TLS}
	if !reflect.DeepEqual(*cfg.Tracing, tracing) || cfg.Tracing.TLS.RootCAs != c.Tracing.CA.Pool {
		t.Errorf("tracing: %+v, want %+v", cfg.Tracing, tracing)
	}
	// Of authorities it matters which they are, not what is in them.
	if peer.TLS.RootCAs != d.ServerCA.Pool || client.CA != d.ClientCA.Pool || v1Peer.TLS.RootCAs != v1.ServerCA.Pool {
		t.Error("authorities are not those that are configured")
	}
	for name, of := range map[string]struct {
		p        *revocation.Policy
		lists    []*revocation.List
		required bool
	}{
		"crls": {peer.Revoked, d.CRLs.Lists, true}, "crls, of clients": {client.Revoked, d.CRLs.Lists, true}, "v1.crls": {v1Peer.Revoked, v1.CRLs.Lists, false},
	} {
		if of.p == nil || len(of.p.Lists) != 1 || of.p.Lists[0] != of.lists[0] || of.p.Required != of.required {
			t.Errorf("%s: %+v", name, of.p)
		}
	}
	if roots := v1Engine.Policy().Roots; len(roots) != 1 || roots[0] != v1.PAResRoots.Roots[0] {
		t.Error("roots of PARes are not those that are configured")
	}

	// What is off, or not said.
	c.Limits.Breaker, d.Informational, v1.VerifyAt, v1.AllowSHA1 = false, "strict", "now", false
	d.Lab, v1.Lab = false, false
	c.API.TLS, d.Results, d.Timeout, v1.CardRanges = nil, nil, 0, nil
	d.CRLs.Lists, v1.CRLs.Lists, v1.Revocation = nil, nil, "listed"
	d.ForwardProxy, v1.ForwardProxy.URL = nil, proxyAt{Direct: true}
	cfg = c.node(log, nil)
	peer, engine, v1Peer, v1Engine = cfg.Peers[0], cfg.Directories[0], cfg.V1Peers[0], cfg.V1Directories[0]
	if !peer.AlwaysTry || !v1Peer.AlwaysTry || engine.Informational || v1Engine.SigningTime || v1Engine.Policy().AllowSHA1 || peer.Lab || engine.Lab || v1Engine.Lab {
		t.Error("a switch that is off is on")
	}
	if p := peer.Revoked; p == nil || !p.Required || cfg.Clients[0].Revoked != p || v1Peer.Revoked != nil {
		t.Error("lists that are not there are held against, or are not where they are required")
	}
	if !reflect.DeepEqual(peer.Proxy, proxyOf(c.ForwardProxy)) || v1Peer.Proxy != nil {
		t.Error("a directory without a proxy of its own is not behind that of all, or one without any is")
	}
	if cfg.APICert != nil || len(cfg.Certs) != 1 || engine.ResultsURL != c.Results.URL || peer.Timeout != c.Timeouts.Authentication || v1Engine.CardRanges != nil {
		t.Error("what is not said of a directory is not that of all")
	}
}

package config

import (
	"bytes"
	"cmp"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
)

// readFile fills the configuration from the mapping that the file is.
func (l *loader) readFile(file *section) {
	c := l.config
	api := file.section("api")
	c.API.Listen = optional(api, "listen", address, "127.0.0.1:8080")
	c.API.TLS = optionalSection(api, "tls", readKeyPair)
	c.API.Proxies = list(api, "proxies", network, false)
	api.close()

	received := file.section("results")
	c.Results.Listen = optional(received, "listen", address, "127.0.0.1:8443")
	c.Results.URL = required(received, "url", httpURL)
	c.Results.TLS = readKeyPair(received.section("tls"))
	received.close()

	kept := file.section("store")
	c.Store.URL = optional(kept, "url", l.storeURL(), "file:threeds-data")
	c.Store.Engine = optional(kept, "engine", oneOf(postgres.Plain, postgres.Citus), string(postgres.Plain))
	kept.close()

	c.Keys = optional(file, "keys", l.path(), "")
	c.KeyHelper = optionalSection(file, "key_helper", readKeyHelper)

	c.Console = readConsole(file.section("console"))

	c.Browser = optionalSection(file, "browser", readBrowser)
	l.readLimits(file.section("limits"))

	log := file.section("log")
	c.Log.Level = optional(log, "level", oneOf("debug", "info", "warn", "error"), "info")
	log.close()

	server := file.section("server")
	c.Server.ReferenceNumbers = mapOf(server, "reference_numbers", version, text(1, 32))
	c.Server.ReferenceNumber = optional(server, "reference_number", text(1, 32), "")
	c.Server.RequestorID = optional(server, "requestor_id", text(1, 35), "")
	c.Server.RequestorName = optional(server, "requestor_name", text(1, 40), "")
	server.close()

	c.Merchants = sections(file, "merchants", false, readMerchant)
	l.readTimeouts(file.section("timeouts"))
	l.readJournal(file)
	l.readWebhooks(file.section("webhooks"))
	c.SIEM = optionalSection(file, "siem", readSIEM)
	l.readACP(file.section("acp"))
	c.ForwardProxy = optionalSection(file, "forward_proxy", readProxySection)
	c.Tracing = optionalSection(file, "tracing", readTracing)
	c.Directories = sections(file, "directories", true, readDirectory)
	c.V1 = sections(file, "v1", false, readV1Directory)
	file.close()
}

func readBrowser(s *section) (b Browser) {
	defer s.close()
	b.Listen = optional(s, "listen", address, "127.0.0.1:8091")
	b.URL = required(s, "url", origin)
	b.TLS = optionalSection(s, "tls", readKeyPair)
	b.TrustedProxies = list(s, "trusted_proxies", network, false)
	return b
}

func (l *loader) readLimits(s *section) {
	defer s.close()
	c := &l.config.Limits
	c.PerKey = optional(s, "per_key", rate, "500/s")
	c.InFlight = optional(s, "in_flight", count(1, 1000000), "10000")
	c.Connections = optional(s, "connections", count(16, 1000000), "4096")
	c.Wait = optional(s, "wait", duration("1ms", "1m"), "5ms")
	c.PerDirectory = optional(s, "per_directory", count(1, 1000000), "5000")
	c.PerMerchant = optional(s, "per_merchant", count(1, 1000000), "")
	c.Breaker = optional(s, "breaker", boolean, "true")
	c.AuthBody = optional(s, "auth_body", size("16KiB", "16MiB"), "256KiB")
	c.Body = optional(s, "body", size("1KiB", "16MiB"), "64KiB")
	c.Depth = optional(s, "depth", count(5, 100), "10")
	c.Members = optional(s, "members", count(200, 100000), "1000")
}

func (l *loader) readTimeouts(s *section) {
	defer s.close()
	c := &l.config.Timeouts
	c.Authentication = optional(s, "authentication", duration("1s", "60s"), "10s")
	c.Preauth = optional(s, "preauth", duration("10s", "1h"), "80s")
	c.Result = optional(s, "result", duration("10s", "24h"), "300s")
	c.DecoupledResult = optional(s, "decoupled_result", duration("10s", "24h"), "20m")
	c.Browser = optional(s, "browser", duration("5s", "30m"), "30m")
	c.Values = optional(s, "values", duration("10s", "168h"), "30m")
	c.Idempotency = optional(s, "idempotency", duration("1m", "168h"), "24h")
	c.Challenge = optional(s, "challenge", duration("10m", "168h"), "24h")
	c.Shutdown = optional(s, "shutdown", duration("0s", "10m"), "15s")
	c.LameDuck = optional(s, "lame_duck", duration("0s", "5m"), "0s")
}

// defaultMessages is how long messages of the journal are kept if the configuration does not say.
const defaultMessages = 90 * 24 * time.Hour

func (l *loader) readJournal(file *section) {
	c := &l.config.Journal
	if n := file.value("journal"); n != nil && n.GetToken().Value == "off" {
		return // 0 keeps nothing
	}
	s := file.section("journal")
	defer s.close()
	c.Keep = optional(s, "keep", days("1d", "4000d"), "400d")
	c.Messages = optional(s, "messages", days("1d", "4000d"), "")
	switch {
	case c.Messages == 0:
		c.Messages = min(c.Keep, defaultMessages)
	case c.Messages > c.Keep && c.Keep > 0:
		l.fault("journal.messages",
			"messages cannot be kept for longer than their records, which are kept for %dd: lower it, or raise journal.keep",
			int(c.Keep.Hours())/24)
	}
	c.Personal = optional(s, "personal", daysOrOff("1d", "4000d"), "off")
	if c.Personal > c.Messages && c.Messages > 0 {
		l.fault("journal.personal",
			"personal data cannot be kept for longer than the messages that they are of, which are kept for %dd: lower it, or raise journal.messages",
			int(c.Messages.Hours())/24)
	}
	c.KeepHot = optional(s, "keep_hot", days("1d", "4000d"), "")
	l.checkKeepHot()
	c.URL = optional(s, "url", l.storeURL(), "")
	c.Keys = optional(s, "keys", l.path(), "")
}

// checkKeepHot checks how long days stay in the database against how long they and their personal data are kept.
func (l *loader) checkKeepHot() {
	switch c := &l.config.Journal; {
	case c.KeepHot == 0:
	case c.KeepHot >= c.Keep && c.Keep > 0:
		l.fault("journal.keep_hot",
			"no day is archived before its time of %dd is over: lower it, or raise journal.keep", int(c.Keep.Hours())/24)
	case c.KeepHot < c.Personal:
		l.fault("journal.keep_hot",
			"files have no personal data, which are kept for %dd: raise it, or lower journal.personal",
			int(c.Personal.Hours())/24)
	}
}

func (l *loader) readACP(s *section) {
	defer s.close()
	c := &l.config.ACP
	c.Enabled = optional(s, "enabled", boolean, "false")
	c.Signature = optional(s, "signature",
		fileKind(l, func(path string) AgentSecret { return AgentSecret{File: path} }), "")
}

// minAgentSecret is the least length of an AgentSecret, in bytes.
const minAgentSecret = 16

// loadAgentSecret reads the file of the secret that agents sign requests with.
func (l *loader) loadAgentSecret() {
	s := &l.config.ACP.Signature
	data, ok := l.openSecret(s.File, "acp.signature", "secret")
	if !ok {
		return
	}
	if s.Key = bytes.TrimSpace(data); len(s.Key) < minAgentSecret {
		l.fault("acp.signature",
			"the secret in %s has less than %d bytes: make one by openssl rand -hex 32, and give it to the agent", s.File,
			minAgentSecret)
	}
}

// HasJournal reports whether there is a journal.
func (c *Config) HasJournal() bool { return c.Journal.Keep > 0 }

// JournalURL returns where the journal is: in a store of its own, or else with the transactions.
func (c *Config) JournalURL() StoreURL { return cmp.Or(c.Journal.URL, c.Store.URL) }

func readMerchant(s *section) (m Merchant) {
	defer s.close()
	m.Name = required(s, "name", nameOf(maxMerchantName))
	m.Group = optional(s, "group", merchantGroup, "")
	m.RequestorID = optional(s, "requestor_id", text(1, 35), "")
	m.RequestorName = optional(s, "requestor_name", nameOf(40), "")
	m.AcquirerCountry = optional(s, "acquirer_country", country, "")
	m.SchemeRules = optional(s, "scheme_rules", oneOf("off", "warn", "enforce"), "warn")
	m.Bridging = optional(s, "bridging", boolean, "false")
	m.Transliterate = optional(s, "transliterate", boolean, "false")
	m.Rate = optional(s, "rate", rate, "")
	m.InFlight = optional(s, "in_flight", count(1, 1000000), "")
	m.MerchantName = optional(s, "merchant_name", nameOf(40), "")
	m.MCC = optional(s, "mcc", categoryCode, "")
	m.MerchantCountry = optional(s, "merchant_country", country, "")
	m.RequestorURL = optional(s, "requestor_url", httpURL, "")
	m.Origins = list(s, "origins", origin, false)
	page := s.section("page")
	m.Page.Logo = optional(page, "logo", fileKind(s.l, func(path string) LogoFile { return LogoFile{File: path} }), "")
	m.Page.Colour = optional(page, "colour", colour, "")
	m.Page.Accent = optional(page, "accent", colour, "")
	page.close()
	m.PerDirectory = readMap(s, "per_directory", schemeWord, func(all *section, word string) (id Identity) {
		s := all.section(word)
		defer s.close()
		id.AcquirerBIN = optional(s, "acquirer_bin", acquirerBIN, "")
		id.AcquirerMerchantID = optional(s, "acquirer_merchant_id", text(1, 35), "")
		id.RequestorID = optional(s, "requestor_id", text(1, 35), "")
		id.RequestorName = optional(s, "requestor_name", nameOf(40), "")
		return id
	})
	return m
}

func readDirectory(s *section) (d Directory) {
	defer s.close()
	d.Scheme = required(s, "scheme", schemeWord)
	d.AReqURL = required(s, "areq_url", httpsURL)
	d.PReqURL = required(s, "preq_url", httpsURL)
	d.OperatorID = optional(s, "operator_id", text(1, 32), "")
	d.Versions = list(s, "versions", version, true)
	d.Informational = optional(s, "informational", oneOf("strict", "any"), "strict")
	d.Timeout = optional(s, "timeout", duration("1s", "60s"), "")
	d.Refresh = optional(s, "refresh", duration("1s", "24h"), "4h")
	d.MinRefresh = optional(s, "min_refresh", duration("1s", "24h"), "")
	d.FileHosts = list(s, "file_hosts", hostName, false)
	d.ForwardProxy = optionalSection(s, "forward_proxy", readProxySection)
	d.CriticalExtensions = list(s, "critical_extensions", text(1, 64), false)
	d.DAFExtension = optional(s, "daf_extension", text(1, 64), "")
	d.RequestorID = optional(s, "requestor_id", text(1, 35), "")
	d.RequestorName = optional(s, "requestor_name", text(1, 40), "")
	d.Lab = optional(s, "lab", boolean, "false")
	d.Rules = optional(s, "rules", fileKind(s.l, func(path string) RulesFile { return RulesFile{File: path} }), "")
	d.Colour = optional(s, "colour", colour, "")
	d.ClientCert = readClientCert(s)
	d.ServerCA = required(s, "server_ca", s.l.caFile())
	d.ClientCA = required(s, "client_ca", s.l.caFile())
	d.CRLs = optional(s, "crls", s.l.crlFile(), "")
	d.Revocation = optional(s, "revocation", oneOf("listed", "required"), "listed")
	d.ClientNames = list(s, "client_names", hostName, false)
	d.Results = optionalSection(s, "results", func(s *section) (r DirectoryResults) {
		defer s.close()
		r.URL = required(s, "url", httpURL)
		r.TLS = readKeyPair(s.section("tls"))
		return r
	})
	return d
}

func readV1Directory(s *section) (d V1Directory) {
	defer s.close()
	d.Scheme = required(s, "scheme", v1Scheme)
	d.DirectoryURL = required(s, "directory_url", httpsURL)
	d.FallbackURL = optional(s, "fallback_url", httpsURL, "")
	d.ForwardProxy = optionalSection(s, "forward_proxy", readProxySection)
	d.ClientCert = readKeyPair(s.section("client_cert"))
	d.ServerCA = required(s, "server_ca", s.l.caFile())
	d.CRLs = optional(s, "crls", s.l.crlFile(), "")
	d.Revocation = optional(s, "revocation", oneOf("listed", "required"), "listed")
	d.PAResRoots = required(s, "pares_roots", fileKind(s.l, func(path string) RootFile { return RootFile{File: path} }))
	d.AllowSHA1 = optional(s, "allow_sha1", boolean, "false")
	d.MinKeyBits = optional(s, "min_key_bits", count(1024, 4096), "2048")
	d.VerifyAt = optional(s, "verify_at", oneOf("now", "signing_time"), "now")
	d.Lab = optional(s, "lab", boolean, "false")
	d.CardRanges = optionalSection(s, "card_ranges", func(s *section) (r V1CardRanges) {
		defer s.close()
		r.AcquirerBIN = required(s, "acquirer_bin", text(1, 11))
		r.MerchantID = required(s, "merchant_id", text(1, 24))
		return r
	})
	return d
}

func readProxySection(s *section) (p Proxy) {
	defer s.close()
	p.URL = required(s, "url", proxyURL)
	p.CA = optional(s, "ca", s.l.caFile(), "")
	p.Credentials = optional(s, "credentials", s.l.secretFile("USER:PASSWORD"), "")
	return p
}

func readTracing(s *section) (t Tracing) {
	defer s.close()
	t.Endpoint = required(s, "endpoint", httpURL)
	t.CA = optional(s, "ca", s.l.caFile(), "")
	t.Headers = optional(s, "headers", s.l.secretFile("NAME: VALUE"), "")
	t.SamplingFraction = optional(s, "sampling_fraction", fraction, "0.01")
	return t
}

// managed is the word for a client certificate that the store has.
const managed = "managed"

// readClientCert reads what a directory server is shown: files, or the word managed.
func readClientCert(s *section) KeyPair {
	const key = "client_cert"
	n, isText := s.value(key).(*ast.StringNode)
	if !isText {
		return readKeyPair(s.section(key))
	}
	if word := n.GetToken().Value; word != managed {
		s.l.fault(join(s.path, key), "is neither managed nor a mapping with cert and key%s", hint.For(word, managed))
	}
	return KeyPair{IsManaged: true}
}

func readKeyPair(s *section) (k KeyPair) {
	defer s.close()
	k.Cert = required(s, "cert", s.l.path())
	k.Key = required(s, "key", s.l.keyName())
	return k
}

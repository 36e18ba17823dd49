// Package config reads the configuration file of a server. Use [Load] to serve: it reads the
// files that the configuration names too. Use [Read] for the values of the file alone, and
// [Config.Reload] in a running process.
//
// Everything that is wrong is found in one pass, and is in [Faults] with file, line, column
// and key. No fault quotes a value, since it may be a secret.
package config

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/keyhelper"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
	"github.com/openthreeds/threeds/message"
)

// Config is the configuration of a server, as its file says it. A field has the key that
// its tag names. Its comment is what docs/configuration.md says of the key: a test
// generates that page. Sections.go has what each key may be, and its default. The tag file
// marks the path of a file, whose content is secret or public.
type Config struct {
	API struct {
		// Where requestors reach /preauth, /auth, /postauth, /enrolled and /check.
		Listen string `yaml:"listen"`
		// Certificate and key of this listener. Without them it speaks plain HTTP and belongs behind a proxy that ends TLS.
		TLS *KeyPair `yaml:"tls"`
		// Addresses of the proxies in front. From one of them, the address that `key create --allow` is about is the
		// right-most entry of X-Forwarded-For that is no proxy. The audit trail of the console believes them as well.
		Proxies []string `yaml:"proxies"`
	} `yaml:"api"`

	Results struct {
		// Where directory servers post results. Always mutual TLS.
		Listen string `yaml:"listen"`
		// The address that directory servers see: sent to them as threeDSServerURL.
		URL string `yaml:"url"`
		// Certificate and key that directory servers see there.
		TLS KeyPair `yaml:"tls"`
	} `yaml:"results"`

	Store struct {
		// Where transactions, API keys and card ranges are stored: `file:` and a directory, which is made when absent;
		// or a PostgreSQL database, which several nodes may share. See [operating](operating/database.md#postgresql).
		URL StoreURL `yaml:"url"`
		// What the database is: PostgreSQL alone, or PostgreSQL with the extension Citus, which spreads the authentications
		// over several servers. See [a store spread by Citus](design/citus.md).
		Engine postgres.Engine `yaml:"engine"`
	} `yaml:"store"`

	// The key file: what transaction ids are signed with, and rows of API keys and results sealed. If the store is a
	// directory without API keys, a missing key file is made, readable only by its owner; by default it is `keys.json`
	// in that directory. Required with PostgreSQL, where all nodes have the same key file.
	Keys string `yaml:"keys" file:"secret"`

	// A program that holds keys in the place of files, such as one in front of an HSM. Unset, there is none. See [keys in
	// an HSM or a KMS](operating/hsm.md).
	KeyHelper *KeyHelper `yaml:"key_helper"`

	Console Console `yaml:"console"`

	// Where the browsers of shoppers come: `threeds.js`, the hosted page, and the way back from issuers
	// ([browser](browser.md)). Without it, `POST /authentications` refuses authentications with a browser.
	Browser *Browser `yaml:"browser"`

	Limits struct {
		// Requests per API key; beyond it 429.
		PerKey Rate `yaml:"per_key"`
		// Concurrent requests on the API; beyond it 503. The last tenth of them is kept for /postauth and /check, the one
		// before also for /auth. A body takes one for each 16 KiB, at most half of them. With a memory limit (GOMEMLIMIT) at
		// most what fits into half of it.
		InFlight int `yaml:"in_flight"`
		// Concurrent connections of the API, and of the results listener. Beyond it, the server closes the connection
		// that has been silent longest. The limit is lower if the process may open only few files. See
		// [operating](operating/overload.md).
		Connections int `yaml:"connections"`
		// How long work may wait for a processor, and ten times that for the store. If the wait would be longer,
		// requests are refused with 503, those that begin an authentication first. See
		// [operating](operating/overload.md).
		Wait time.Duration `yaml:"wait"`
		// AReqs that may be on their way to one directory; beyond it 405 immediately instead of after a wait.
		PerDirectory int `yaml:"per_directory"`
		// AReqs of one merchant that may be on their way to one directory; beyond it 429, and the id is not used up. By
		// default half of per_directory.
		PerMerchant int `yaml:"per_merchant"`
		// Whether requests to a directory that cannot be reached are refused immediately, all but one in two seconds. It
		// begins after a while, and ends when a connection is made again. See
		// [operating](operating/directories.md#a-directory-that-is-gone).
		Breaker bool `yaml:"breaker"`
		// Largest body of /auth, /authentications and /explain, and of a message on the results listener if it is more than
		// 256KiB; beyond it 413. The longest AReq of 2.3.1 that the protocol allows has some 450KiB.
		AuthBody int `yaml:"auth_body"`
		// Largest body elsewhere; beyond it 413.
		Body int `yaml:"body"`
		// How deep the JSON of a message may be nested; the message itself is depth 1.
		Depth int `yaml:"depth"`
		// How many members the JSON of a message may have, at all levels together. An AReq of 2.3.1 with fifty merchants and
		// as many sellers has up to 1515.
		Members int `yaml:"members"`
	} `yaml:"limits"`

	Log struct {
		// The least serious thing that is logged.
		Level string `yaml:"level"`
	} `yaml:"log"`

	Server struct {
		// Reference number that EMVCo gave this server, by protocol version.
		ReferenceNumbers map[string]string `yaml:"reference_numbers"`
		// Reference number for the versions not named in reference_numbers. Needed unless all are.
		ReferenceNumber string `yaml:"reference_number"`
		// threeDSRequestorID where neither merchant, caller nor directory has one.
		RequestorID string `yaml:"requestor_id"`
		// threeDSRequestorName where neither merchant, caller nor directory has one.
		RequestorName string `yaml:"requestor_name"`
	} `yaml:"server"`

	Merchants []Merchant `yaml:"merchants"`

	Timeouts struct {
		// From the start of /auth to the end of the directory's answer.
		Authentication time.Duration `yaml:"authentication"`
		// How long a threeDSServerTransID from /preauth may be used. Raised, it is so for those made from then on.
		Preauth time.Duration `yaml:"preauth"`
		// How long a result may be fetched once it is there.
		Result time.Duration `yaml:"result"`
		// The same for a decoupled authentication.
		DecoupledResult time.Duration `yaml:"decoupled_result"`
		// How long an authentication of POST /authentications waits for the browser.
		Browser time.Duration `yaml:"browser"`
		// How long an authentication that is over may be looked up by GET /authentications/ID and POST /outcome, its values
		// included. At least `result`, and raised to that when it is not given.
		Values time.Duration `yaml:"values"`
		// How long an Idempotency-Key stands for the request that first had it. See [idempotency](idempotency.md).
		Idempotency time.Duration `yaml:"idempotency"`
		// How long the result of a challenge is waited for.
		Challenge time.Duration `yaml:"challenge"`
		// How long requests in work may take to finish at shutdown; three seconds at least.
		Shutdown time.Duration `yaml:"shutdown"`
		// How long requests are still taken at shutdown, while /readyz says no already: the time that a load
		// balancer needs to hear of it.
		LameDuck time.Duration `yaml:"lame_duck"`
	} `yaml:"timeouts"`

	// The record of each authentication, kept for years; `off` keeps nothing. See [the journal](operating/journal.md).
	Journal struct {
		// How long it is kept. With `off` in the place of the section it is nothing.
		Keep time.Duration `yaml:"keep"`
		// How long the messages of its records are kept, at most as long as `keep`. Then a record still has its ids, status
		// and times, and can be verified. Unset, 90 days, or `keep` if that is shorter.
		Messages time.Duration `yaml:"messages"`
		// How long personal data of messages are kept, such as names, addresses, telephone numbers and the IP of the browser;
		// at most as long as `messages`. With `off` none are written, and those that are there go.
		Personal time.Duration `yaml:"personal"`
		// How long a day stays in the database before `threeds journal archive` writes it into a file; less than `keep`, and
		// no less than `personal`, because files have no personal data. Unset, all days stay in the database.
		KeepHot time.Duration `yaml:"keep_hot"`
		// Where it is kept. Unset, next to the transactions, where `store.url` says.
		URL StoreURL `yaml:"url"`
		// The file of its keys, which all nodes have. It is made, readable by its owner alone, when absent. Unset,
		// `journal-keys.json` in the directory of the store or, with PostgreSQL, next to `keys`.
		Keys string `yaml:"keys" file:"secret"`
	} `yaml:"journal"`

	// How events are sent to merchants. See [webhooks](webhooks.md).
	Webhooks struct {
		// Networks that events may go to although they are not public.
		Allow []string `yaml:"allow"`
		// Whether events may go to http URLs of addresses in allow.
		HTTP bool `yaml:"http"`
		// The authorities that certificates of endpoints must chain to, in PEM. Unset, those of the machine.
		Roots CAFile `yaml:"roots"`
		// When a delivery that failed is tried again, after each failure; then it is given up. Unset, after 5 s, 30 s, 2 min,
		// 10 min, 1 h, 3 h and 8 h, and then every 12 h for 3 days.
		Retry []time.Duration `yaml:"retry"`
		// How long an endpoint may take to answer.
		Timeout time.Duration `yaml:"timeout"`
		// After how long without a success an endpoint is disabled.
		DisableAfter time.Duration     `yaml:"disable_after"`
		Operator     []WebhookOperator `yaml:"operator"`
	} `yaml:"webhooks"`

	// Where the audit trail and the seals of the journal are sent, by one of `syslog` and `webhook`. Unset, nowhere. See
	// [SIEM](operating/siem.md).
	SIEM *SIEM `yaml:"siem"`

	// Delegate Authentication of the Agentic Commerce Protocol, for agents that pay in the place of
	// shoppers. See [ACP](acp.md).
	ACP struct {
		// Whether /delegate_authentication is served, on the listener of the API.
		Enabled bool `yaml:"enabled"`
		// The file of the secret that agents sign requests with, at least 16 bytes; blanks around it do not count. Unset,
		// signatures are not looked at.
		Signature AgentSecret `yaml:"signature" file:"secret"`
	} `yaml:"acp"`

	// A forward proxy, which makes all connections to directories for us (CONNECT of HTTP/1.1), those for files of card
	// ranges too. Unset, they are made straight, whatever the environment says. See
	// [operating](operating/network.md#through-a-forward-proxy).
	ForwardProxy *Proxy `yaml:"forward_proxy"`

	// Where traces of requests go. Unset, the variables `OTEL_…` of the environment say it, if they name a collector. See
	// [operating](operating/logs.md#traces).
	Tracing *Tracing `yaml:"tracing"`

	Directories []Directory `yaml:"directories"`

	V1 []V1Directory `yaml:"v1"`

	// What follows is filled by Load and Reload, by the keys of the configuration that
	// name the files.
	Warnings     []string             // whole lines, in the order of the file
	Ends         map[string]time.Time // when certificates expire; of several in one file the earliest
	ListTerms    map[string]Term      // when revocation lists are valid; of several in one file the one that ends first
	Certificates Certificates         // which parts have certificates that are not valid

	// Helper is the process that KeyHelper names; nil if there is none. It is started when it is first used. Close it.
	Helper *keyhelper.Helper
	// heldKeys are the labels of keys of the helper that are next to certificates in use.
	heldKeys []string

	lines map[string]int // of the keys that the file gives a value, by path
}

// KeyHelper is a program that holds keys in the place of files.
type KeyHelper struct {
	// The program, as an absolute path, and its arguments. Errors do not show the arguments, but `threeds config show`
	// does: no secret belongs there.
	Command []string `yaml:"command"`
	// The label of the key that wraps the key file and the file of the journal's keys. Unset, these are in the clear.
	WrappingKey string `yaml:"wrapping_key"`
	// How long it may take to answer. Then it is ended, and started again.
	Timeout time.Duration `yaml:"timeout"`
}

// Console is the listener for operators.
type Console struct {
	// Where operators reach the console, and monitoring /livez, /readyz and /metrics. Never open it to the outside.
	Listen string `yaml:"listen"`
	// An address of their own for /livez, /readyz and /metrics, which `listen` then does not have.
	MetricsListen string `yaml:"metrics_listen"`
	// The origin of the console as operators see it, such as `https://console.example`: https, or http on this machine.
	// With it the [console](operating/operators.md) is served there, and below /admin/v1 [the admin
	// API](operating/admin.md). Unset, there is neither.
	URL string `yaml:"url"`
	// Certificate and key of `listen`. Without them it speaks plain HTTP and belongs behind a proxy that ends TLS.
	TLS *KeyPair `yaml:"tls"`
	// Whether operators log in with passkeys. They need `url` to have a host name, for a passkey belongs to one.
	Passkeys bool `yaml:"passkeys"`
	// How long an operator stays logged in.
	Session time.Duration `yaml:"session"`
	// How long an operator stays logged in without opening a page, on any node. PCI DSS 8.2.8 allows 15 minutes.
	Idle time.Duration `yaml:"idle"`
	// Groups of [dangerous acts](operating/operators.md#four-eyes) that a second person has to allow in the console.
	FourEyes []string `yaml:"four_eyes"`
	// How operators log in by OpenID Connect. Unset, they cannot.
	OIDC *OIDC `yaml:"oidc"`
}

// OIDC says how operators log in by OpenID Connect.
type OIDC struct {
	// The issuer, as its metadata name it: https, or http on this machine. Its redirect URI is `console.url`
	// and /login/oidc/callback.
	Issuer string `yaml:"issuer"`
	// What the issuer calls this server.
	ClientID string `yaml:"client_id"`
	// The file with the secret that the issuer has given this server. Unset, there is none, and PKCE
	// alone protects the login.
	ClientSecret string `yaml:"client_secret" file:"secret"`
	// The authorities that the certificate of the issuer must chain to, in PEM. Unset, those of the machine.
	CA CAFile `yaml:"ca"`
	// What is asked for. Unset, openid and email.
	Scopes []string `yaml:"scopes"`
	// The claim of the ID token that is shown as the name of the operator.
	NameClaim string `yaml:"name_claim"`
	// The claim of the ID token, or else of userinfo, with the groups of the operator.
	RoleClaim string `yaml:"role_claim"`
	// Which groups have which role. An operator in none of them is refused; an operator in several has the highest
	// role.
	Roles OIDCRoles `yaml:"roles"`
	// Groups whose members see only one merchant, by the name of the group. They also need a role.
	Merchants map[string]string `yaml:"merchants"`
	// Groups whose members see only a [group of merchants](operating/groups.md), by the name of the group. They also need
	// a role.
	MerchantGroups map[string]string `yaml:"merchant_groups"`

	Secret string // the content of ClientSecret, filled by Load
}

// OIDCRoles are the groups of each role.
type OIDCRoles struct {
	// Groups that may do all.
	Admin []string `yaml:"admin"`
	// Groups that may change merchants, keys, webhooks and certificates.
	Operator []string `yaml:"operator"`
	// Groups that may look.
	Viewer []string `yaml:"viewer"`
}

// Browser is the listener for the browsers of shoppers.
type Browser struct {
	// Where the listener is on this machine.
	Listen string `yaml:"listen"`
	// The origin under which browsers reach it, such as `https://pay.example`: https, without a path.
	URL string `yaml:"url"`
	// Certificate and key of this listener. Without them it speaks plain HTTP and belongs behind a proxy that ends TLS.
	TLS *KeyPair `yaml:"tls"`
	// Networks of the proxies in front. For a connection from one of them, browserIP is the right-most entry of
	// X-Forwarded-For that is no proxy.
	TrustedProxies []string `yaml:"trusted_proxies"`
}

// listen returns where the listener is, "" if there is none.
func (b *Browser) listen() string {
	if b == nil {
		return ""
	}
	return b.Listen
}

// browserTLS returns certificate and key of the listener for browsers, nil if it has none or is not there.
func (c *Config) browserTLS() *KeyPair {
	if c.Browser == nil {
		return nil
	}
	return c.Browser.TLS
}

// merchant is the profile of one merchant. Merchants without one have empty
// settings: keys may name any merchant.
type Merchant struct {
	// The merchant's name, as `threeds key create --name` takes it.
	Name string `yaml:"name"`
	// The [group of merchants](operating/groups.md) that the merchant belongs to. Unset, it belongs to none.
	Group string `yaml:"group"`
	// This merchant's threeDSRequestorID; wins over what the caller sends.
	RequestorID string `yaml:"requestor_id"`
	// This merchant's threeDSRequestorName; wins over what the caller sends.
	RequestorName string `yaml:"requestor_name"`
	// acquirerCountryCode when the caller sends none.
	AcquirerCountry string `yaml:"acquirer_country"`
	// What is done when a request lacks what its scheme asks for beyond the protocol: nothing, a record and a log line,
	// or, where the public sources are sure, an Erro. See [scheme rules](operating/scheme-rules.md).
	SchemeRules string `yaml:"scheme_rules"`
	// Whether requests of 2.3.1 go to cards that can be used with 2.2.0 and not with 2.3.1. What 2.2.0 lacks goes into the
	// Bridging message extension, if the card's range lists it. See [bridging](api.md#bridging).
	Bridging bool `yaml:"bridging"`
	// Whether names and addresses are written in ASCII for versions before 2.3.1, and lines of addresses that are too long
	// are broken: `Jørgen` becomes `Jorgen`. Without it such texts are Erro 203. A key made with --strict turns it off.
	Transliterate bool `yaml:"transliterate"`
	// How many requests of the merchant may begin or continue authentications in some time, on all nodes together; beyond
	// it 429. Unset, no limit. See [limits of a merchant](operating/merchants.md#limits).
	Rate Rate `yaml:"rate"`
	// How many such requests all nodes together may have in work; beyond it 429. Unset, no limit.
	InFlight int `yaml:"in_flight"`
	// merchantName of its authentications, where a request has none.
	MerchantName string `yaml:"merchant_name"`
	// Merchant category code (mcc) of its authentications, where a request has none.
	MCC string `yaml:"mcc"`
	// merchantCountryCode of its authentications, where a request has none.
	MerchantCountry string `yaml:"merchant_country"`
	// threeDSRequestorURL of its authentications, where a request has none.
	RequestorURL string `yaml:"requestor_url"`
	// The origins of the merchant's pages that may call the browser listener.
	Origins []string `yaml:"origins"`
	// How the pages look that the merchant's shoppers see.
	Page Page `yaml:"page"`
	// Other values for one directory, by scheme: how the directory calls the merchant, and its acquirer there.
	PerDirectory map[string]Identity `yaml:"per_directory"`
}

// page is how the pages for the shoppers of a merchant look.
type Page struct {
	// The logo, a PNG or an SVG without scripts, of at most 64 KiB.
	Logo LogoFile `yaml:"logo"`
	// Colour of the button that goes on.
	Colour string `yaml:"colour"`
	// Colour of links and edges.
	Accent string `yaml:"accent"`
}

// LogoFile is a file with a logo.
type LogoFile struct {
	File      string
	Data      []byte // filled by loadFiles
	MediaType string // of Data
}

// identity is who the requestor is towards one directory.
type Identity struct {
	// The merchant's acquirerBIN at that directory, 1 to 11 digits.
	AcquirerBIN string `yaml:"acquirer_bin"`
	// The merchant's acquirerMerchantID at that directory.
	AcquirerMerchantID string `yaml:"acquirer_merchant_id"`
	// This merchant's threeDSRequestorID at that directory.
	RequestorID string `yaml:"requestor_id"`
	// This merchant's threeDSRequestorName at that directory.
	RequestorName string `yaml:"requestor_name"`
}

// Directory is one directory server. Their order is the order of
// preference for a card that several hold.
type Directory struct {
	// The scheme whose cards it holds. Each once. The API calls the scheme by this word, and so do metrics, the log and
	// the store. See [schemes of your own](operating/own-scheme.md).
	Scheme string `yaml:"scheme"`
	// Where AReqs go.
	AReqURL string `yaml:"areq_url"`
	// Where PReqs go.
	PReqURL string `yaml:"preq_url"`
	// threeDSServerOperatorID that this directory gave us.
	OperatorID string `yaml:"operator_id"`
	// Protocol versions to use with it.
	Versions []string `yaml:"versions"`
	// Whether transStatus I is taken only where the request asked for it (strict) or always (any).
	Informational string `yaml:"informational"`
	// How long its answer to an AReq is waited for, within timeouts.authentication, which holds where it is unset.
	Timeout time.Duration `yaml:"timeout"`
	// How often its card ranges are fetched.
	Refresh time.Duration `yaml:"refresh"`
	// The least time between two fetches, kept across restarts and nodes. Unset, it is the protocol's: 1 h, and 12 h
	// between full loads of 2.3.1. Less is for laboratories, more than refresh is refused.
	MinRefresh time.Duration `yaml:"min_refresh"`
	// Hosts that a file of card ranges may be fetched from (2.3.1), with a certificate under server_ca.
	// None: no file is asked for.
	FileHosts []string `yaml:"file_hosts"`
	// Another forward proxy for this directory than that of all, or none (`url: direct`).
	ForwardProxy *Proxy `yaml:"forward_proxy"`
	// Ids of the message extensions that may be critical with it: those whose meaning the requestors know, for the server
	// passes them on and acts on none. A critical extension of another id is refused with 202.
	CriticalExtensions []string `yaml:"critical_extensions"`
	// Id of the message extension visaDAF with this directory. It is not public; with it the server can build that
	// extension. See [message extensions](api.md#message-extensions).
	DAFExtension string `yaml:"daf_extension"`
	// This directory's threeDSRequestorID, where neither merchant nor caller has one.
	RequestorID string `yaml:"requestor_id"`
	// This directory's threeDSRequestorName, where neither merchant nor caller has one.
	RequestorName string `yaml:"requestor_name"`
	// Whether issuers may send browsers to http URLs, and to localhost and loopback addresses, in acsURL and
	// threeDSMethodURL. For laboratories; serve warns. A threeDSMethodURL that was withheld before comes with the next
	// complete load of the card ranges. See [operating](operating/directories.md#urls-for-browsers).
	Lab bool `yaml:"lab"`
	// Rules of this directory for AReqs, in addition to the public rules of its scheme, for merchants with scheme_rules.
	// See [scheme rules](operating/scheme-rules.md#rules-of-your-own).
	Rules RulesFile `yaml:"rules"`
	// The mark of the scheme on pages of the console. Without one it has none.
	Colour string `yaml:"colour"`
	// Certificate and key that we show it. The word `managed` in place of both: they are in the store. See
	// [certificates](operating/certificates.md).
	ClientCert KeyPair `yaml:"client_cert"`
	// The CA certificates that its own certificate must chain to, for AReq and PReq.
	ServerCA CAFile `yaml:"server_ca"`
	// The CA certificates that its certificate must chain to when it posts a result.
	ClientCA CAFile `yaml:"client_ca"`
	// Certificate revocation lists of these CAs, and of those below them: what a list names is refused, in both
	// directions. PEM or DER, several in one file, complete ones. See [operating](operating/revocation.md).
	CRLs CRLFile `yaml:"crls"`
	// Which certificates crls refuses: those that a list names (listed), or also those that no list which is valid
	// now is about (required).
	Revocation string `yaml:"revocation"`
	// That certificate must have one of these names. Unset, any certificate under client_ca is taken, and serve warns.
	ClientNames []string `yaml:"client_names"`
	// A results address of its own for this directory; default the common one.
	Results *DirectoryResults `yaml:"results"`
}

// DirectoryResults is an address of its own for the results of one directory.
type DirectoryResults struct {
	// The address that this directory sees, on the common listener.
	URL string `yaml:"url"`
	// Certificate and key that this directory sees there, chosen by the host name it asks for (SNI).
	TLS KeyPair `yaml:"tls"`
}

// V1Directory is what /enrolled and /check need for the cards of one scheme. The
// networks ended 3-D Secure 1 in 2022: without an entry it is off.
type V1Directory struct {
	// The scheme whose cards are asked for by 3-D Secure 1.0.2. Each once; without an entry a scheme's /enrolled answers
	// with an error immediately.
	Scheme string `yaml:"scheme"`
	// Where VEReqs and CRReqs go.
	DirectoryURL string `yaml:"directory_url"`
	// The address for a message that could not be delivered to directory_url, or was answered there with a status of 5xx.
	// Unset, directory_url is tried once more.
	FallbackURL string `yaml:"fallback_url"`
	// Another forward proxy for this directory than that of all, or none (`url: direct`).
	ForwardProxy *Proxy `yaml:"forward_proxy"`
	// Certificate and key that we show there.
	ClientCert KeyPair `yaml:"client_cert"`
	// The CA certificates that its own certificate must chain to.
	ServerCA CAFile `yaml:"server_ca"`
	// As for directories, of the CAs in server_ca. They are not used for signatures of PARes.
	CRLs CRLFile `yaml:"crls"`
	// As for directories.
	Revocation string `yaml:"revocation"`
	// The scheme's root certificates: the signature of a PARes must chain to one of them. No scheme may
	// have a root of another.
	PAResRoots RootFile `yaml:"pares_roots"`
	// Whether SHA-1 may be used in the signature of a PARes and of its certificates. Every real issuer of
	// 3-D Secure 1 needs it.
	AllowSHA1 bool `yaml:"allow_sha1"`
	// The shortest RSA key in the chain of a PARes. Less than 2048 is for laboratories and old chains.
	MinKeyBits int `yaml:"min_key_bits"`
	// When the certificates of a PARes, the root included, must be valid: when it comes, or when the issuer says that it
	// was signed. The second is for laboratories and old chains.
	VerifyAt string `yaml:"verify_at"`
	// Whether issuers may send browsers to http URLs, and to localhost and loopback addresses, in the url of a VERes. For
	// laboratories; serve warns.
	Lab bool `yaml:"lab"`
	// Who asks for the card ranges that take part, once a day: cards outside them are answered with N immediately. Unset,
	// the directory server is asked for each card.
	CardRanges *V1CardRanges `yaml:"card_ranges"`
}

// V1CardRanges is who asks for the card ranges of 3-D Secure 1.0.2.
type V1CardRanges struct {
	// Acquirer BIN that the directory server knows, 1 to 11 digits.
	AcquirerBIN string `yaml:"acquirer_bin"`
	// Merchant id that the directory server knows.
	MerchantID string `yaml:"merchant_id"`
}

// A WebhookOperator is an address that receives events for the operator.
type WebhookOperator struct {
	// The address that receives events about old card ranges, certificates that end, and disabled endpoints. It is https,
	// of any network, or http to an address in allow.
	URL string `yaml:"url"`
	// The file of the secret that signs them: `whsec_` and base64 of 24 to 64 bytes.
	Secret SigningSecret `yaml:"secret" file:"secret"`
	// Which events. Unset, all.
	Types []api.EventType `yaml:"types"`
}

// SIEM is what collects the audit trail and the seals of the journal.
type SIEM struct {
	// A receiver of syslog over TLS (RFC 5424, RFC 5425), `tls://HOST:PORT`.
	Syslog string `yaml:"syslog"`
	// A receiver of signed requests, one for each entry.
	Webhook string `yaml:"webhook"`
	// The file of the secret that signs these requests: `whsec_` and base64 of 24 to 64 bytes. Required for `webhook`.
	Secret SigningSecret `yaml:"secret" file:"secret"`
	// The CA certificates that the certificate of the receiver must chain to. Required for `syslog`; for `webhook`, unset,
	// those of the machine.
	CA CAFile `yaml:"ca"`
	// What says that a receiver of syslog has read a batch: its `close_notify` of TLS, as RFC 5425 says, or the `end` of
	// the connection, for receivers that send no close_notify. With `end` entries can be lost when the receiver is killed.
	Confirmation string `yaml:"confirmation"`
}

// Address returns the HOST:PORT of the receiver of syslog.
func (s *SIEM) Address() string { return strings.TrimPrefix(s.Syslog, syslogScheme) }

// A SigningSecret is the file of a secret that signs events.
type SigningSecret struct {
	File string
	Key  webhook.Secret // what the file holds, filled by Load
}

// An AgentSecret is the file of the secret that agents sign requests with.
type AgentSecret struct {
	File string
	Key  []byte // what the file holds, filled by Load
}

// Proxy is a forward proxy.
type Proxy struct {
	// Where it is; https is TLS to the proxy itself, besides that to the directory inside. `direct` is no proxy.
	URL ProxyURL `yaml:"url"`
	// The CA certificates that the certificate of an https proxy must chain to. Required for one.
	CA CAFile `yaml:"ca"`
	// File with the user and the password that the proxy wants (Basic authentication): one line, `USER:PASSWORD`,
	// of at most 1000 bytes.
	Credentials string `yaml:"credentials" file:"secret"`

	User, Password string // filled by loadFiles
}

// Tracing is a collector of traces, and what it gets.
type Tracing struct {
	// Where the collector takes OTLP over HTTP, in protobuf, such as `http://127.0.0.1:4318`. Without a path it
	// is `/v1/traces` there.
	Endpoint string `yaml:"endpoint"`
	// The CA certificates that the certificate of an https collector must chain to. Required for one.
	CA CAFile `yaml:"ca"`
	// File with headers that the collector wants, such as one with a token: lines of `NAME: VALUE`.
	Headers string `yaml:"headers" file:"secret"`
	// Which part of the requests is traced. Of a requestor's with a `traceparent` that says it.
	SamplingFraction float64 `yaml:"sampling_fraction"`

	Header http.Header // filled by loadFiles
}

// keyPair is a certificate with its key, both files in PEM form.
type KeyPair struct {
	// File of the certificate, followed by those between it and the root.
	Cert string `yaml:"cert" file:"public"`
	// File of its private key; or `helper:` and the label of a key that the [key helper](operating/hsm.md) holds.
	Key string `yaml:"key" file:"secret"`

	Certificate tls.Certificate // filled by loadFiles
	IsManaged   bool            // the store has both, and there are no files
}

// CAFile is a file of CA certificates in PEM form.
type CAFile struct {
	File  string
	Certs []*x509.Certificate // filled by loadFiles
	Pool  *x509.CertPool      // of them
}

// CRLFile is a file of certificate revocation lists, in PEM or DER form.
type CRLFile struct {
	File  string
	Lists []*certs.RevocationList // filled by loadFiles
}

// Policy is what follows from the lists; nil when there are none, and none is required.
func (f CRLFile) Policy(word string) *certs.RevocationPolicy {
	if len(f.Lists) == 0 && word != "required" {
		return nil
	}
	return &certs.RevocationPolicy{Lists: f.Lists, Required: word == "required"}
}

// RulesFile is a file of rules that an operator adds to those of a scheme.
type RulesFile struct {
	File  string
	Text  string          // filled by loadFiles
	Rules *scheme.Profile // those of the file; filled by loadFiles
}

// RootFile is a file of root certificates of signatures, in PEM form.
type RootFile struct {
	File  string
	Roots []*xmldsig.Root // filled by loadFiles
	Names []string        // subject and public key of each; filled by loadFiles
}

// A Rate is how many of something may happen in some time.
type Rate = account.Rate

// MessageVersions are the protocol versions to use with the directory, in order.
func (d Directory) MessageVersions() []message.Version {
	var versions []message.Version
	for _, s := range d.Versions {
		if v, ok := message.ParseVersion(s); ok { // the reader has checked them
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	return versions
}

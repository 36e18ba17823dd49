// Package suite names the cipher suites of TLS 1.2 that are spoken, at each listener
// and towards each directory server.
package suite

import "crypto/tls"

// Strong returns those with forward secrecy and authenticated encryption; the protocol
// asks for the first two (EMV 3DS annex D). Those of TLS 1.3 are all good.
func Strong() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}

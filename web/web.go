// Package web holds threeds.js, the script of a merchant's page, and the scripts of the
// pages of the browser listener. Use [Script] and [Integrity] to serve it, and [Releases] for
// those that were released before. The source is in src; go generate bundles it with frames.json, which
// has the rules for frames that show pages of banks: EMV 3DS 2.3.1, tables A.23 and A.24, and requirements 261 to 268.
package web

import _ "embed"

//go:generate go -C ../tools/bundle run .

// Script is threeds.js, Types its declarations for TypeScript.
var (
	//go:embed threeds.js
	Script []byte
	//go:embed threeds.d.ts
	Types []byte
)

// WrapperScript and HostedScript run in pages of the browser listener, with a nonce.
var (
	//go:embed wrapper.js
	WrapperScript string
	//go:embed hosted.js
	HostedScript string
)

// Hash returns the name of the threeds.js that is built in, in its URL.
func Hash() string { return hash(Script) }

// Integrity returns the value for the integrity attribute of a script element with the threeds.js that is built in.
func Integrity() string { return integrity(Script) }

package config

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"strings"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/base/keyhelper"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// helperPrefix begins the name of a key that the key helper holds.
const helperPrefix = "helper:"

// maxLabel is how long the label of a key may be, in characters.
const maxLabel = 200

func readKeyHelper(s *section) (h KeyHelper) {
	defer s.close()
	h.Command = list(s, "command", text(1, 1000), true)
	h.WrappingKey = optional(s, "wrapping_key", text(1, maxLabel), "")
	h.Timeout = optional(s, "timeout", duration("100ms", "1m"), "5s")
	return h
}

// keyName is the file of a private key, or the label of one that the key helper holds.
func (l *loader) keyName() kind[string] {
	file, label := l.path(), text(1, maxLabel)
	return kind[string]{want: "file, relative to this one, or helper:LABEL", parse: func(s string) (string, error) {
		name, isHeld := strings.CutPrefix(s, helperPrefix)
		if !isHeld {
			return file.parse(s)
		}
		_, err := label.parse(name)
		return s, err
	}}
}

// checkKeyHelper checks the section of the key helper, and makes the helper.
func (l *loader) checkKeyHelper() {
	h := l.config.KeyHelper
	if h == nil || len(h.Command) == 0 || h.Command[0] == "" {
		return
	}
	if !filepath.IsAbs(h.Command[0]) {
		l.fault("key_helper.command[0]", "is not an absolute path (such as /usr/libexec/threeds-pkcs11)")
		return
	}
	l.config.Helper = keyhelper.New(h.Command, h.Timeout)
}

// useHeldKey puts a key of the helper next to its certificate, which is the first of a chain.
func (l *loader) useHeldKey(k *KeyPair, label, path string, chain []*x509.Certificate) {
	helper := l.config.Helper
	if helper == nil {
		if l.config.KeyHelper == nil {
			l.fault(path, "names a key of a key helper, and there is none (set key_helper)")
		}
		return
	}
	signer, err := helper.Signer(label)
	if err != nil {
		l.fault(path, "%v", err)
		return
	}
	if public, ok := chain[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok ||
		!public.Equal(signer.Public()) {
		l.fault(path, "the key of the helper does not belong to the certificate")
		return
	}
	pair := tls.Certificate{PrivateKey: signer, Leaf: chain[0]}
	for _, cert := range chain {
		pair.Certificate = append(pair.Certificate, cert.Raw)
	}
	k.Certificate = pair
}

// Vault returns what seals the files of keys.
func (c *Config) Vault() keyfile.Vault {
	if c.Helper == nil {
		return keyfile.Vault{}
	}
	return keyfile.Vault{Wrapper: c.Helper, Label: c.KeyHelper.WrappingKey}
}

// JournalKeyFile returns the file of the journal's keys.
func (c *Config) JournalKeyFile() journal.KeyFile {
	return journal.KeyFile{Path: c.Journal.Keys, Dir: c.JournalURL().Dir, Vault: c.Vault()}
}

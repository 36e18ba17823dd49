package config

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"slices"
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
	l.config.heldKeys = append(l.config.heldKeys, label)
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

// keyFiles returns the files that a vault seals, by the keys of the configuration.
func (c *Config) keyFiles() map[string]string {
	return map[string]string{"keys": c.Keys, "journal.keys": c.Journal.Keys}
}

// warnOfWrapping warns of files of keys that are wrapped by another key than the one that is to wrap them. They open,
// as long as the helper has that key, too.
func (l *loader) warnOfWrapping() {
	c := l.config
	if c.Helper == nil {
		return
	}
	for path, file := range c.keyFiles() {
		by, err := keyfile.WrappedBy(file)
		switch {
		case err != nil, by == "", by == c.KeyHelper.WrappingKey: // what else is wrong is reported where it is read
		case c.KeyHelper.WrappingKey == "":
			l.warn(path, "its file is wrapped by the key %q, and key_helper.wrapping_key is unset (threeds key wrap writes it "+
				"in the clear; until then keep the key)", by)
		default:
			l.warn(path, "its file is wrapped by the key %q, and key_helper.wrapping_key is another one (threeds key wrap "+
				"changes that; until then keep the key)", by)
		}
	}
}

// HelperKeys returns the labels of the keys of the helper that are in use, some of them twice: next to certificates,
// and for the files of keys as they are now.
func (c *Config) HelperKeys() []string {
	if c.Helper == nil {
		return nil
	}
	labels := append(slices.Clone(c.heldKeys), c.KeyHelper.WrappingKey)
	for _, file := range c.keyFiles() {
		if by, err := keyfile.WrappedBy(file); err == nil {
			labels = append(labels, by)
		}
	}
	return labels
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

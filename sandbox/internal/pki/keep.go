package pki

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// KeepAuthority reads the authority in the files base.pem and base.key, and makes both
// when they are absent.
func KeepAuthority(base, name string) (*Authority, error) {
	pair, err := Keep(base, func() (tls.Certificate, error) {
		a, err := NewAuthority(name)
		if err != nil {
			return tls.Certificate{}, err
		}
		return tls.Certificate{Certificate: [][]byte{a.cert.Raw}, PrivateKey: a.key}, nil
	})
	if err != nil {
		return nil, err
	}
	key, isECDSA := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !isECDSA || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s.pem: want the certificate of an authority with an ECDSA key, as the sandbox made it", base)
	}
	return &Authority{cert: pair.Leaf, key: key}, nil
}

// Keep reads the certificate in the files base.pem and base.key. When there is no base.pem,
// it writes both with what issue returns. Only their owner reads the key.
func Keep(base string, issue func() (tls.Certificate, error)) (tls.Certificate, error) {
	certFile, keyFile := base+".pem", base+".key"
	if _, err := os.Stat(certFile); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return tls.Certificate{}, err
		}
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("%s and %s: %w", certFile, keyFile, err)
		}
		return pair, nil
	}
	pair, err := issue()
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	var chain []byte
	for _, der := range pair.Certificate {
		chain = append(chain, PEM(der)...)
	}
	if err := os.MkdirAll(filepath.Dir(base), 0o700); err != nil {
		return tls.Certificate{}, err
	}
	// The certificate comes last, since its file says that both are there.
	if err := writeFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600); err != nil {
		return tls.Certificate{}, err
	}
	if err := writeFile(certFile, chain, 0o644); err != nil {
		return tls.Certificate{}, err
	}
	return tls.LoadX509KeyPair(certFile, keyFile)
}

// writeFile makes a file appear with its whole content in one step.
func writeFile(name string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

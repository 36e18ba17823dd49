package config

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"hash"
	"reflect"
	"slices"
	"strings"
)

// hashLen is how many bytes of the digest [Config.Hash] shows: enough that two configurations never share them by
// chance.
const hashLen = 8

// ownKeys are the keys whose values may differ on nodes of one store: addresses, paths, and what only the operation of
// one node depends on. The store's URL holds paths too, and nodes may reach one database at different addresses.
var ownKeys = []string{
	"api.listen", "results.listen", "store", "keys", "key_helper", "console.listen", "console.metrics_listen",
	"console.oidc.client_secret", "browser.listen", "log", "tracing", "journal.url", "journal.keys",
}

// Hash is equal on nodes whose configurations mean the same: values after defaults, and the content of certificates and
// CA files. Addresses to listen on, the store, the log, traces and paths do not count, nor does any secret. The content
// of revocation lists does not count either, for each node fetches them at its own time.
func (c *Config) Hash() string {
	sum := sha256.New()
	hashValue(sum, "", reflect.ValueOf(c).Elem())
	return hex.EncodeToString(sum.Sum(nil)[:hashLen])
}

// hashValue writes a value and its key to sum, in a form that no other value has.
func hashValue(sum hash.Hash, key string, v reflect.Value) {
	if slices.Contains(ownKeys, key) || hashFile(sum, key, v.Interface()) {
		return
	}
	if merchants, ok := v.Interface().([]Merchant); ok { // their order means nothing
		byName := func(a, b Merchant) int { return strings.Compare(a.Name, b.Name) }
		v = reflect.ValueOf(slices.SortedFunc(slices.Values(merchants), byName))
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			hashValue(sum, key, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			hashValue(sum, fmt.Sprintf("%s[%d]", key, i), v.Index(i))
		}
	case reflect.Map:
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			hashValue(sum, key+"."+name.String(), v.MapIndex(name))
		}
	case reflect.Struct:
		if !hashMembers(sum, key, v) {
			hashText(sum, key, fmt.Sprintf("%+v", v.Interface()))
		}
	default:
		hashText(sum, key, fmt.Sprint(v.Interface()))
	}
}

// hashFile hashes the content of a value that names files, and nothing that is secret. It reports whether value is one.
func hashFile(sum hash.Hash, key string, value any) bool {
	switch value := value.(type) {
	case KeyPair:
		if value.IsManaged { // what the store has is the same on all nodes
			hashText(sum, key, managed)
			break
		}
		for _, der := range value.Certificate.Certificate {
			hashText(sum, key, digestText(der))
		}
	case CAFile:
		hashText(sum, key, certificateDigests(value.Certs)...)
	case SigningSecret, AgentSecret:
	case CRLFile:
		hashText(sum, key, fmt.Sprint(value.File != ""))
	case RulesFile:
		hashText(sum, key, value.Text)
	case LogoFile:
		hashText(sum, key, string(value.Data))
	case RootFile:
		hashText(sum, key, slices.Sorted(slices.Values(value.Names))...)
	case Proxy: // its credentials are a path and a password
		hashText(sum, key, fmt.Sprintf("%+v", value.URL))
		hashText(sum, key+".ca", certificateDigests(value.CA.Certs)...)
	default:
		return false
	}
	return true
}

// hashMembers hashes the members of a section that are keys of the configuration, and reports whether there are any.
func hashMembers(sum hash.Hash, key string, v reflect.Value) (any bool) {
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("yaml")
		if name == "" {
			continue
		}
		any = true
		hashValue(sum, strings.TrimPrefix(key+"."+name, "."), v.Field(i))
	}
	return any
}

// hashText writes a key and texts with their lengths.
func hashText(sum hash.Hash, key string, texts ...string) {
	for _, text := range append([]string{key}, texts...) {
		fmt.Fprintf(sum, "%d:%s", len(text), text)
	}
	fmt.Fprint(sum, ";")
}

// certificateDigests are the digests of certificates, sorted: their order in a file means nothing.
func certificateDigests(certs []*x509.Certificate) []string {
	digests := make([]string, 0, len(certs))
	for _, cert := range certs {
		digests = append(digests, digestText(cert.Raw))
	}
	slices.Sort(digests)
	return digests
}

func digestText(data []byte) string {
	digest := sha256.Sum256(data)
	return string(digest[:])
}

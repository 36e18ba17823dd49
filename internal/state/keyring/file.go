package keyring

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// maxFormer is how many secrets previous may have.
const maxFormer = 32

// Context is what [keyfile.Vault] binds a key file to.
const Context = "threeds keys.json"

// Load reads the secrets from a file that is not sealed, for which the rules of [keyfile.Read] hold.
func Load(path string) (*Ring, error) { return LoadIn(keyfile.Vault{}, path) }

// LoadIn is Load for a file that a vault may seal. What the ring writes is sealed by the same vault.
func LoadIn(vault keyfile.Vault, path string) (*Ring, error) {
	data, err := keyfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	if data, err = vault.Open(Context, data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	secrets, former, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return newRing(vault, secrets, former)
}

// LoadOther is Load for another key file, in the vault of r.
func (r *Ring) LoadOther(path string) (*Ring, error) { return LoadIn(r.vault, path) }

// LoadOrCreate is Load, but a missing file is made first, with a new current secret.
func LoadOrCreate(path string) (*Ring, error) { return LoadOrCreateIn(keyfile.Vault{}, path) }

// LoadOrCreateIn is LoadIn, but a missing file is made first, with a new current secret.
func LoadOrCreateIn(vault keyfile.Vault, path string) (*Ring, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		secret := make([]byte, secretLen)
		rand.Read(secret) // it never fails, it ends the process
		data, err := vault.Seal(Context,
			fmt.Appendf(nil, "{\"current\": %q}\n", base64.StdEncoding.EncodeToString(secret)))
		if err == nil {
			err = keyfile.Create(path, data)
		}
		if err != nil {
			return nil, fmt.Errorf("keyring: %w", err)
		}
	}
	return LoadIn(vault, path)
}

// parse returns the secrets, current first, and how many after it are previous secrets. Its errors name members, never
// their values.
func parse(data []byte) (secrets [][]byte, former int, err error) {
	members, err := parseObject(data)
	if err != nil {
		return nil, 0, err
	}
	var names []string
	for _, member := range []string{"current", "previous", "next"} {
		for i, text := range members[member] {
			name := member
			if len(members[member]) > 1 {
				name = fmt.Sprintf("%s[%d]", member, i)
			}
			secret, err := base64.StdEncoding.Strict().DecodeString(text)
			if err != nil {
				return nil, 0, fmt.Errorf("%s: not base64", name)
			}
			if len(secret) != secretLen {
				return nil, 0, fmt.Errorf("%s: has %d bytes, want %d", name, len(secret), secretLen)
			}
			for i, other := range secrets {
				if bytes.Equal(secret, other) {
					return nil, 0, fmt.Errorf("%s: is the same as %s", name, names[i])
				}
			}
			secrets, names = append(secrets, secret), append(names, name)
		}
	}
	former = len(members["previous"])
	switch {
	case len(members["current"]) == 0:
		return nil, 0, errors.New("current: missing")
	case former > maxFormer:
		return nil, 0, fmt.Errorf("previous: has %d secrets, want at most %d", former, maxFormer)
	}
	return secrets, former, nil
}

// parseObject reads one flat JSON object of strings; previous may be a list of them. It is strict where encoding/json
// is not: names must match exactly and occur once.
func parseObject(data []byte) (map[string][]string, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	bad := func() error { return fmt.Errorf("not a JSON object of strings, near byte %d", dec.InputOffset()) }
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, bad()
	}
	members := make(map[string][]string)
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, bad()
		}
		if name != "next" && name != "current" && name != "previous" {
			return nil, fmt.Errorf("%.40q: unknown member, want next, current, previous", name)
		}
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("%s: given twice", name)
		}
		t, err = dec.Token()
		switch text, isText := t.(string); {
		case err == nil && isText:
			members[name] = []string{text}
		case err == nil && t == json.Delim('[') && name == "previous":
			if members[name], err = parseList(dec); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		default:
			return nil, fmt.Errorf("%s: not a string", name)
		}
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('}') {
		return nil, bad()
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, bad()
	}
	return members, nil
}

// parseList reads a list of strings behind its bracket.
func parseList(dec *json.Decoder) ([]string, error) {
	list := []string{}
	for dec.More() {
		t, err := dec.Token()
		text, ok := t.(string)
		if err != nil || !ok {
			return nil, errors.New("not a list of strings")
		}
		list = append(list, text)
	}
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("not a list of strings")
	}
	return list, nil
}

// WriteFile replaces a key file by one that has the secrets of r, as [keyfile.Replace] does. The
// error shows no secret.
func (r *Ring) WriteFile(path string) error { return r.write(path, keyfile.Replace) }

// CreateFile makes a key file that has the secrets of r, as [keyfile.CreateNew] does. The error shows no secret.
func (r *Ring) CreateFile(path string) error { return r.write(path, keyfile.CreateNew) }

// WritePending keeps the secrets of r in a file next to the key file that they are to replace, as
// [keyfile.WritePending] does. The error shows no secret.
func (r *Ring) WritePending(path string) error { return r.write(path, keyfile.WritePending) }

// write calls to with what a key file with the secrets of r holds.
func (r *Ring) write(path string, to func(path string, data []byte) error) error {
	data, err := r.vault.Seal(Context, r.content())
	if err == nil {
		err = to(path, data)
	}
	if err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	return nil
}

// content is what a file with the secrets of r holds in the clear.
func (r *Ring) content() []byte {
	file := struct {
		Next     string `json:"next,omitempty"`
		Current  string `json:"current"`
		Previous any    `json:"previous,omitempty"`
	}{Current: base64.StdEncoding.EncodeToString(r.keys[0].secret[:])}
	var former []string
	for _, d := range r.keys[1 : 1+r.former] {
		former = append(former, base64.StdEncoding.EncodeToString(d.secret[:]))
	}
	switch len(former) {
	case 0:
	case 1:
		file.Previous = former[0]
	default:
		file.Previous = former
	}
	if next := r.next(); next != nil {
		file.Next = base64.StdEncoding.EncodeToString(next.secret[:])
	}
	data, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		panic("keyring: " + err.Error()) // it has nothing but text
	}
	return append(data, '\n')
}

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
	"path/filepath"
)

// maxFile is more than three secrets need in any layout.
const maxFile = 4096

// Load reads the secrets from a file. It refuses a file that others than its
// owner may read or write. One that belongs to somebody else may be read by its
// group: that is how a manager of containers hands us a secret.
func Load(path string) (*Ring, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	secrets, previous, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r, err := newRing(secrets)
	if err != nil {
		return nil, err
	}
	r.hasPrevious = previous
	return r, nil
}

// LoadOrCreate is Load, but a missing file is made first, with a new current
// secret and for its owner only. When several processes do so at once, all use
// the file of one of them.
func LoadOrCreate(path string) (*Ring, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("keyring: %w", err)
		}
	}
	return Load(path)
}

// create writes a file with a new secret under another name and links it to path
// when it is whole and on disk. It never replaces a file.
func create(path string) (err error) {
	secret := make([]byte, secretLen)
	rand.Read(secret) // it never fails, it ends the process
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".keys-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = fmt.Fprintf(f, "{\"current\": %q}\n", base64.StdEncoding.EncodeToString(secret))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a new name in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// read returns the content of a key file that only its owner can read.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	defer f.Close() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && (mode&0o037 != 0 || !isForeign(info)) {
		return nil, fmt.Errorf("keyring: %s has mode %04o, others than its owner must have no access: chmod 600 %s", path, mode, path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("keyring: %s is larger than %d bytes", path, maxFile)
	}
	return data, nil
}

// parse returns the secrets, current first, and whether the second is the previous
// one. Its errors name members, never what is in them.
func parse(data []byte) (secrets [][]byte, previous bool, err error) {
	members, err := parseObject(data)
	if err != nil {
		return nil, false, err
	}
	var names []string
	for _, name := range []string{"current", "previous", "next"} {
		text, ok := members[name]
		if !ok {
			continue
		}
		secret, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			return nil, false, fmt.Errorf("%s: not base64", name)
		}
		if len(secret) != secretLen {
			return nil, false, fmt.Errorf("%s: has %d bytes, want %d", name, len(secret), secretLen)
		}
		for i, other := range secrets {
			if bytes.Equal(secret, other) {
				return nil, false, fmt.Errorf("%s: is the same as %s", name, names[i])
			}
		}
		secrets, names = append(secrets, secret), append(names, name)
	}
	if _, ok := members["current"]; !ok {
		return nil, false, errors.New("current: missing")
	}
	_, previous = members["previous"]
	return secrets, previous, nil
}

// parseObject reads one flat JSON object of strings. It is strict where encoding/json is not:
// names match exactly and come once.
func parseObject(data []byte) (map[string]string, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	bad := func() error { return fmt.Errorf("not a JSON object of strings, near byte %d", dec.InputOffset()) }
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, bad()
	}
	members := make(map[string]string)
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
		text, ok := t.(string)
		if err != nil || !ok {
			return nil, fmt.Errorf("%s: not a string", name)
		}
		members[name] = text
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('}') {
		return nil, bad()
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, bad()
	}
	return members, nil
}

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

// maxFile is more than all secrets need in any layout.
const maxFile = 4096

// maxFormer is how many secrets previous may have.
const maxFormer = 32

// Load reads the secrets from a file. It refuses a file that others than its
// owner may read or write. One that belongs to somebody else may be read by its
// group: that is how a manager of containers hands us a secret.
func Load(path string) (*Ring, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	secrets, former, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return newRing(secrets, former)
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

// parse returns the secrets, current first, and how many behind it are of previous. Its errors
// name members, never what is in them.
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

// parseObject reads one flat JSON object of strings; previous may be a list of them. It is strict
// where encoding/json is not: names match exactly and come once.
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

// WriteFile replaces a key file by one that has the secrets of r. Whoever reads it sees the file
// before or after, also after a crash. Mode and owner stay; if that is not possible nothing is
// changed. The error shows no secret.
func (r *Ring) WriteFile(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	was, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".keys-*") // mode 0600
	if err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	err = keepOwner(f, was)
	if err == nil {
		err = f.Chmod(was.Mode().Perm())
	}
	if err == nil {
		_, err = f.Write(r.content())
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keyring: %w", errors.Join(err, os.Remove(f.Name())))
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	return nil
}

// content is what a file with the secrets of r holds.
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

package web

import (
	"crypto/sha256"
	"crypto/sha512"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"sync"
)

// KeptReleases is how many releases of threeds.js stay served, beside the script that is built in.
const KeptReleases = 5

// A Release is the threeds.js of one release. Its bytes never change.
type Release struct {
	Version string
	Script  []byte
}

// Hash returns the name of a release in its URL.
func (r Release) Hash() string { return hash(r.Script) }

// Integrity returns the value for the integrity attribute of a script element with the release.
func (r Release) Integrity() string { return integrity(r.Script) }

// Entry is what the list of releases says of one. The list is integrity.json beside the scripts, newest first.
type Entry struct {
	Version   string `json:"version"`
	Hash      string `json:"hash"`
	Integrity string `json:"integrity"`
}

//go:embed releases
var releaseFiles embed.FS

// Releases returns the releases that stay served, newest first. `go -C tools/bundle run . -release` adds one.
var Releases = sync.OnceValue(func() []Release {
	sub, err := fs.Sub(releaseFiles, "releases")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	all, err := ReadReleases(sub)
	if err != nil {
		panic(err) // the files are, too, and a test reads them
	}
	return all
})

// ReadReleases reads a directory of releases: integrity.json, and VERSION.js for each of its entries. A script that is
// not the one that was released is an error, and so are more than [KeptReleases].
func ReadReleases(dir fs.FS) ([]Release, error) {
	text, err := fs.ReadFile(dir, "integrity.json")
	if err != nil {
		return nil, err
	}
	var entries []Entry
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("integrity.json: %w", err)
	}
	if len(entries) > KeptReleases {
		return nil, fmt.Errorf("integrity.json: %d releases, want %d at the most", len(entries), KeptReleases)
	}
	var all []Release
	for _, e := range entries {
		script, err := fs.ReadFile(dir, e.Version+".js")
		if err != nil {
			return nil, err
		}
		r := Release{Version: e.Version, Script: script}
		if r.Hash() != e.Hash || r.Integrity() != e.Integrity {
			return nil, fmt.Errorf("%s.js is not the script that was released as %s", e.Version, e.Version)
		}
		all = append(all, r)
	}
	return all, nil
}

func hash(script []byte) string {
	sum := sha256.Sum256(script)
	return hex.EncodeToString(sum[:8])
}

func integrity(script []byte) string {
	sum := sha512.Sum384(script)
	return "sha384-" + base64.StdEncoding.EncodeToString(sum[:])
}

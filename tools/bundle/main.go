// Bundle makes the scripts that the browser listener serves, of the modules in web/src. It is a module of its own,
// since the server does not need the bundler. go generate in package web runs it:
//
//	go -C tools/bundle run .
//
// With -release it keeps threeds.js as that of the version in package.json, so that it stays served when later versions
// come.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/openthreeds/threeds/web"
)

// webDir is the directory web, seen from here.
const webDir = "../../web"

// scripts are the entry points in web/src; the results have the same names in web.
var scripts = []string{"threeds.js", "wrapper.js", "hosted.js"}

func main() {
	log.SetFlags(0)
	isRelease := flag.Bool("release", false, "keep threeds.js as that of the version in package.json")
	flag.Parse()
	if *isRelease {
		if err := keepRelease(webDir); err != nil {
			log.Fatal(err)
		}
		return
	}
	for _, name := range scripts {
		script, err := bundleScript(webDir, name)
		if err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(webDir, name), script, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// bundleScript returns one script of the directory web, bundled and minified.
func bundleScript(web, name string) ([]byte, error) {
	version, err := readVersion(filepath.Join(web, "package.json"))
	if err != nil {
		return nil, err
	}
	result := api.Build(api.BuildOptions{
		EntryPoints:       []string{filepath.Join(web, "src", name)},
		Bundle:            true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		Charset:           api.CharsetASCII,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone,
		Define:            map[string]string{"VERSION": fmt.Sprintf("%q", version)},
	})
	for _, m := range result.Errors {
		err = errors.Join(err, fmt.Errorf("%s: %s", name, m.Text))
	}
	if err != nil {
		return nil, err
	}
	return result.OutputFiles[0].Contents, nil
}

// readVersion returns the version of the npm package.
func readVersion(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var pkg struct{ Version string }
	return pkg.Version, json.Unmarshal(content, &pkg)
}

// keepRelease copies threeds.js to releases/VERSION.js, and writes the list anew. Releases before the last five go. A
// version that was released with another script is an error: those who pinned it would load something else.
func keepRelease(dir string) error {
	version, err := readVersion(filepath.Join(dir, "package.json"))
	if err != nil {
		return err
	}
	if _, err := readNumbers(version); err != nil {
		return err
	}
	script, err := os.ReadFile(filepath.Join(dir, "threeds.js"))
	if err != nil {
		return err
	}
	releases := filepath.Join(dir, "releases")
	file := filepath.Join(releases, version+".js")
	before, err := os.ReadFile(file)
	switch {
	case err == nil && !bytes.Equal(before, script):
		return fmt.Errorf("%s was released with another script: raise the version in package.json", version)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.WriteFile(file, script, 0o644); err != nil {
		return err
	}
	return writeReleaseList(releases)
}

// writeReleaseList writes integrity.json of the scripts in a directory, and removes all but the last five.
func writeReleaseList(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.js"))
	if err != nil {
		return err
	}
	numbers := map[string][]int{}
	for _, file := range files {
		version := strings.TrimSuffix(filepath.Base(file), ".js")
		if numbers[file], err = readNumbers(version); err != nil {
			return err
		}
	}
	slices.SortFunc(files, func(a, b string) int { return slices.Compare(numbers[b], numbers[a]) })
	entries := []web.Entry{}
	for i, file := range files {
		if i >= web.KeptReleases {
			if err := os.Remove(file); err != nil {
				return err
			}
			continue
		}
		script, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		r := web.Release{Version: strings.TrimSuffix(filepath.Base(file), ".js"), Script: script}
		entries = append(entries, web.Entry{Version: r.Version, Hash: r.Hash(), Integrity: r.Integrity()})
	}
	list, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "integrity.json"), append(list, '\n'), 0o644)
}

// readNumbers returns the three numbers of a version such as 1.2.3.
func readNumbers(version string) (numbers []int, err error) {
	for part := range strings.SplitSeq(version, ".") {
		n, failed := strconv.Atoi(part)
		err = cmp.Or(err, failed)
		numbers = append(numbers, n)
	}
	if err != nil || len(numbers) != 3 {
		return nil, fmt.Errorf("%q is no version of three numbers", version)
	}
	return numbers, nil
}

// Bundle makes the scripts that the browser listener serves, of the modules in web/src. It
// is run by go generate in package web.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

// scripts are the entry points in web/src; the results have the same names in web.
var scripts = []string{"threeds.js", "wrapper.js", "hosted.js"}

func main() {
	log.SetFlags(0)
	for _, name := range scripts {
		script, err := bundleScript(".", name)
		if err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(name, script, 0o644); err != nil {
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

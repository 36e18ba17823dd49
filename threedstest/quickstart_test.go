package threedstest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/threedstest"
)

// printedFiles returns the files that a page of the documents prints, by name.
func printedFiles(t *testing.T, page string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, m := range regexp.MustCompile("(?ms)^```\\w+ (\\S+)\n(.*?)^```$").FindAllSubmatch(text, -1) {
		files[string(m[1])] = m[2]
	}
	return files
}

// TestQuickstart runs programs of docs/quickstart.md as they are printed, with cards of different ends: those in Go and
// Node, and with EXAMPLES those in other languages that are installed. EXAMPLES=all wants them all.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	files := printedFiles(t, filepath.Join("..", "docs", "quickstart.md"))
	server := threedstest.NewServer(t)
	module, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, language := range []struct {
		name, file string
		command    []string
		inCI       bool // make test brings it
	}{
		{"Go", "main.go", []string{"go", "run", "main.go"}, true},
		{"Node", "quickstart.mjs", []string{"node", "quickstart.mjs"}, true},
		{"Python", "quickstart.py", []string{"python3", "quickstart.py"}, false},
		{"PHP", "quickstart.php", []string{"php", "quickstart.php"}, false},
		{"Java", "Quickstart.java", []string{"java", "Quickstart.java"}, false},
	} {
		t.Run(language.name, func(t *testing.T) {
			t.Parallel()
			if !language.inCI && os.Getenv("EXAMPLES") == "" {
				t.Skipf("make examples runs the program in %s", language.name)
			}
			if _, err := exec.LookPath(language.command[0]); err != nil {
				if os.Getenv("EXAMPLES") == "all" || language.inCI && os.Getenv("CI") == "true" {
					t.Fatalf("there is no %s", language.command[0])
				}
				t.Skipf("there is no %s: the program in %s was not run", language.command[0], language.name)
			}
			dir := prepareExample(t, module)
			for card, want := range map[string]string{
				"4000000000000103": "authenticated: authorise\n",
				"4000000000000113": "not_authenticated: do_not_authorise\n",
				"4000000000000072": "the issuer asks the shopper: show http",
			} {
				payment := bytes.Replace(files["payment.json"], []byte("4000000000000103"), []byte(card), 1)
				for file, data := range map[string][]byte{"payment.json": payment, language.file: files[language.file]} {
					if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				cmd := exec.CommandContext(t.Context(), language.command[0], language.command[1:]...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "THREEDS_URL="+server.URL, "THREEDS_KEY="+server.Key, "GOFLAGS=-mod=mod")
				if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), want) {
					t.Errorf("%s: %v\n%s\nwant %s", card, err, out, want)
				}
			}
		})
	}
}

// prepareExample returns a directory in which programs find the packages of this module: that for Go by a go.mod that
// leads here, and that for Node by a link in node_modules.
func prepareExample(t *testing.T, module string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "go.mod" {
			data = bytes.Replace(data, []byte("module github.com/openthreeds/threeds"), []byte("module example"), 1)
			data = append(data, "\nrequire github.com/openthreeds/threeds v0.0.0\nreplace github.com/openthreeds/threeds => "+module+"\n"...)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	packages := filepath.Join(dir, "node_modules", "@openthreeds")
	if err := os.MkdirAll(packages, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(module, "web", "node"), filepath.Join(packages, "node")); err != nil {
		t.Fatal(err)
	}
	return dir
}

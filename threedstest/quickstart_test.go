package threedstest_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/playground"
	"github.com/openthreeds/threeds/internal/waittest"
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
	sandbox := startSandbox(t)
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
			} {
				payment := bytes.Replace(files["payment.json"], []byte("4000000000000103"), []byte(card), 1)
				for file, data := range map[string][]byte{"payment.json": payment, language.file: files[language.file]} {
					if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				cmd := exec.CommandContext(t.Context(), language.command[0], language.command[1:]...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "THREEDS_URL="+sandbox, "THREEDS_KEY="+playground.Key, "GOFLAGS=-mod=mod")
				if out, err := runWithShopper(t, cmd); err != nil || out != want {
					t.Errorf("%s: %v\n%s\nwant %s", card, err, out, want)
				}
			}
		})
	}
}

// startSandbox runs what "threeds sandbox" runs, with the pages for browsers, and returns its address.
func startSandbox(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	p, err := playground.Start(t.Context(), playground.Options{
		Dir: t.TempDir(), API: l, Log: slog.New(slog.DiscardHandler), Address: &playground.Address{PublicURL: url, Shop: http.NotFoundHandler()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return url
}

// runWithShopper runs a program, sends a shopper to the address in its first line, and returns what it prints then.
func runWithShopper(t *testing.T, cmd *exec.Cmd) (string, error) {
	t.Helper()
	var errs strings.Builder
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", err
	}
	lines := bufio.NewReader(stdout)
	first, _ := lines.ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(first), "send the shopper to ")
	if ok {
		err = payOnHostedPage(t, address)
	} else {
		err = fmt.Errorf("the first line is %q", first)
	}
	rest, _ := io.ReadAll(lines)
	return string(rest) + errs.String(), errors.Join(err, cmd.Wait())
}

// payOnHostedPage does what a shopper does whose browser has no JavaScript, and whose card asks for no challenge: it
// presses the button of the hosted page, and follows it until it leads back to the shop.
func payOnHostedPage(t *testing.T, address string) error {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	isBack := false
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Host == "shop.example" {
			isBack = r.URL.Query().Get("authentication") != ""
			return http.ErrUseLastResponse
		}
		return nil
	}}
	answer, err := browser.Get(address) // which sets the cookie that begin binds the authentication to
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	answer, err = browser.Post(address+"/begin", "application/x-www-form-urlencoded", nil)
	waittest.Until(t, "the hosted page to lead back to the shop", func() bool {
		if err != nil {
			return true
		}
		if err = answer.Body.Close(); err != nil || isBack {
			return true
		}
		answer, err = browser.Get(address)
		return false
	})
	return err
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

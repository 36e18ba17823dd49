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

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/sandbox/shop"
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

// TestQuickstart follows docs/quickstart.md in each language, with cards of different ends: it saves the files that the
// page prints, runs the commands that it prints, and goes where the program sends the shopper. Go and Node are always
// there, and with EXAMPLES the other languages that are installed. EXAMPLES=all wants them all.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "docs", "quickstart.md")
	files, addresses := printedFiles(t, page), regexp.MustCompile(`http://127\.0\.0\.1:8080`)
	sandbox := startSandbox(t)
	module, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, language := range []struct {
		name, file string
		needs      []string // programs
		inCI       bool     // make test brings it
	}{
		{"Go", "main.go", []string{"go"}, true},
		{"Node", "quickstart.mjs", []string{"node", "npm"}, true},
		{"Python", "quickstart.py", []string{"python3"}, false},
		{"PHP", "quickstart.php", []string{"php"}, false},
		{"Java", "Quickstart.java", []string{"java"}, false},
	} {
		t.Run(language.name, func(t *testing.T) {
			t.Parallel()
			if !language.inCI && os.Getenv("EXAMPLES") == "" {
				t.Skipf("go -C testing run ./long examples runs the program in %s", language.name)
			}
			for _, program := range language.needs {
				if _, err := exec.LookPath(program); err != nil {
					if os.Getenv("EXAMPLES") == "all" || language.inCI && os.Getenv("CI") == "true" {
						t.Fatalf("there is no %s", program)
					}
					t.Skipf("there is no %s: the program in %s was not run", program, language.name)
				}
			}
			dir := t.TempDir()
			commands := strings.Split(strings.TrimSpace(string(files[language.name])), "\n")
			for card, want := range map[string]string{
				"4000000000000103": "authenticated: authorise\n",
				"4000000000000113": "not_authenticated: do_not_authorise\n",
			} {
				payment := bytes.Replace(files["payment.json"], []byte("4000000000000103"), []byte(card), 1)
				payment = addresses.ReplaceAll(payment, []byte(sandbox))
				for file, data := range map[string][]byte{"payment.json": payment, language.file: files[language.file]} {
					if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				for i, command := range commands {
					cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
					cmd.Dir = dir
					cmd.Env = append(os.Environ(), "THREEDS_URL="+sandbox, "THREEDS_KEY="+playground.Key, "THREEDS_SOURCE="+module,
						"GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off", "GONOSUMDB=*", "npm_config_audit=false", "npm_config_offline=true")
					if i+1 < len(commands) {
						if out, err := cmd.CombinedOutput(); err != nil {
							t.Fatalf("%s: %v\n%s", command, err, out)
						}
						continue
					}
					if out, err := runWithShopper(t, cmd, want); err != nil || out != want {
						t.Errorf("%s: %v\n%s\nwant %s", card, err, out, want)
					}
				}
				commands = commands[len(commands)-1:] // what was installed is there for the next card
			}
		})
	}
}

// startSandbox runs what "threeds sandbox" runs, with the demo shop, and returns its address.
func startSandbox(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	log := slog.New(slog.DiscardHandler)
	demo := &shop.Shop{API: url, APIKey: playground.Key, Log: log}
	p, err := playground.Start(t.Context(), playground.Options{
		Dir: t.TempDir(), API: l, Log: log, Address: &playground.Address{PublicURL: url, Shop: demo.Handler()},
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
		if err := demo.Close(); err != nil {
			t.Error(err)
		}
	})
	return url
}

// runWithShopper runs a program, sends a shopper to the address in its first line, and returns what it prints then. The
// page that the shopper comes back to has the same end on it.
func runWithShopper(t *testing.T, cmd *exec.Cmd, end string) (string, error) {
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
		err = payOnHostedPage(t, address, strings.TrimSpace(end))
	} else {
		err = fmt.Errorf("the first line is %q", first)
	}
	rest, _ := io.ReadAll(lines)
	return string(rest) + errs.String(), errors.Join(err, cmd.Wait())
}

// payOnHostedPage does what a shopper does whose browser has no JavaScript, and whose card asks for no challenge: it
// presses the button of the hosted page, and follows it until it leads back to a page of the shop that shows the end.
func payOnHostedPage(t *testing.T, address, end string) error {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := &http.Client{Jar: jar}
	read := func(answer *http.Response, err error) (path, page string, _ error) {
		if err != nil {
			return "", "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusOK {
			err = errors.Join(err, fmt.Errorf("%s answers %s", answer.Request.URL.Path, answer.Status))
		}
		return answer.Request.URL.Path, string(text), err
	}
	_, _, err = read(browser.Get(address)) // which sets the cookie that begin binds the authentication to
	if err != nil {
		return err
	}
	path, page, err := read(browser.Post(address+"/begin", "application/x-www-form-urlencoded", nil))
	waittest.Until(t, "the hosted page to lead back to the shop", func() bool {
		if err != nil || path == "/order" {
			return true
		}
		path, page, err = read(browser.Get(address))
		return false
	})
	if err == nil && !strings.Contains(page, end) {
		err = fmt.Errorf("the shop does not show %q", end)
	}
	return err
}

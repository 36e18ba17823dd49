package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The tests of this file show what docs/getting-started.md says of the command.

func TestReadyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready.json")
	p := launch(t, nil, "sandbox", "--listen", "127.0.0.1:0", "--ready-file", file)
	var got map[string]any
	waitFor(t, "the ready file", func() bool {
		data, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatalf("half a ready file: %v", err) // it appears whole
		}
		return true
	})
	t.Run("members", func(t *testing.T) {
		for _, name := range []string{"api", "mpi", "results", "acs", "shop", "apiKey", "otherApiKey", "ca"} {
			if s, _ := got[name].(string); s == "" {
				t.Errorf("%s = %v", name, got[name])
			}
		}
		ds, _ := got["ds"].(map[string]any)
		for _, scheme := range []string{"visa", "mastercard", "amex", "jcb", "upi", "protectbuy", "sbn", "cb", "standin"} {
			if s, _ := ds[scheme].(string); !strings.HasPrefix(s, "https://") {
				t.Errorf("ds.%s = %v", scheme, ds[scheme])
			}
		}
		if got["apiKey"] == got["otherApiKey"] {
			t.Error("both keys are the same")
		}
	})
	t.Run("every listener accepts", func(t *testing.T) {
		all := []string{"api", "mpi", "results", "acs", "shop"}
		for _, name := range all {
			if refusing(host(t, got[name].(string))) {
				t.Errorf("%s does not", name)
			}
		}
		for scheme, address := range got["ds"].(map[string]any) {
			if refusing(host(t, address.(string))) {
				t.Errorf("ds %s does not", scheme)
			}
		}
	})
	t.Run("ca is what the servers show", func(t *testing.T) {
		data, err := os.ReadFile(got["ca"].(string))
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			t.Fatal("no certificate in ca")
		}
		for _, address := range []string{got["results"].(string), got["ds"].(map[string]any)["visa"].(string)} {
			seen := false
			conf := &tls.Config{RootCAs: pool, VerifyConnection: func(tls.ConnectionState) error { seen = true; return nil }}
			c, err := tls.Dial("tcp", host(t, address), conf)
			if err == nil {
				c.Close()
			}
			if !seen {
				t.Errorf("%s: %v", address, err)
			}
		}
	})
	t.Run("the two keys are of two merchants", func(t *testing.T) {
		w := &world{t: t, ready: ready{API: got["api"].(string), APIKey: got["apiKey"].(string)}}
		id := w.preauth("4000001234560103").text("threeDSServerTransID")
		w.APIKey = got["otherApiKey"].(string)
		w.refused("/auth", browser("2.2.0", "4000001234560103", id, "U"), expected{code: "301"})
	})
	t.Run("the curl line works", func(t *testing.T) {
		line := regexp.MustCompile(`curl -sS (\S+) -H '([^:']+): ([^']*)' -H '([^:']+): ([^']*)' -d '([^']*)'`)
		waitFor(t, "the text", func() bool { return line.MatchString(p.out.String()) })
		m := line.FindStringSubmatch(p.out.String())
		req, err := http.NewRequest(http.MethodPost, m[1], strings.NewReader(m[6]))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(m[2], m[3])
		req.Header.Set(m[4], m[5])
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		data, _ := io.ReadAll(res.Body)
		if res.StatusCode != 200 || parseObject(t, data).text("messageType") != "CRD" {
			t.Errorf("%d %s", res.StatusCode, data)
		}
		for said, name := range map[string]string{"Demo shop   ": "shop", "API         ": "api", "API key     ": "apiKey", "Peers saw   ": "control"} {
			if !strings.Contains(p.out.String(), said+got[name].(string)+"\n") {
				t.Errorf("the text does not tell %s", name)
			}
		}
	})
	p.end(syscall.SIGTERM)
}

// TestReadyFileIsNews: the file of an earlier sandbox is not taken for that of one
// that could not start, and what is no ready file is left alone.
func TestReadyFileIsNews(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "ready.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(file string) error {
		return dispatch(t.Context(), []string{"sandbox", "--listen", taken.Addr().String(), "--ready-file", file}, nil, io.Discard, io.Discard)
	}
	if err := start(file); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("%v, want that the address is in use", err)
	}
	if left := list(t, dir); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
	if err := start(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory for a ready file: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}

	none := new(readyFile)
	if err := errors.Join(none.removeStale(), none.publish(map[string]any{"api": "x"}), none.remove()); err != nil {
		t.Errorf("without a ready file: %v", err)
	}
	over := filepath.Join(dir, "directory")
	must(t, os.Mkdir(over, 0o700))
	if err := (&readyFile{path: over}).publish(map[string]any{"api": "x"}); err == nil {
		t.Error("written over a directory")
	}
	if left := list(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	must(t, os.Remove(over))

	first := &readyFile{path: file}
	if err := first.publish(map[string]any{"api": "first"}); err != nil {
		t.Fatal(err)
	}
	other := &readyFile{path: file}
	if err := other.publish(map[string]any{"api": "other"}); err != nil {
		t.Fatal(err)
	}
	if err := first.remove(); err != nil || len(list(t, dir)) != 1 {
		t.Errorf("another sandbox's file is gone, %v", err)
	}
	if err := other.remove(); err != nil || len(list(t, dir)) != 0 {
		t.Errorf("its own file is still there, %v", err)
	}
}

// TestReadyFileAmongOthers: in a directory of all users nobody has the ready file
// written into a file of the user's.
func TestReadyFileAmongOthers(t *testing.T) {
	dir := t.TempDir()
	file, mine := filepath.Join(dir, "ready.json"), filepath.Join(dir, "mine")
	if err := errors.Join(os.WriteFile(mine, []byte("mine"), 0o600), os.Symlink(mine, file+".tmp")); err != nil {
		t.Fatal(err)
	}
	a := &readyFile{path: file}
	if err := a.publish(map[string]any{"api": "x"}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(mine); err != nil || string(text) != "mine" {
		t.Errorf("another file is now %q, %v", text, err)
	}
	info, err := os.Lstat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the ready file: %v, %v; want a file of mode 0600", info, err)
	}
}

func TestSandboxListen(t *testing.T) {
	t.Run("at the address that is asked for", func(t *testing.T) {
		address := freeAddress(t)
		w := startSandbox(t, "--listen", address) // the later flag wins
		if w.API != "http://"+address {
			t.Errorf("the API is at %s, want %s", w.API, address)
		}
		w.preauth("4000001234560103")
	})
	t.Run("taken", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		temp, out := t.TempDir(), lockedBuffer{}
		t.Setenv("TMPDIR", temp)
		code := run(t.Context(), []string{"sandbox", "--listen", l.Addr().String()}, strings.NewReader(""), &out, &out)
		if code != 1 || !strings.Contains(out.String(), "address already in use") {
			t.Errorf("exit status %d: %s", code, out.String())
		}
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("no place for temporary files", func(t *testing.T) { // as in an image that has none
		var out lockedBuffer
		t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "gone"))
		code := run(t.Context(), []string{"sandbox", "--listen", "127.0.0.1:0"}, strings.NewReader(""), &out, &out)
		if code != 1 || !strings.Contains(out.String(), "--data DIR") {
			t.Errorf("exit status %d: %s", code, out.String())
		}
	})
	t.Run("several at once", func(t *testing.T) {
		a, b := startSandbox(t), startSandbox(t)
		id := a.preauth("4000001234560103").text("threeDSServerTransID")
		b.refused("/auth", browser("2.2.0", "4000001234560103", id, "U"), expected{code: "301"})
		b.preauth("4000001234560103")
	})
}

func TestSandboxData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	var id, early string
	var answer object
	t.Run("made and kept", func(t *testing.T) {
		w := startSandbox(t, "--data", dir)
		_, answer = w.pay("2.2.0", "4000001234560170", nil)
		w.challenge(answer)
		id = answer.text("threeDSServerTransID")
		early = w.preauth("4000001234560103").text("threeDSServerTransID")
		w.awaitResultOf(id)
	})
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory that it made: %v, %v", info, err)
	}
	for _, name := range []string{"keys.json", "threeds.db"} {
		if !slices.Contains(list(t, dir), filepath.Join(dir, name)) {
			t.Errorf("in the directory: %v, want %s", list(t, dir), name)
		}
	}
	t.Run("used again", func(t *testing.T) {
		w := startSandbox(t, "--data", dir)
		w.awaitResultOf(id)
		if code, got := w.post("/auth", browser("2.2.0", "4000001234560103", early, "U")); code != 200 {
			t.Errorf("an id of the run before: %d %v", code, got)
		}
	})
}

// TestSandboxRefuses: a sandbox that cannot start says why, and leaves nothing open.
func TestSandboxRefuses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the end of one that starts all the same
	defer cancel()
	for _, tt := range []struct{ spoilt, want string }{
		{"keys.json", "keys.json: "}, {"threeds.db", "unable to open database"}, {"ca.pem", "ca.pem: "},
	} {
		dir, address, out := t.TempDir(), freeAddress(t), lockedBuffer{}
		must(t, os.Mkdir(filepath.Join(dir, tt.spoilt), 0o700))
		file := filepath.Join(t.TempDir(), "ready.json")
		before := goleak.IgnoreCurrent()
		args := []string{"sandbox", "--listen", address, "--data", dir, "--ready-file", file}
		if code := run(ctx, args, strings.NewReader(""), &out, &out); code != 1 || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s is a directory: exit status %d, %q", tt.spoilt, code, out.String())
		}
		if err := goleak.Find(before); err != nil || !refusing(address) {
			t.Errorf("%s is a directory: still open: %v", tt.spoilt, err)
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is a directory: the ready file: %v", tt.spoilt, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	for _, tt := range []struct{ flag, value, want string }{
		{"--data", filepath.Join(file, "data"), "not a directory"},
		{"--ready-file", filepath.Join(file, "ready.json"), "not a directory"},
		{"--ready-file", filepath.Join(filepath.Dir(file), "gone", "ready.json"), "no such file or directory"},
	} {
		var out lockedBuffer
		args := []string{"sandbox", "--listen", "127.0.0.1:0", tt.flag, tt.value}
		if code := run(ctx, args, strings.NewReader(""), &out, &out); code != 1 || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s %s: exit status %d, %q", tt.flag, tt.value, code, out.String())
		}
	}
}

// TestReachable: an address of a listener on all is told as one to call.
func TestReachable(t *testing.T) {
	for listens, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080", "0.0.0.0:8080": "127.0.0.1:8080", "[::]:8080": "127.0.0.1:8080", "[::1]:8080": "[::1]:8080", "192.0.2.1:80": "192.0.2.1:80",
	} {
		at, err := net.ResolveTCPAddr("tcp", listens)
		must(t, err)
		if got := callableAddress(at); got != want {
			t.Errorf("%s: %s, want %s", listens, got, want)
		}
	}
}

func (w *world) awaitResultOf(id string) {
	w.t.Helper()
	waitFor(w.t, "the result", func() bool {
		code, _ := w.post("/postauth", object{"threeDSServerTransID": id})
		return code == 200
	})
}

// TestKeyNotPrinted: a key that could not be said is none.
func TestKeyNotPrinted(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	full, w := io.Pipe()
	if err := full.Close(); err != nil {
		t.Fatal(err)
	}
	var errs, list strings.Builder
	if code := run(t.Context(), []string{"key", "create", "--name", "Nobody", "--config", s.config}, nil, w, &errs); code != 1 {
		t.Errorf("key create: %d %s", code, errs.String())
	}
	if code := run(t.Context(), []string{"key", "list", "--config", s.config}, nil, &list, &errs); code != 0 || strings.Contains(list.String(), "Nobody") {
		t.Errorf("key list: %d %s", code, list.String())
	}
}

// TestServeRefuses: a configuration that is wrong is refused whole, with every
// fault at its place, and nothing is listening.
func TestServeRefuses(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	good, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	dir, address := filepath.Dir(s.config), freeAddress(t)
	lines := strings.Split(string(good), "\n")
	line := func(text string) int {
		return slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, text) }) + 1
	}
	edit := func(old, now string) {
		if n := line(old); n == 0 {
			t.Fatalf("%q is not in the configuration", old)
		} else {
			lines[n-1] = strings.Replace(lines[n-1], old, now, 1)
		}
	}
	edit("api: {listen: 127.0.0.1:0}", "api: {listen: "+address+"}")
	edit("log: {level: debug}", "log: {level: loud}")
	edit("versions: [2.1.0, 2.2.0, 2.3.1]", "versions: [2.1.0, 2.4.0]")
	edit("min_refresh: 1s", "min_refresch: 1s")
	edit("server_ca: ca.pem", "server_ca: nowhere.pem")
	bad := filepath.Join(dir, "bad.yaml")
	write(t, bad, []byte(strings.Join(lines, "\n")))
	var out lockedBuffer
	code := run(t.Context(), []string{"serve", "--config", bad}, strings.NewReader(""), &out, &out)
	if code != 1 {
		t.Errorf("exit status %d, want 1", code)
	}
	for text, key := range map[string]string{
		"level: loud": "log.level", "2.4.0": "directories[0].versions[1]", "min_refresch": "directories[0].min_refresch", "nowhere.pem": "directories[0].server_ca",
	} {
		place := regexp.MustCompile(regexp.QuoteMeta(bad) + fmt.Sprintf(`:%d:\d+: %s: .`, line(text), regexp.QuoteMeta(key)))
		if !place.MatchString(out.String()) {
			t.Errorf("%s is not told with file, line and key:\n%s", text, out.String())
		}
	}
	if !refusing(address) {
		t.Error("it listens all the same")
	}
	t.Run("no such file", func(t *testing.T) {
		var out lockedBuffer
		missing := filepath.Join(dir, "missing.yaml")
		if code := run(t.Context(), []string{"serve", "--config", missing}, strings.NewReader(""), &out, &out); code != 1 || !strings.Contains(out.String(), missing) {
			t.Errorf("exit status %d: %s", code, out.String())
		}
	})
	t.Run("an address that is taken", func(t *testing.T) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		taken := filepath.Join(dir, "taken.yaml")
		write(t, taken, []byte(strings.Replace(string(good), "api: {listen: 127.0.0.1:0}", "api: {listen: "+address+"}", 1)))
		var out lockedBuffer
		if code := run(t.Context(), []string{"serve", "--config", taken}, strings.NewReader(""), &out, &out); code != 1 || !strings.Contains(out.String(), "api.listen") {
			t.Errorf("exit status %d: %s", code, out.String())
		}
	})
}

// TestR12IDThenCardThenVersion shows the end of the order: the id is unknown, the card is
// another one, the version is not usable.
func TestR12IDThenCardThenVersion(t *testing.T) {
	w := startSandbox(t)
	const only210, all = "4000001234561103", "4000001234560103"
	id := w.preauth(all).text("threeDSServerTransID")
	w.refused("/auth", browser("2.2.0", only210, newUUID(), "U"), expected{code: "301"})
	w.refused("/auth", browser("2.2.0", only210, id, "U"), expected{code: "305", detail: "acctNumber"})
	own := w.preauth(only210).text("threeDSServerTransID")
	w.refused("/auth", browser("2.2.0", only210, own, "U").with(object{"purchaseCurrency": "963"}), expected{code: "304"})
	w.refused("/auth", browser("2.2.0", only210, own, "U"), expected{code: "102", detail: "2.1.0", description: "Unsupported message version"})
	if code, got := w.post("/auth", browser("2.1.0", only210, own, "U")); code != 200 {
		t.Errorf("%d %v", code, got)
	}
}

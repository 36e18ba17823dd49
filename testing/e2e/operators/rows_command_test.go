package operators

import (
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

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// The tests of this file show what docs/getting-started.md says of the command.

func TestReadyFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ready.json")
	p := rig.Launch(t, nil, "sandbox", "--listen", "127.0.0.1:0", "--ready-file", file)
	var got map[string]any
	waittest.Until(t, "the ready file", func() bool {
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
		for _, name := range []string{"api", "mpi", "results", "acs", "shop", "apiKey", "otherApiKey", "ca", "docs"} {
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
			if rig.IsRefusing(rig.HostOf(t, got[name].(string))) {
				t.Errorf("%s does not", name)
			}
		}
		for scheme, address := range got["ds"].(map[string]any) {
			if rig.IsRefusing(rig.HostOf(t, address.(string))) {
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
			c, err := tls.Dial("tcp", rig.HostOf(t, address), conf)
			if err == nil {
				c.Close()
			}
			if !seen {
				t.Errorf("%s: %v", address, err)
			}
		}
	})
	t.Run("the two keys are of two merchants", func(t *testing.T) {
		w := &rig.World{T: t, ReadyFile: rig.ReadyFile{API: got["api"].(string), APIKey: got["apiKey"].(string)}}
		id := w.Preauth("4000001234560103").Text("threeDSServerTransID")
		w.APIKey = got["otherApiKey"].(string)
		w.Refused("/auth", rig.BrowserRequest("2.2.0", "4000001234560103", id, "U"), rig.Expected{Code: "301"})
	})
	t.Run("the curl line works", func(t *testing.T) {
		line := regexp.MustCompile(`curl -sS (\S+) -H '([^:']+): ([^']*)' -H '([^:']+): ([^']*)' -d '([^']*)'`)
		waittest.Until(t, "the text", func() bool { return line.MatchString(p.Log.String()) })
		m := line.FindStringSubmatch(p.Log.String())
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
		if res.StatusCode != 200 || rig.ParseObject(t, data).Text("messageType") != "CRD" {
			t.Errorf("%d %s", res.StatusCode, data)
		}
		for said, name := range map[string]string{
			"Demo shop   ": "shop", "API         ": "api", "API key     ": "apiKey", "Peers saw   ": "control", "Docs        ": "docs",
		} {
			if !strings.Contains(p.Log.String(), said+got[name].(string)+"\n") {
				t.Errorf("the text does not tell %s", name)
			}
		}
	})
	t.Run("everybody may read the documentation", func(t *testing.T) {
		for at, want := range map[string]string{
			"/docs": "<title>Documentation", "/docs/": "<title>Documentation", "/docs/quickstart": "<h1>Quickstart",
			"/docs/quickstart.md": "# Quickstart", "/docs/assets/index.js": "globalThis.docsIndex", "/llms.txt": "](docs/quickstart.md)",
			"/openapi.json": `"openapi":`, "/": `href="/docs/"`,
		} {
			res, err := http.Get(got["shop"].(string) + at)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if data, _ := io.ReadAll(res.Body); res.StatusCode != 200 || !strings.Contains(string(data), want) {
				t.Errorf("%s: %d %.100s, want %s", at, res.StatusCode, data, want)
			}
		}
	})
	p.End(syscall.SIGTERM)
}

func TestSandboxListen(t *testing.T) {
	t.Run("at the address that is asked for", func(t *testing.T) {
		address := porttest.Address(t)
		w := rig.StartSandbox(t, "--listen", address) // the later flag wins
		if w.API != "http://"+address {
			t.Errorf("the API is at %s, want %s", w.API, address)
		}
		w.Preauth("4000001234560103")
	})
	t.Run("taken", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		temp, out := t.TempDir(), rig.LockedBuffer{}
		t.Setenv("TMPDIR", temp)
		code := rig.Run(t.Context(), []string{"sandbox", "--listen", l.Addr().String()}, strings.NewReader(""), &out, &out)
		if code != 1 || !strings.Contains(out.String(), "address already in use") {
			t.Errorf("exit status %d: %s", code, out.String())
		}
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("no place for temporary files", func(t *testing.T) { // as in an image that has none
		var out rig.LockedBuffer
		t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "gone"))
		code := rig.Run(t.Context(), []string{"sandbox", "--listen", "127.0.0.1:0"}, strings.NewReader(""), &out, &out)
		if code != 1 || !strings.Contains(out.String(), "--data DIR") {
			t.Errorf("exit status %d: %s", code, out.String())
		}
	})
	t.Run("several at once", func(t *testing.T) {
		a, b := rig.StartSandbox(t), rig.StartSandbox(t)
		id := a.Preauth("4000001234560103").Text("threeDSServerTransID")
		b.Refused("/auth", rig.BrowserRequest("2.2.0", "4000001234560103", id, "U"), rig.Expected{Code: "301"})
		b.Preauth("4000001234560103")
	})
}

func TestSandboxData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "data")
	var id, early string
	var answer rig.Object
	t.Run("made and kept", func(t *testing.T) {
		w := rig.StartSandbox(t, "--data", dir)
		_, answer = w.Pay("2.2.0", "4000001234560170", nil)
		w.Challenge(answer)
		id = answer.Text("threeDSServerTransID")
		early = w.Preauth("4000001234560103").Text("threeDSServerTransID")
		w.AwaitResultOf(id)
	})
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory that it made: %v, %v", info, err)
	}
	for _, name := range []string{"keys.json", "threeds.db"} {
		if !slices.Contains(rig.ListFiles(t, dir), filepath.Join(dir, name)) {
			t.Errorf("in the directory: %v, want %s", rig.ListFiles(t, dir), name)
		}
	}
	t.Run("used again", func(t *testing.T) {
		w := rig.StartSandbox(t, "--data", dir)
		w.AwaitResultOf(id)
		if code, got := w.Post("/auth", rig.BrowserRequest("2.2.0", "4000001234560103", early, "U")); code != 200 {
			t.Errorf("an id of the run before: %d %v", code, got)
		}
	})
}

// TestSandboxRefuses: a sandbox that cannot start says why, and leaves nothing open.
func TestSandboxRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ spoilt, want string }{
		{"keys.json", "keys.json: "}, {"threeds.db", "unable to open database"}, {"ca.pem", "ca.pem: "},
	} {
		dir, address, out := t.TempDir(), porttest.Address(t), rig.LockedBuffer{}
		rig.Must(t, os.Mkdir(filepath.Join(dir, tt.spoilt), 0o700))
		file := filepath.Join(t.TempDir(), "ready.json")
		args := []string{"sandbox", "--listen", address, "--data", dir, "--ready-file", file}
		if code := rig.Run(t.Context(), args, strings.NewReader(""), &out, &out); code != 1 || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s is a directory: exit status %d, %q", tt.spoilt, code, out.String())
		}
		if !rig.IsRefusing(address) {
			t.Errorf("%s is a directory: still open", tt.spoilt)
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is a directory: the ready file: %v", tt.spoilt, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	rig.WriteFile(t, file, nil)
	for _, tt := range []struct{ flag, value, want string }{
		{"--data", filepath.Join(file, "data"), "not a directory"},
		{"--ready-file", filepath.Join(file, "ready.json"), "not a directory"},
		{"--ready-file", filepath.Join(filepath.Dir(file), "gone", "ready.json"), "no such file or directory"},
	} {
		var out rig.LockedBuffer
		args := []string{"sandbox", "--listen", "127.0.0.1:0", tt.flag, tt.value}
		if code := rig.Run(t.Context(), args, strings.NewReader(""), &out, &out); code != 1 || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s %s: exit status %d, %q", tt.flag, tt.value, code, out.String())
		}
	}
}

// TestKeyNotPrinted: a key that could not be said is none.
func TestKeyNotPrinted(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	var errs, list strings.Builder
	if code := rig.Run(t.Context(), []string{"key", "create", "--name", "Nobody", "--config", s.ConfigFile}, nil, rig.OpenFull(t), &errs); code != 1 {
		t.Errorf("key create: %d %s", code, errs.String())
	}
	if code := rig.Run(t.Context(), []string{"key", "list", "--config", s.ConfigFile}, nil, &list, &errs); code != 0 || strings.Contains(list.String(), "Nobody") {
		t.Errorf("key list: %d %s", code, list.String())
	}
}

// TestServeRefuses: a configuration that is wrong is refused whole, with every
// fault at its place, and nothing is listening.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	good, err := os.ReadFile(s.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	dir, address := filepath.Dir(s.ConfigFile), porttest.Address(t)
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
	rig.WriteFile(t, bad, []byte(strings.Join(lines, "\n")))
	var out rig.LockedBuffer
	code := rig.Run(t.Context(), []string{"serve", "--config", bad}, strings.NewReader(""), &out, &out)
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
	if !rig.IsRefusing(address) {
		t.Error("it listens all the same")
	}
	t.Run("no such file", func(t *testing.T) {
		var out rig.LockedBuffer
		missing := filepath.Join(dir, "missing.yaml")
		if code := rig.Run(t.Context(), []string{"serve", "--config", missing}, strings.NewReader(""), &out,
			&out); code != 1 || !strings.Contains(out.String(), missing) {
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
		rig.WriteFile(t, taken, []byte(strings.Replace(string(good), "api: {listen: 127.0.0.1:0}", "api: {listen: "+address+"}", 1)))
		var out rig.LockedBuffer
		if code := rig.Run(t.Context(), []string{"serve", "--config", taken}, strings.NewReader(""), &out, &out); code != 1 ||
			!strings.Contains(out.String(), "api.listen") {
			t.Errorf("exit status %d: %s", code, out.String())
		}
	})
}

// TestR12IDThenCardThenVersion shows the end of the order: the id is unknown, the card is
// another one, the version is not usable.
func TestR12IDThenCardThenVersion(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	const only210, all = "4000001234561103", "4000001234560103"
	id := w.Preauth(all).Text("threeDSServerTransID")
	w.Refused("/auth", rig.BrowserRequest("2.2.0", only210, rig.NewUUID(), "U"), rig.Expected{Code: "301"})
	w.Refused("/auth", rig.BrowserRequest("2.2.0", only210, id, "U"), rig.Expected{Code: "305", Detail: "acctNumber"})
	own := w.Preauth(only210).Text("threeDSServerTransID")
	w.Refused("/auth", rig.BrowserRequest("2.2.0", only210, own, "U").With(rig.Object{"purchaseCurrency": "963"}), rig.Expected{Code: "304"})
	w.Refused("/auth", rig.BrowserRequest("2.2.0", only210, own, "U"), rig.Expected{Code: "102", Detail: "2.1.0", Description: "Unsupported message version"})
	if code, got := w.Post("/auth", rig.BrowserRequest("2.1.0", only210, own, "U")); code != 200 {
		t.Errorf("%d %v", code, got)
	}
}

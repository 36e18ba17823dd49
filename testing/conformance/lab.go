package conformance

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A plan is how a lab differs from the usual one, which its zero value is.
type plan struct {
	// sections of the configuration in place of the usual, by name: "timeouts":
	// "{authentication: 1s}".
	sections    map[string]string
	directories []directory // empty: visa and mastercard as they usually are
	prepare     func(*lab)  // before the process starts
	env         []string    // of the process, beside ours
	unready     bool        // do not wait until the card ranges are loaded
}

// A directory is one of the directory servers of a plan.
type directory struct {
	scheme string
	// keys of its configuration, beside or in place of the usual: "versions":
	// "[2.2.0]". An empty value removes a key.
	keys   map[string]string
	ranges []cardRange            // nil: usualRanges
	change func(*ds, *tls.Config) // called before the directory server listens; may be nil
}

var usualDirectories = []directory{
	{scheme: "visa"},
	{scheme: "mastercard", keys: map[string]string{"informational": "any"}},
}

// A lab is a server in a process of its own, with the directory servers that it
// knows and a client of its API.
type lab struct {
	binary  string
	plan    plan
	dir     string     // holds the configuration and all that the server writes
	config  string     // path of the configuration
	ca      *authority // of the results listener
	ds      map[string]*ds
	api     string // URL without path
	results string // URL with path
	console string // URL without path
	key     string // API key of the merchant Shop
	other   string // API key of another merchant
	client  *http.Client

	mu      sync.Mutex
	process *exec.Cmd
	exited  chan struct{}
	log     lockedBuffer
}

// idleTimeout is how long our clients keep an idle connection: not as long as the
// server does, or a request might meet the server's closing and get no answer.
const idleTimeout = 30 * time.Second

// newLab starts a server by a plan. Its addresses are free when they are chosen
// and may be taken when it listens: then others are tried.
func newLab(binary string, p plan) (*lab, error) {
	if len(p.directories) == 0 {
		p.directories = usualDirectories
	}
	for tries := 0; ; tries++ {
		l := &lab{binary: binary, plan: p, ca: newAuthority("Results CA"), ds: make(map[string]*ds), client: &http.Client{
			Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: idleTimeout},
		}}
		err := l.open()
		if err == nil {
			return l, nil
		}
		l.close()
		if tries == 3 || !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
}

// remoteLab is a server that runs already: of it there is nothing but the API.
func remoteLab(api, key string) *lab {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.IdleConnTimeout = idleTimeout
	return &lab{api: strings.TrimSuffix(api, "/"), key: key, client: &http.Client{Timeout: 30 * time.Second, Transport: transport}}
}

func (l *lab) open() error {
	var err error
	if l.dir, err = os.MkdirTemp("", "conformance-"); err != nil {
		return err
	}
	l.config = filepath.Join(l.dir, "threeds.yaml")
	for _, d := range l.plan.directories {
		peer := newDS(d.scheme, d.change)
		if d.ranges != nil {
			peer.ranges = d.ranges
		}
		peer.connect(l.ca)
		l.ds[d.scheme] = peer
	}
	l.writeConfig()
	if l.plan.prepare != nil {
		l.plan.prepare(l)
	}
	if err := l.makeKeys(); err != nil {
		return err
	}
	return l.start(!l.plan.unready)
}

// A newStore is what a program has in the folder of its store when two keys were made.
type newStore struct {
	key, other string
	files      map[string][]byte // by name
}

// newStores has one newStore for each program, by its path: making keys takes two processes, and there are many labs.
var (
	newStoresMu sync.Mutex
	newStores   = map[string]*newStore{}
)

// makeKeys makes the API keys of the lab in its store, or copies a store with keys.
func (l *lab) makeKeys() (err error) {
	newStoresMu.Lock()
	defer newStoresMu.Unlock()
	dir := filepath.Join(l.dir, "data") // as writeConfig says
	if made := newStores[l.binary]; made != nil {
		l.key, l.other = made.key, made.other
		err := os.Mkdir(dir, 0o700)
		for name, content := range made.files {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
		return err
	}
	if l.key, err = l.newKey("Shop"); err != nil {
		return err
	}
	if l.other, err = l.newKey("Other"); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	made := &newStore{l.key, l.other, map[string][]byte{}}
	for _, entry := range entries {
		if made.files[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	newStores[l.binary] = made
	return nil
}

// writeConfig makes the configuration and the files that it names.
func (l *lab) writeConfig() {
	free := freeAddresses(3)
	api, results, console := free[0], free[1], free[2]
	l.api, l.results, l.console = "http://"+api, "https://"+results+"/results", "http://"+console
	writePair(l.dir, "results", l.ca.issue("results.example"))
	sections := map[string]string{
		"api":      fmt.Sprintf("{listen: %s}", api),
		"results":  fmt.Sprintf("{listen: %s, url: %q, tls: {cert: results.pem, key: results-key.pem}}", results, l.results),
		"store":    `{url: "file:data"}`,
		"console":  fmt.Sprintf("{listen: %s}", console),
		"log":      "{level: debug}",
		"limits":   "{per_key: 100000/s, wait: 1m}",
		"timeouts": "{authentication: 20s}", // a directory on a busy machine keeps it
		"server":   "{reference_number: 3DS_LOA_SER_TEST_020301_00001, requestor_id: R1, requestor_name: Requestor}",
	}
	maps.Copy(sections, l.plan.sections)
	var b strings.Builder
	yaml(&b, "", sections)
	b.WriteString("directories:\n")
	for _, d := range l.plan.directories {
		peer := l.ds[d.scheme]
		peer.ca.write(l.dir, d.scheme+"-ca")
		writePair(l.dir, d.scheme+"-client", peer.ca.issue("3dss.example"))
		keys := map[string]string{
			"areq_url": peer.url, "preq_url": peer.url, "operator_id": d.scheme + "-operator", "versions": "[2.1.0, 2.2.0, 2.3.1]",
			"min_refresh": "1s", "client_cert": fmt.Sprintf("{cert: %[1]s-client.pem, key: %[1]s-client-key.pem}", d.scheme),
			"server_ca": d.scheme + "-ca.pem", "client_ca": d.scheme + "-ca.pem",
			"client_names": "[rreq." + d.scheme + ".example]",
		}
		maps.Copy(keys, d.keys)
		fmt.Fprintf(&b, "  - scheme: %s\n", d.scheme)
		yaml(&b, "    ", keys)
	}
	panicOnError(os.WriteFile(l.config, []byte(b.String()), 0o600))
}

func yaml(b *strings.Builder, indent string, keys map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if keys[name] != "" {
			fmt.Fprintf(b, "%s%s: %s\n", indent, name, keys[name])
		}
	}
}

// freeAddresses returns n addresses on which nobody listens, and none of them twice in
// the life of this process. The ports are below those that a system gives to outgoing
// connections: such a port might be taken while the server on it is restarted.
func freeAddresses(n int) []string {
	var free []string
	for tries := 0; len(free) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+(firstPort+ports.Add(1))%6000))
		if err != nil {
			if tries > 1000 {
				panic(err)
			}
			continue
		}
		l.Close()
		free = append(free, l.Addr().String())
	}
	return free
}

var (
	firstPort = rand.Uint32N(6000) // random, since other processes that run labs choose ports too
	ports     atomic.Uint32        // how many were tried
)

// startSecondNode starts another node of the same server: the same store, keys and
// directory servers, other addresses. End it with kill.
func (l *lab) startSecondNode() (*lab, error) {
	other := &lab{
		binary: l.binary, plan: l.plan, dir: l.dir, config: filepath.Join(l.dir, "beside.yaml"), ca: l.ca, ds: l.ds,
		key: l.key, other: l.other, client: l.client,
	}
	other.writeConfig()
	return other, other.start(true)
}

// newKey makes an API key.
func (l *lab) newKey(name string, flags ...string) (string, error) {
	out, err := l.runCommand(append([]string{"key", "create", "--name", name}, flags...)...)
	return strings.TrimSpace(out), err
}

// runCommand runs the program with this lab's configuration and returns what it
// prints.
func (l *lab) runCommand(args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(l.binary, append(args, "--config", l.config)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// start runs the process and waits until it serves, or until it is ready: until all card
// ranges are loaded.
func (l *lab) start(ready bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	cmd := exec.Command(l.binary, "serve", "--config", l.config)
	cmd.Env = append(os.Environ(), l.plan.env...)
	cmd.Stdout, cmd.Stderr = &l.log, &l.log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	l.process, l.exited = cmd, exited
	path, want := "/livez", `{"status":"alive"`
	if ready {
		path, want = "/readyz", `{"status":"ready",`
	}
	hasEnded, isReady := false, false
	waitUntil(2*stepTimeout, func() bool {
		select {
		case <-exited:
			hasEnded = true
		default:
			got, err := send(l.client, http.MethodGet, l.console+path, nil, nil)
			isReady = err == nil && strings.HasPrefix(string(got.body), want)
		}
		return hasEnded || isReady
	})
	switch {
	case isReady:
		return nil
	case hasEnded:
		return fmt.Errorf("the server ended:\n%s", l.log.String())
	}
	return fmt.Errorf("the server is not ready after %v:\n%s", 2*stepTimeout, l.log.String())
}

// kill ends the process as a power cut does.
func (l *lab) kill() { l.signalAndWait(os.Kill) }

// stop ends the process in good order.
func (l *lab) stop() { l.signalAndWait(os.Interrupt) }

// signalAndWait sends the process a signal and waits until it is gone.
func (l *lab) signalAndWait(sig os.Signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process == nil {
		return
	}
	_ = l.process.Process.Signal(sig)
	<-l.exited
	l.process = nil
}

func (l *lab) close() {
	l.kill()
	for _, d := range l.ds {
		d.close()
	}
	l.client.CloseIdleConnections()
	if l.dir != "" {
		_ = os.RemoveAll(l.dir)
	}
}

// callAPI posts to the API with a key.
func (l *lab) callAPI(path, key string, body []byte) (*answer, error) {
	return post(l.client, l.api+path, http.Header{"Apikey": {key}}, body)
}

// A lockedBuffer takes what a process writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

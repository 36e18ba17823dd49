package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// text is the configuration as it is.
func (s *site) text() string {
	s.t.Helper()
	data, err := os.ReadFile(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// metric reads one series from the console; -1: there is none.
func (s *site) metric(name string) float64 {
	res, err := http.Get(s.console + "/metrics")
	if err != nil {
		return -1
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			got, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return got
		}
	}
	return -1
}

const (
	applied = `threeds_config_reloads_total{result="applied"}`
	refused = `threeds_config_reloads_total{result="refused"}`
)

// reload sends the signal and waits until the process has taken it.
func (s *site) reload(p *process, metric string) {
	s.t.Helper()
	before := s.metric(metric)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	waitFor(s.t, metric+" to rise; the log:\n"+p.out.String(), func() bool { return s.metric(metric) > before })
}

// TestReload changes nearly everything that may change, again and again, under
// load: nothing fails, and what was under way ends as it began. RELOADS=1000 is
// the long form.
func TestReload(t *testing.T) {
	reloads := 24
	if n, err := strconv.Atoi(os.Getenv("RELOADS")); err == nil {
		reloads = n
	}
	ca := newAuthority(t)
	ds, master := newWire(t, ca), newWire(t, ca)
	ds.play(func(w http.ResponseWriter, areq object) {
		time.Sleep(100 * time.Millisecond)
		_, _ = w.Write(marshal(ares(areq, "C")))
	})
	s, proc := spawnSite(t, ca, ds, plan{sections: "limits: {per_key: 10000/s, wait: 1m}\ntimeouts: {authentication: 10s}"})
	dir, first := filepath.Dir(s.config), s.text()
	ca.write(dir, ca.issue("3dss.example"), "client2")
	_, second, _ := strings.Cut(first, "directories:\n")
	second = strings.NewReplacer("scheme: visa", "scheme: mastercard", ds.server.URL, master.server.URL, "operator-visa", "operator-mastercard").Replace(second)
	l, stop := startTraffic(t, s, 25)
	defer stop()
	for i := range reloads {
		text := first
		switch i % 6 {
		case 0: // our certificate to the directory server, and nothing in the file itself
			ca.write(dir, ca.issue("3dss.example"), "client")
		case 1:
			ca.write(dir, ca.issue("results.example"), "results")
			text = strings.Replace(text, "level: debug", "level: warn", 1)
		case 2:
			text = strings.NewReplacer("per_key: 10000/s", "per_key: 9000/s, in_flight: 5000, per_directory: 4000, depth: 12",
				"authentication: 10s", "authentication: 20s, result: 200s").Replace(text)
		case 3: // a directory more
			text += second
		case 4: // another certificate for that one
			text += strings.NewReplacer("client.pem", "client2.pem", "client-key.pem", "client2-key.pem").Replace(second)
		case 5:
			text = strings.NewReplacer("versions: [2.1.0, 2.2.0, 2.3.1]", "versions: [2.1.0, 2.2.0]", "operator-visa", "operator-"+strconv.Itoa(i)).
				Replace(text) + "merchants: [{name: Shop, scheme_rules: off, requestor_id: \"" + strconv.Itoa(i) + "\"}]\n"
		}
		write(t, s.config, []byte(text))
		s.reload(proc, applied)
		before := l.flows.Load()
		waitFor(t, "load", func() bool { return l.flows.Load() > before+1 })
	}
	write(t, s.config, []byte(first))
	s.reload(proc, applied)
	stop()
	l.none(t)
	if n := s.metric(refused); n != 0 {
		t.Errorf("%v reloads refused:\n%s", n, proc.out.String())
	}
	if n := s.metric(`threeds_card_ranges{scheme="mastercard"}`); n != -1 {
		t.Errorf("the metrics have %v ranges of a directory that is gone", n)
	}
	proc.end(syscall.SIGTERM)
}

// held has an /auth under way whose AReq the directory server does not answer until
// leave is closed. Its status comes on done.
func (s *site) held(ds *wire) (request object, leave chan<- bool, done <-chan int) {
	entered, wait, status := make(chan bool), make(chan bool), make(chan int)
	ds.play(func(w http.ResponseWriter, areq object) {
		entered <- true
		<-wait
		_, _ = w.Write(marshal(ares(areq, "Y")))
	})
	request = s.request("2.2.0")
	go func() {
		code, _ := s.post("/auth", request)
		status <- code
	}()
	<-entered
	return request, wait, status
}

// TestReloadKeepsPlaces: requests that a former configuration still serves take their
// places from the present one.
func TestReloadKeepsPlaces(t *testing.T) {
	ca := newAuthority(t)
	ds := newWire(t, ca)
	s, proc := spawnSite(t, ca, ds, plan{sections: "limits: {in_flight: 1}"})
	_, leave, done := s.held(ds)
	for _, when := range []string{"before", "after"} {
		if code, got := s.post("/preauth", object{"acctNumber": testPAN}); code != http.StatusServiceUnavailable {
			t.Errorf("%s a reload: %d %v, and the only place is taken", when, code, got)
		}
		if when == "before" {
			s.reload(proc, applied)
		}
	}
	close(leave)
	if code := <-done; code != http.StatusOK {
		t.Errorf("/auth: %d", code)
	}
	waitFor(t, "the place to be free", func() bool {
		code, _ := s.post("/preauth", object{"acctNumber": testPAN})
		return code == http.StatusOK
	})
	proc.end(syscall.SIGTERM)
}

// TestReloadKeepsCount: a reload gives nobody more requests than his key may make, unless
// it is this that has changed.
func TestReloadKeepsCount(t *testing.T) {
	ca := newAuthority(t)
	s, proc := spawnSite(t, ca, newWire(t, ca), plan{sections: "limits: {per_key: 1/h}"})
	for _, step := range []struct {
		old, new string
		want     int
	}{
		{"", "", http.StatusOK},
		{"", "", http.StatusTooManyRequests},
		{"limits: {per_key: 1/h}", "limits: {per_key: 1/h, depth: 12}", http.StatusTooManyRequests},
		{"per_key: 1/h", "per_key: 2/h", http.StatusOK},
		{"per_key: 2/h", "per_key: 2/h", http.StatusTooManyRequests},
	} {
		if step.old != "" {
			write(t, s.config, []byte(strings.Replace(s.text(), step.old, step.new, 1)))
			s.reload(proc, applied)
		}
		if code, got := s.post("/preauth", object{"acctNumber": testPAN}); code != step.want {
			t.Errorf("%q in place of %q: %d %v, want %d", step.new, step.old, code, got, step.want)
		}
	}
}

// TestReloadTakesEffect looks at what a reload has changed, from outside.
func TestReloadTakesEffect(t *testing.T) {
	ca := newAuthority(t)
	ds, master := newWire(t, ca), newWire(t, ca)
	s, proc := spawnSite(t, ca, ds, plan{})
	dir, text := filepath.Dir(s.config), s.text()
	change := func(old, new string) {
		t.Helper()
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in the configuration", old)
		}
		text = strings.Replace(text, old, new, 1)
		write(t, s.config, []byte(text))
		s.reload(proc, applied)
	}
	slow, leave, done := s.held(ds)
	ds.play(nil)

	change("operator-visa", "operator-new")
	if got := s.through(s.request("2.2.0")); got.text("threeDSServerOperatorID") != "operator-new" {
		t.Errorf("operator %q", got.text("threeDSServerOperatorID"))
	}
	versions := func() string {
		_, crd := s.post("/preauth", object{"acctNumber": testPAN})
		return fmt.Sprint(crd["threeDSServerProtocolVersions"])
	}
	if got := versions(); got != "[2.1.0 2.2.0 2.3.1]" {
		t.Errorf("versions before: %s", got)
	}
	change("versions: [2.1.0, 2.2.0, 2.3.1]", "versions: [2.1.0, 2.2.0]")
	if got := versions(); got != "[2.1.0 2.2.0]" {
		t.Errorf("versions after: %s", got)
	}
	change("directories:\n", "merchants: [{name: Shop, requestor_id: FromProfile}]\ndirectories:\n")
	if got := s.through(s.request("2.2.0")); got.text("threeDSRequestorID") != "FromProfile" {
		t.Errorf("requestor %q", got.text("threeDSRequestorID"))
	}
	change("FromProfile}]\n", "FromProfile}]\nlimits: {per_key: 1/m}\n")
	if code, _ := s.post("/preauth", object{"acctNumber": testPAN}); code != 200 {
		t.Errorf("the first request of the minute: %d", code)
	}
	if code, _ := s.post("/preauth", object{"acctNumber": testPAN}); code != 429 {
		t.Errorf("the second request of the minute: %d, want 429", code)
	}
	change("limits: {per_key: 1/m}\n", "")
	change("level: debug", "level: error")
	if before := proc.out.String(); true {
		s.request("2.2.0")
		if after := proc.out.String(); after != before {
			t.Errorf("at level error: %s", strings.TrimPrefix(after, before))
		}
	}
	ca.write(dir, ca.issue("other.example"), "results")
	s.reload(proc, applied)
	if names := certified(t, s, ca); len(names) != 1 || names[0] != "other.example" {
		t.Errorf("the results listener shows a certificate for %v", names)
	}

	_, visa, _ := strings.Cut(text, "directories:\n")
	change("directories:\n", "directories:\n"+strings.NewReplacer("scheme: visa", "scheme: mastercard",
		ds.server.URL, master.server.URL).Replace(visa))
	waitFor(t, "the ranges of the new directory", func() bool { return s.metric(`threeds_card_ranges{scheme="mastercard"}`) == 1 })
	req := s.request("2.2.0")
	if code, _ := s.post("/auth", req); code != 200 || len(master.sent(req.text("threeDSServerTransID"))) != 1 {
		t.Errorf("/auth of a card that the new directory holds too: %d, and it got %d AReqs", code, len(master.sent(req.text("threeDSServerTransID"))))
	}
	close(leave)
	if code := <-done; code != 200 {
		t.Errorf("the /auth that was under way: %d", code)
	}
	if n := len(ds.sent(slow.text("threeDSServerTransID"))); n != 1 {
		t.Errorf("%d AReqs for it", n)
	}
	http.DefaultClient.CloseIdleConnections()
	proc.end(syscall.SIGTERM)
}

// TestReloadV1 adds directories of 3-D Secure 1.0.2 to a server that had none,
// moves them elsewhere while a message is under way, and takes them away.
func TestReloadV1(t *testing.T) {
	ca := newAuthority(t)
	plain, proc := spawnSite(t, ca, newWire(t, ca), plan{})
	s := &legacySite{plain, newV1DS(t, ca)}
	before := s.text()
	change := func(section string) {
		t.Helper()
		write(t, s.config, []byte(before+section))
		s.reload(proc, applied)
	}
	none := func() {
		t.Helper()
		if code, got := s.form("/enrolled", purchase(v1Visa)); code != 200 || got.text("enrolled") == "Y" {
			t.Errorf("/enrolled without a directory: %d %v", code, got)
		}
	}
	none()

	change(v1Section(t, ca, s.v1.server.URL))
	first := s.enroll(purchase(v1Visa))
	entered, leave := make(chan bool), make(chan bool)
	s.v1.play(func(w http.ResponseWriter, r *http.Request, id string) {
		entered <- true
		<-leave
		v1Says("Y")(w, r, id)
	})
	done := make(chan object)
	go func() {
		_, got := s.form("/enrolled", purchase(v1Visa))
		done <- got
	}()
	<-entered // a VEReq is on its way

	moved := newV1DS(t, ca)
	change(v1Section(t, ca, moved.server.URL))
	s.enroll(purchase(v1Visa))
	if n := len(moved.came()); n != 1 {
		t.Errorf("%d messages came to the new address, want 1", n)
	}
	if code, got := s.check("visa", first.Answer(v1Visa, "Y")); code != 200 || got.text("status") != "Y" {
		t.Errorf("/check of a PAReq from before: %d %v", code, got)
	}
	close(leave)
	if got := <-done; got.text("enrolled") != "Y" {
		t.Errorf("the /enrolled that was under way: %v", got)
	}

	const (
		open = `threeds_directory_open{message="VEReq",scheme="visa"}`
		end  = `threeds_certificate_not_after_timestamp_seconds{key="v1[0].client_cert.cert",scheme="visa"}`
	)
	if n := s.metric(open); n != 0 {
		t.Errorf("%s is %v", open, n)
	}
	if n := s.metric(end); n < 1 {
		t.Errorf("%s is %v", end, n)
	}
	change("")
	none()
	for _, name := range []string{open, end} {
		if n := s.metric(name); n != -1 {
			t.Errorf("%s is %v: of a directory that is gone", name, n)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	proc.end(syscall.SIGTERM)
}

// TestReloadKeepsV1Ranges: a reload asks no directory of 3-D Secure 1.0.2 for its card
// ranges again, and no card is asked for meanwhile that takes no part.
func TestReloadKeepsV1Ranges(t *testing.T) {
	ca := newAuthority(t)
	ds := newV1DS(t, ca)
	section := v1Section(t, ca, ds.server.URL)
	section = strings.Replace(section, "scheme: visa,", "scheme: visa, card_ranges: {acquirer_bin: 400551, merchant_id: ranges},", 1)
	ds.play(v1Body("<CRRes><version>1.0.2</version><CR><begin>4900000000000</begin><end>4900000009999</end><action>A</action></CR><serialNumber>1</serialNumber></CRRes>"))
	plain, proc := spawnSite(t, ca, newWire(t, ca), plan{sections: section})
	s := &legacySite{plain, ds}
	enrolled := func() string {
		_, got := s.form("/enrolled", purchase(v1Visa))
		return got.text("enrolled")
	}
	waitFor(t, "the card ranges of 1.0.2", func() bool { return enrolled() == "N" })
	ds.play(v1Says("Y"))
	s.reload(proc, applied)
	if got := enrolled(); got != "N" || len(ds.came()) > 0 {
		t.Errorf("after a reload: enrolled is %q, and came %q", got, ds.came())
	}
	http.DefaultClient.CloseIdleConnections()
	proc.end(syscall.SIGTERM)
}

// certified is the names in the certificate of the results listener.
func certified(t *testing.T, s *site, ca *authority) []string {
	t.Helper()
	conn, err := tls.Dial("tcp", host(t, s.results), &tls.Config{RootCAs: ca.pool(), ServerName: "127.0.0.1", Certificates: []tls.Certificate{ca.issue("rreq.ds.example")}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].DNSNames
}

// TestReloadRefused: whatever is wrong is said once, with its place and without a
// value, and the former configuration serves on.
func TestReloadRefused(t *testing.T) {
	ca := newAuthority(t)
	s, proc := spawnSite(t, ca, newWire(t, ca), plan{})
	dir, first := filepath.Dir(s.config), s.text()
	file := func(name string) string { return filepath.Join(dir, name) }
	keep := func(name string) (restore func()) {
		data, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		return func() { write(t, file(name), data) }
	}
	replace := func(old, new string) func() func() {
		return func() func() {
			if !strings.Contains(first, old) {
				t.Fatalf("%q is not in the configuration", old)
			}
			write(t, s.config, []byte(strings.Replace(first, old, new, 1)))
			return func() {}
		}
	}
	const restart = "cannot change in a running process (restart it to apply this)"
	address := func(url string) string { return host(t, url) }
	for _, tt := range []struct {
		name  string
		spoil func() (restore func())
		want  string
	}{
		{"api.listen", replace(address(s.API), "127.0.0.1:1"), "threeds.yaml:1:7: api.listen: " + restart},
		{"results.listen", replace(address(s.results), "127.0.0.1:1"), "threeds.yaml:2:11: results.listen: " + restart},
		{"console.listen", replace(address(s.console), "127.0.0.1:1"), "threeds.yaml:4:11: console.listen: " + restart},
		{"limits.connections", replace("directories:", "limits: {connections: 100}\ndirectories:"), ": limits.connections: " + restart},
		{"limits.wait", replace("directories:", "limits: {wait: 20ms}\ndirectories:"), ": limits.wait: " + restart},
		{"tracing", replace("directories:", "tracing: {endpoint: \"http://127.0.0.1:1\"}\ndirectories:"), ": tracing: " + restart},
		{"keys", replace("directories:", "keys: other.json\ndirectories:"), ": keys: " + restart},
		{"journal off", replace("directories:", "journal: off\ndirectories:"), ": journal: " + restart},
		{"journal.url", replace("directories:", "journal: {url: \"file:SecretPlace\"}\ndirectories:"), ": journal.url: " + restart},
		{"journal.keys", replace("directories:", "journal: {keys: SecretPlace}\ndirectories:"), ": journal.keys: " + restart},
		{"store", replace("file:data", "file:SecretPlace"), "threeds.yaml:3:9: store.url: " + restart},
		{"not YAML", replace("directories:", "directories: ["), "threeds.yaml:"},
		{"cut short", func() func() { write(t, s.config, []byte(first[:len(first)/2])); return func() {} }, "threeds.yaml:"},
		{"unknown key", replace("operator_id:", "operatorid:"), `directories[0].operatorid: unknown key, did you mean "operator_id"?`},
		{"bad value", replace("areq_url: https:", "areq_url: http:"), "directories[0].areq_url: not such a URL"},
		{"two at once", replace("operator_id: operator-visa", "operator_id: \"\"\n    refresh: SecretPlace"), "directories[0].refresh: not a duration"},
		{"other key file", func() func() {
			restore := keep("data/keys.json")
			write(t, file("data/keys.json"), []byte(`{"current": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U="}`))
			return restore
		}, "keys: the value in use is not in the file any more"},
		{"broken key file", func() func() {
			restore := keep("data/keys.json")
			write(t, file("data/keys.json"), []byte(`{"current": "SecretPlace`))
			return restore
		}, "keys: "},
		{"configuration gone", func() func() {
			if err := os.Remove(s.config); err != nil {
				t.Fatal(err)
			}
			return func() {}
		}, "threeds.yaml: no such file"},
	} {
		before := proc.out.String()
		restore := tt.spoil()
		s.reload(proc, refused)
		said := strings.TrimPrefix(proc.out.String(), before)
		if n := strings.Count(said, `"level":"ERROR"`); n != 1 || !strings.Contains(said, strings.ReplaceAll(tt.want, `"`, `\"`)) {
			t.Errorf("%s: %d errors logged, want one that has %q:\n%s", tt.name, n, tt.want, said)
		}
		if strings.Contains(said, "taken up") {
			t.Errorf("%s: the log has it that it was taken up:\n%s", tt.name, said)
		}
		for _, secret := range []string{"SecretPlace", "c2VjcmV0"} {
			if strings.Contains(said, secret) {
				t.Errorf("%s: the log has a value:\n%s", tt.name, said)
			}
		}
		if s.metric("threeds_config_last_reload_successful") != 0 {
			t.Errorf("%s: the metrics say that all is well", tt.name)
		}
		if code, _ := s.post("/auth", s.request("2.2.0")); code != 200 {
			t.Errorf("%s: /auth afterwards: %d", tt.name, code)
		}
		restore()
		write(t, s.config, []byte(first))
	}
	s.reload(proc, applied)
	if since := time.Since(time.Unix(int64(s.metric("threeds_config_last_reload_success_timestamp_seconds")), 0)); since > 30*time.Second {
		t.Errorf("last success %v ago", since)
	}
	if s.metric("threeds_config_last_reload_successful") != 1 {
		t.Error("the metrics say that the last reload failed")
	}
}

// countSecrets returns under how many secrets of the key file the API keys are sealed.
func (s *site) countSecrets() int {
	s.t.Helper()
	var out, errs strings.Builder
	if code := run(s.t.Context(), []string{"key", "list", "--json", "--config", s.config}, strings.NewReader(""), &out, &errs); code != 0 {
		s.t.Fatalf("key list: %d %s", code, errs.String())
	}
	var all []struct{ Secret string }
	must(s.t, json.Unmarshal([]byte(out.String()), &all))
	secrets := map[string]bool{}
	for _, key := range all {
		secrets[key.Secret] = true
	}
	return len(secrets)
}

// TestReloadKeyFile rotates the key file under a server, twice: what was made with the
// value before stays good, new API keys are known, and what may follow goes by the value
// in use, not by that of the start. What is made then the next process knows.
func TestReloadKeyFile(t *testing.T) {
	ca := newAuthority(t)
	s, proc := spawnSite(t, ca, newWire(t, ca), plan{})
	file := filepath.Join(filepath.Dir(s.config), "data", "keys.json")
	var first map[string]string
	data, err := os.ReadFile(file)
	must(t, err)
	must(t, json.Unmarshal(data, &first))
	one, two, three := first["current"], strings.Repeat("c2Vj", 10)+"c2U=", strings.Repeat("c2Vk", 10)+"c2U="
	made := s.request("2.2.0")
	for _, step := range []struct {
		keys object
		want string
	}{
		{object{"current": two}, refused},
		{object{"current": two, "previous": one}, applied},
		{object{"current": one}, refused},
		{object{"current": three, "previous": two}, applied},
	} {
		write(t, file, marshal(step.keys))
		s.reload(proc, step.want)
		if step.want == refused {
			continue
		}
		s.APIKey = s.key("Shop") // whose row is sealed with the secret that is current
		waitFor(t, "the other rows to be sealed with it", func() bool { return s.countSecrets() == 1 })
		if code, got := s.post("/auth", made); code != 200 {
			t.Errorf("/auth with an id from before the rotation: %d %v", code, got)
		}
		made = s.request("2.2.0")
	}
	proc.end(syscall.SIGTERM)
	launch(t, nil, "serve", "--config", s.config)
	waitFor(t, "the card ranges", func() bool { return s.readiness() == `{"status":"ready"}` })
	if code, got := s.post("/auth", made); code != 200 {
		t.Errorf("/auth with an id from after the rotations: %d %v", code, got)
	}
}

// TestReloadByItself has the files where Kubernetes puts them: behind a link that
// is swapped.
func TestReloadByItself(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	s, proc := spawnSite(t, ca, newWire(t, ca), plan{})
	dir := filepath.Dir(s.config)
	volume := func(name, certificate string) {
		place := filepath.Join(dir, name)
		if err := os.Mkdir(place, 0o700); err != nil {
			t.Fatal(err)
		}
		ca.write(place, ca.issue(certificate), "results")
		if err := os.Symlink(name, filepath.Join(dir, "..next")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	volume("..1", "first.example")
	for _, name := range []string{"results.pem", "results-key.pem"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("..data/"+name, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.reload(proc, applied)
	before := s.metric(applied)
	volume("..2", "second.example")
	waitFor(t, "the change to be seen", func() bool { return s.metric(applied) > before })
	const says = `"msg":"configuration taken up","because_of":"changed files"`
	waitFor(t, "the log to say so", func() bool { return strings.Contains(proc.out.String(), says) })
	if names := certified(t, s, ca); names[0] != "second.example" {
		t.Errorf("the results listener shows a certificate for %v", names)
	}

	// Files that have come into the configuration are looked at as well.
	ca.write(dir, ca.issue("third.example"), "third")
	write(t, s.config, []byte(strings.NewReplacer("results.pem", "third.pem", "results-key.pem", "third-key.pem").Replace(s.text())))
	s.reload(proc, applied)
	before = s.metric(applied)
	ca.write(dir, ca.issue("fourth.example"), "third")
	waitFor(t, "the renewal to be seen", func() bool { return s.metric(applied) > before })
	if names := certified(t, s, ca); names[0] != "fourth.example" {
		t.Errorf("the results listener shows a certificate for %v", names)
	}

	// The level of the log is of the configuration too.
	taken := strings.Count(proc.out.String(), "configuration taken up")
	write(t, s.config, []byte(strings.Replace(s.text(), "level: debug", "level: warn", 1)))
	s.reload(proc, applied)
	if n := strings.Count(proc.out.String(), "configuration taken up"); n != taken {
		t.Errorf("said %d times at level warn that a configuration was taken up", n-taken)
	}
}

// TestReloadTrust takes an authority away: not even connections that are open, or
// sessions that could be resumed, get its certificates in.
func TestReloadTrust(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	ds := newWire(t, ca)
	s, proc := spawnSite(t, ca, ds, plan{})
	dir := filepath.Dir(s.config)
	client := func(of *authority) *http.Client {
		return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: ca.pool(), Certificates: []tls.Certificate{of.issue("rreq.ds.example")}, ClientSessionCache: tls.NewLRUClientSessionCache(8),
		}}}
	}
	old, renewed := client(ca), client(other)
	post := func(c *http.Client) int {
		res, err := c.Post(s.results, "application/json", strings.NewReader("{}"))
		if err != nil {
			return 0
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	trust := func(pem string) {
		t.Helper()
		write(t, filepath.Join(dir, "trust.pem"), []byte(pem))
		s.reload(proc, applied)
	}
	write(t, filepath.Join(dir, "trust.pem"), ca.pem())
	write(t, s.config, []byte(strings.Replace(s.text(), "client_ca: ca.pem", "client_ca: trust.pem", 1)))
	s.reload(proc, applied)
	for _, step := range []struct {
		trust        []*authority
		old, renewed int
	}{
		{[]*authority{ca}, 200, 0}, {[]*authority{ca, other}, 200, 200}, {[]*authority{other}, 403, 200}, {[]*authority{other}, 0, 200},
	} {
		var pem strings.Builder
		for _, a := range step.trust {
			pem.Write(a.pem())
		}
		trust(pem.String())
		if got := post(old); got != step.old {
			t.Errorf("with %d authorities: the old certificate gets %d, want %d", len(step.trust), got, step.old)
		}
		if got := post(renewed); got != step.renewed {
			t.Errorf("with %d authorities: the new certificate gets %d, want %d", len(step.trust), got, step.renewed)
		}
	}
}

// TestReloadAuthorities moves both sides of both connections to another authority,
// with overlap, under load.
func TestReloadAuthorities(t *testing.T) {
	t.Parallel()
	first, second := newAuthority(t), newAuthority(t)
	ds := newWire(t, first)
	var asClient atomic.Pointer[tls.Certificate]
	show := func(c tls.Certificate) { asClient.Store(&c) }
	show(first.issue("rreq.ds.example"))
	ds.client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		RootCAs:              first.pool(), // of the results listener
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return asClient.Load(), nil },
	}}
	s, proc := spawnSite(t, first, ds, plan{sections: "limits: {per_key: 10000/s, wait: 1m}"})
	ds.play(func(w http.ResponseWriter, areq object) { _, _ = w.Write(marshal(ares(areq, "C"))) })
	dir := filepath.Dir(s.config)
	l, stop := startTraffic(t, s, 20)
	defer stop()
	serves := func(shown *authority, trusted ...*authority) {
		pool := x509.NewCertPool()
		for _, a := range trusted {
			pool.AddCert(a.cert)
		}
		ds.tls.Store(&tls.Config{Certificates: []tls.Certificate{shown.issue("ds.example")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
	}
	serves(first, first, second)
	write(t, filepath.Join(dir, "ca.pem"), append(first.pem(), second.pem()...))
	s.reload(proc, applied)
	l.turn() // what had begun goes on with the former trust
	serves(second, first, second)
	show(second.issue("rreq.ds.example"))
	second.write(dir, second.issue("3dss.example"), "client")
	s.reload(proc, applied)
	l.turn()
	serves(second, second)
	write(t, filepath.Join(dir, "ca.pem"), second.pem())
	s.reload(proc, applied)
	before := l.flows.Load()
	waitFor(t, "load with the second authority alone", func() bool { return l.flows.Load() > before+20 })
	stop()
	l.none(t)
}

package lifecycle

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

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestReload changes nearly everything that may change, again and again, under
// load: nothing fails, and what was under way ends as it began. RELOADS=1000 is
// the long form.
func TestReload(t *testing.T) {
	reloads := 12
	if n, err := strconv.Atoi(os.Getenv("RELOADS")); err == nil {
		reloads = n
	}
	ca := rig.NewAuthority(t)
	ds, master := rig.NewWire(t, ca), rig.NewWire(t, ca)
	ds.Play(func(w http.ResponseWriter, areq rig.Object) {
		time.Sleep(100 * time.Millisecond) // so that reloads come while requests wait for it
		_, _ = w.Write(rig.Marshal(rig.ARes(areq, "C")))
	})
	s, proc := rig.SpawnSite(t, ca, ds, rig.Plan{Sections: "limits: {per_key: 10000/s, wait: 1m}\ntimeouts: {authentication: 10s}"})
	dir, first := filepath.Dir(s.ConfigFile), s.ConfigText()
	ca.Write(dir, ca.Issue("3dss.example"), "client2")
	_, second, _ := strings.Cut(first, "directories:\n")
	second = strings.NewReplacer("scheme: visa", "scheme: mastercard", ds.Server.URL, master.Server.URL, "operator-visa", "operator-mastercard").Replace(second)
	l, stop := startTraffic(t, s, 25)
	defer stop()
	for i := range reloads {
		text := first
		switch i % 6 {
		case 0: // our certificate to the directory server, and nothing in the file itself
			ca.Write(dir, ca.Issue("3dss.example"), "client")
		case 1:
			ca.Write(dir, ca.Issue("results.example"), "results")
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
		rig.WriteFile(t, s.ConfigFile, []byte(text))
		s.Reload(proc, rig.ReloadApplied)
		l.progress(2)
	}
	rig.WriteFile(t, s.ConfigFile, []byte(first))
	s.Reload(proc, rig.ReloadApplied)
	stop()
	l.none(t)
	if n := s.Metric(rig.ReloadRefused); n != 0 {
		t.Errorf("%v reloads refused:\n%s", n, proc.Log.String())
	}
	if n := s.Metric(`threeds_card_ranges{scheme="mastercard"}`); n != -1 {
		t.Errorf("the metrics have %v ranges of a directory that is gone", n)
	}
	proc.End(syscall.SIGTERM)
}

// TestReloadKeepsPlaces: requests that a former configuration still serves take their
// places from the present one.
func TestReloadKeepsPlaces(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	s, proc := rig.SpawnSite(t, ca, ds, rig.Plan{Sections: "limits: {in_flight: 1}"})
	_, leave, done := s.HoldAuth(ds)
	for _, when := range []string{"before", "after"} {
		if code, got := s.Post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN}); code != http.StatusServiceUnavailable {
			t.Errorf("%s a reload: %d %v, and the only place is taken", when, code, got)
		}
		if when == "before" {
			s.Reload(proc, rig.ReloadApplied)
		}
	}
	close(leave)
	if code := <-done; code != http.StatusOK {
		t.Errorf("/auth: %d", code)
	}
	waittest.Until(t, "the place to be free", func() bool {
		code, _ := s.Post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN})
		return code == http.StatusOK
	})
	proc.End(syscall.SIGTERM)
}

// TestReloadKeepsCount: a reload gives nobody more requests than his key may make, unless
// it is this that has changed.
func TestReloadKeepsCount(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: "limits: {per_key: 1/h}"})
	for _, step := range []struct {
		old, new string
		want     int
	}{
		{"", "", http.StatusOK},
		{"", "", http.StatusTooManyRequests},
		{"per_key: 1/h", "depth: 12, per_key: 1/h", http.StatusTooManyRequests},
		{"per_key: 1/h", "per_key: 2/h", http.StatusOK},
		{"per_key: 2/h", "per_key: 2/h", http.StatusTooManyRequests},
	} {
		if step.old != "" {
			rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(s.ConfigText(), step.old, step.new, 1)))
			s.Reload(proc, rig.ReloadApplied)
		}
		if code, got := s.Post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN}); code != step.want {
			t.Errorf("%q in place of %q: %d %v, want %d", step.new, step.old, code, got, step.want)
		}
	}
}

// TestReloadTakesEffect looks at what a reload has changed, from outside.
func TestReloadTakesEffect(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds, master := rig.NewWire(t, ca), rig.NewWire(t, ca)
	s, proc := rig.SpawnSite(t, ca, ds, rig.Plan{})
	dir, text := filepath.Dir(s.ConfigFile), s.ConfigText()
	change := func(old, new string) {
		t.Helper()
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in the configuration", old)
		}
		text = strings.Replace(text, old, new, 1)
		rig.WriteFile(t, s.ConfigFile, []byte(text))
		s.Reload(proc, rig.ReloadApplied)
	}
	slow, leave, done := s.HoldAuth(ds)
	ds.Play(nil)

	change("operator-visa", "operator-new")
	if got := s.Through(s.Request("2.2.0")); got.Text("threeDSServerOperatorID") != "operator-new" {
		t.Errorf("operator %q", got.Text("threeDSServerOperatorID"))
	}
	versions := func() string {
		_, crd := s.Post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN})
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
	if got := s.Through(s.Request("2.2.0")); got.Text("threeDSRequestorID") != "FromProfile" {
		t.Errorf("requestor %q", got.Text("threeDSRequestorID"))
	}
	change("wait: 1m", "wait: 1m, per_key: 1/m")
	if code, _ := s.Post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN}); code != 200 {
		t.Errorf("the first request of the minute: %d", code)
	}
	if code, _ := s.Post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN}); code != 429 {
		t.Errorf("the second request of the minute: %d, want 429", code)
	}
	change("wait: 1m, per_key: 1/m", "wait: 1m")
	change("level: debug", "level: error")
	if before := proc.Log.String(); true {
		s.Request("2.2.0")
		if after := proc.Log.String(); after != before {
			t.Errorf("at level error: %s", strings.TrimPrefix(after, before))
		}
	}
	ca.Write(dir, ca.Issue("other.example"), "results")
	s.Reload(proc, rig.ReloadApplied)
	if names := certified(t, s, ca); len(names) != 1 || names[0] != "other.example" {
		t.Errorf("the results listener shows a certificate for %v", names)
	}

	_, visa, _ := strings.Cut(text, "directories:\n")
	change("directories:\n", "directories:\n"+strings.NewReplacer("scheme: visa", "scheme: mastercard",
		ds.Server.URL, master.Server.URL).Replace(visa))
	waittest.Until(t, "the ranges of the new directory", func() bool { return s.Metric(`threeds_card_ranges{scheme="mastercard"}`) == 1 })
	req := s.Request("2.2.0")
	if code, _ := s.Post("/auth", req); code != 200 || len(master.Sent(req.Text("threeDSServerTransID"))) != 1 {
		t.Errorf("/auth of a card that the new directory holds too: %d, and it got %d AReqs", code, len(master.Sent(req.Text("threeDSServerTransID"))))
	}
	close(leave)
	if code := <-done; code != 200 {
		t.Errorf("the /auth that was under way: %d", code)
	}
	if n := len(ds.Sent(slow.Text("threeDSServerTransID"))); n != 1 {
		t.Errorf("%d AReqs for it", n)
	}
	http.DefaultClient.CloseIdleConnections()
	proc.End(syscall.SIGTERM)
}

// TestReloadV1 adds directories of 3-D Secure 1.0.2 to a server that had none,
// moves them elsewhere while a message is under way, and takes them away.
func TestReloadV1(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	plain, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{})
	s := &rig.LegacySite{Site: plain, V1: rig.NewV1Directory(t, ca)}
	before := s.ConfigText()
	change := func(section string) {
		t.Helper()
		rig.WriteFile(t, s.ConfigFile, []byte(before+section))
		s.Reload(proc, rig.ReloadApplied)
	}
	none := func() {
		t.Helper()
		if code, got := s.Form("/enrolled", rig.Purchase(rig.V1Visa)); code != 200 || got.Text("enrolled") == "Y" {
			t.Errorf("/enrolled without a directory: %d %v", code, got)
		}
	}
	none()

	change(rig.V1Section(t, ca, s.V1.Server.URL))
	first := s.Enroll(rig.Purchase(rig.V1Visa))
	entered, leave := make(chan bool), make(chan bool)
	s.V1.Play(func(w http.ResponseWriter, r *http.Request, id string) {
		entered <- true
		<-leave
		rig.V1Says("Y")(w, r, id)
	})
	done := make(chan rig.Object)
	go func() {
		_, got := s.Form("/enrolled", rig.Purchase(rig.V1Visa))
		done <- got
	}()
	<-entered // a VEReq is on its way

	moved := rig.NewV1Directory(t, ca)
	change(rig.V1Section(t, ca, moved.Server.URL))
	s.Enroll(rig.Purchase(rig.V1Visa))
	if n := len(moved.Came()); n != 1 {
		t.Errorf("%d messages came to the new address, want 1", n)
	}
	if code, got := s.Check("visa", first.Answer(rig.V1Visa, "Y")); code != 200 || got.Text("status") != "Y" {
		t.Errorf("/check of a PAReq from before: %d %v", code, got)
	}
	close(leave)
	if got := <-done; got.Text("enrolled") != "Y" {
		t.Errorf("the /enrolled that was under way: %v", got)
	}

	const (
		open = `threeds_directory_open{message="VEReq",scheme="visa"}`
		end  = `threeds_certificate_not_after_timestamp_seconds{key="v1[0].client_cert.cert",scheme="visa"}`
	)
	if n := s.Metric(open); n != 0 {
		t.Errorf("%s is %v", open, n)
	}
	if n := s.Metric(end); n < 1 {
		t.Errorf("%s is %v", end, n)
	}
	change("")
	none()
	for _, name := range []string{open, end} {
		if n := s.Metric(name); n != -1 {
			t.Errorf("%s is %v: of a directory that is gone", name, n)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	proc.End(syscall.SIGTERM)
}

// TestReloadKeepsV1Ranges: a reload asks no directory of 3-D Secure 1.0.2 for its card
// ranges again, and no card is asked for meanwhile that takes no part.
func TestReloadKeepsV1Ranges(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds := rig.NewV1Directory(t, ca)
	section := rig.V1Section(t, ca, ds.Server.URL)
	section = strings.Replace(section, "scheme: visa,", "scheme: visa, card_ranges: {acquirer_bin: 400551, merchant_id: ranges},", 1)
	ds.Play(rig.V1Body(
		"<CRRes><version>1.0.2</version><CR><begin>4900000000000</begin><end>4900000009999</end><action>A</action></CR><serialNumber>1</serialNumber></CRRes>"))
	plain, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: section})
	s := &rig.LegacySite{Site: plain, V1: ds}
	enrolled := func() string {
		_, got := s.Form("/enrolled", rig.Purchase(rig.V1Visa))
		return got.Text("enrolled")
	}
	waittest.Until(t, "the card ranges of 1.0.2", func() bool { return enrolled() == "N" })
	ds.Play(rig.V1Says("Y"))
	s.Reload(proc, rig.ReloadApplied)
	if got := enrolled(); got != "N" || len(ds.Came()) > 0 {
		t.Errorf("after a reload: enrolled is %q, and came %q", got, ds.Came())
	}
	http.DefaultClient.CloseIdleConnections()
	proc.End(syscall.SIGTERM)
}

// certified is the names in the certificate of the results listener.
func certified(t *testing.T, s *rig.Site, ca *rig.Authority) []string {
	t.Helper()
	conn, err := tls.Dial("tcp", rig.HostOf(t, s.ResultsURL),
		&tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", Certificates: []tls.Certificate{ca.Issue("rreq.ds.example")}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].DNSNames
}

// TestReloadRefused: whatever is wrong is said once, with its place and without a
// value, and the former configuration serves on.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	ca := rig.NewAuthority(t)
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{})
	dir, first := filepath.Dir(s.ConfigFile), s.ConfigText()
	file := func(name string) string { return filepath.Join(dir, name) }
	keep := func(name string) (restore func()) {
		data, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		return func() { rig.WriteFile(t, file(name), data) }
	}
	replace := func(old, new string) func() func() {
		return func() func() {
			if !strings.Contains(first, old) {
				t.Fatalf("%q is not in the configuration", old)
			}
			rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(first, old, new, 1)))
			return func() {}
		}
	}
	const restart = "cannot change in a running process (restart it to apply this)"
	address := func(url string) string { return rig.HostOf(t, url) }
	for _, tt := range []struct {
		name  string
		spoil func() (restore func())
		want  string
	}{
		{"api.listen", replace(address(s.API), "127.0.0.1:1"), "threeds.yaml:1:7: api.listen: " + restart},
		{"results.listen", replace(address(s.ResultsURL), "127.0.0.1:1"), "threeds.yaml:2:11: results.listen: " + restart},
		{"console.listen", replace(address(s.ConsoleURL), "127.0.0.1:1"), "threeds.yaml:4:11: console.listen: " + restart},
		{"limits.connections", replace("wait: 1m", "wait: 1m, connections: 100"), ": limits.connections: " + restart},
		{"limits.wait", replace("wait: 1m", "wait: 20ms"), ": limits.wait: " + restart},
		{"tracing", replace("directories:", "tracing: {endpoint: \"http://127.0.0.1:1\"}\ndirectories:"), ": tracing: " + restart},
		{"keys", replace("directories:", "keys: other.json\ndirectories:"), ": keys: " + restart},
		{"journal off", replace("directories:", "journal: off\ndirectories:"), ": journal: " + restart},
		{"journal.url", replace("directories:", "journal: {url: \"file:SecretPlace\"}\ndirectories:"), ": journal.url: " + restart},
		{"journal.keys", replace("directories:", "journal: {keys: SecretPlace}\ndirectories:"), ": journal.keys: " + restart},
		{"store", replace("file:data", "file:SecretPlace"), "threeds.yaml:3:9: store.url: " + restart},
		{"not YAML", replace("directories:", "directories: ["), "threeds.yaml:"},
		{"cut short", func() func() { rig.WriteFile(t, s.ConfigFile, []byte(first[:len(first)/2])); return func() {} }, "threeds.yaml:"},
		{"unknown key", replace("operator_id:", "operatorid:"), `directories[0].operatorid: unknown key, did you mean "operator_id"?`},
		{"bad value", replace("areq_url: https:", "areq_url: http:"), "directories[0].areq_url: not such a URL"},
		{"two at once", replace("operator_id: operator-visa", "operator_id: \"\"\n    refresh: SecretPlace"), "directories[0].refresh: not a duration"},
		{"other key file", func() func() {
			restore := keep("data/keys.json")
			rig.WriteFile(t, file("data/keys.json"), []byte(`{"current": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U="}`))
			return restore
		}, "keys: the value in use is no longer in the file"},
		{"broken key file", func() func() {
			restore := keep("data/keys.json")
			rig.WriteFile(t, file("data/keys.json"), []byte(`{"current": "SecretPlace`))
			return restore
		}, "keys: "},
		{"configuration gone", func() func() {
			if err := os.Remove(s.ConfigFile); err != nil {
				t.Fatal(err)
			}
			return func() {}
		}, "threeds.yaml: no such file"},
	} {
		before := proc.Log.String()
		restore := tt.spoil()
		s.Reload(proc, rig.ReloadRefused)
		said := strings.TrimPrefix(proc.Log.String(), before)
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
		if s.Metric("threeds_config_last_reload_successful") != 0 {
			t.Errorf("%s: the metrics say that all is well", tt.name)
		}
		if code, _ := s.Post("/auth", s.Request("2.2.0")); code != 200 {
			t.Errorf("%s: /auth afterwards: %d", tt.name, code)
		}
		restore()
		rig.WriteFile(t, s.ConfigFile, []byte(first))
	}
	s.Reload(proc, rig.ReloadApplied)
	if since := time.Since(time.Unix(int64(s.Metric("threeds_config_last_reload_success_timestamp_seconds")), 0)); since > time.Since(begun)+time.Second {
		t.Errorf("last success %v ago", since)
	}
	if s.Metric("threeds_config_last_reload_successful") != 1 {
		t.Error("the metrics say that the last reload failed")
	}
}

// countSecrets returns under how many secrets of the key file the API keys are sealed.
func countSecrets(s *rig.Site) int {
	s.T.Helper()
	var out, errs strings.Builder
	if code := rig.Run(s.T.Context(), []string{"key", "list", "--json", "--config", s.ConfigFile}, strings.NewReader(""), &out, &errs); code != 0 {
		s.T.Fatalf("key list: %d %s", code, errs.String())
	}
	var all []struct{ Secret string }
	rig.Must(s.T, json.Unmarshal([]byte(out.String()), &all))
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
	t.Parallel()
	ca := rig.NewAuthority(t)
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{})
	file := filepath.Join(filepath.Dir(s.ConfigFile), "data", "keys.json")
	var first map[string]string
	data, err := os.ReadFile(file)
	rig.Must(t, err)
	rig.Must(t, json.Unmarshal(data, &first))
	one, two, three := first["current"], strings.Repeat("c2Vj", 10)+"c2U=", strings.Repeat("c2Vk", 10)+"c2U="
	made := s.Request("2.2.0")
	for _, step := range []struct {
		keys rig.Object
		want string
	}{
		{rig.Object{"current": two}, rig.ReloadRefused},
		{rig.Object{"current": two, "previous": one}, rig.ReloadApplied},
		{rig.Object{"current": one}, rig.ReloadRefused},
		{rig.Object{"current": three, "previous": two}, rig.ReloadApplied},
	} {
		rig.WriteFile(t, file, rig.Marshal(step.keys))
		s.Reload(proc, step.want)
		if step.want == rig.ReloadRefused {
			continue
		}
		s.APIKey = s.CreateKey("Shop") // whose row is sealed with the secret that is current
		waittest.Until(t, "the other rows to be sealed with it", func() bool { return countSecrets(s) == 1 })
		if code, got := s.Post("/auth", made); code != 200 {
			t.Errorf("/auth with an id from before the rotation: %d %v", code, got)
		}
		made = s.Request("2.2.0")
	}
	proc.End(syscall.SIGTERM)
	rig.Launch(t, nil, "serve", "--config", s.ConfigFile)
	waittest.Until(t, "the card ranges", func() bool { return s.Readiness() == `{"status":"ready"}` })
	if code, got := s.Post("/auth", made); code != 200 {
		t.Errorf("/auth with an id from after the rotations: %d %v", code, got)
	}
}

// TestReloadByItself has the files where Kubernetes puts them: behind a link that
// is swapped.
func TestReloadByItself(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{})
	dir := filepath.Dir(s.ConfigFile)
	volume := func(name, certificate string) {
		place := filepath.Join(dir, name)
		if err := os.Mkdir(place, 0o700); err != nil {
			t.Fatal(err)
		}
		ca.Write(place, ca.Issue(certificate), "results")
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
	s.Reload(proc, rig.ReloadApplied)
	before := s.Metric(rig.ReloadApplied)
	volume("..2", "second.example")
	waittest.Until(t, "the change to be seen", func() bool { return s.Metric(rig.ReloadApplied) > before })
	const says = `"msg":"configuration taken up","because_of":"changed files"`
	waittest.Until(t, "the log to say so", func() bool { return strings.Contains(proc.Log.String(), says) })
	if names := certified(t, s, ca); names[0] != "second.example" {
		t.Errorf("the results listener shows a certificate for %v", names)
	}

	// Files that have come into the configuration are looked at as well.
	ca.Write(dir, ca.Issue("third.example"), "third")
	rig.WriteFile(t, s.ConfigFile, []byte(strings.NewReplacer("results.pem", "third.pem", "results-key.pem", "third-key.pem").Replace(s.ConfigText())))
	s.Reload(proc, rig.ReloadApplied)
	before = s.Metric(rig.ReloadApplied)
	ca.Write(dir, ca.Issue("fourth.example"), "third")
	waittest.Until(t, "the renewal to be seen", func() bool { return s.Metric(rig.ReloadApplied) > before })
	if names := certified(t, s, ca); names[0] != "fourth.example" {
		t.Errorf("the results listener shows a certificate for %v", names)
	}

	// The level of the log is of the configuration too.
	taken := strings.Count(proc.Log.String(), "configuration taken up")
	rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(s.ConfigText(), "level: debug", "level: warn", 1)))
	s.Reload(proc, rig.ReloadApplied)
	if n := strings.Count(proc.Log.String(), "configuration taken up"); n != taken {
		t.Errorf("said %d times at level warn that a configuration was taken up", n-taken)
	}
}

// TestReloadTrust takes an authority away: not even connections that are open, or
// sessions that could be resumed, get its certificates in.
func TestReloadTrust(t *testing.T) {
	t.Parallel()
	ca, other := rig.NewAuthority(t), rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	s, proc := rig.SpawnSite(t, ca, ds, rig.Plan{})
	dir := filepath.Dir(s.ConfigFile)
	client := func(of *rig.Authority) *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: ca.Pool(), Certificates: []tls.Certificate{of.Issue("rreq.ds.example")}, ClientSessionCache: tls.NewLRUClientSessionCache(8),
		}}}
	}
	old, renewed := client(ca), client(other)
	post := func(c *http.Client) int {
		res, err := c.Post(s.ResultsURL, "application/json", strings.NewReader("{}"))
		if err != nil {
			return 0
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	trust := func(pem string) {
		t.Helper()
		rig.WriteFile(t, filepath.Join(dir, "trust.pem"), []byte(pem))
		s.Reload(proc, rig.ReloadApplied)
	}
	rig.WriteFile(t, filepath.Join(dir, "trust.pem"), ca.PEM())
	rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(s.ConfigText(), "client_ca: ca.pem", "client_ca: trust.pem", 1)))
	s.Reload(proc, rig.ReloadApplied)
	for _, step := range []struct {
		trust        []*rig.Authority
		old, renewed int
	}{
		{[]*rig.Authority{ca}, 200, 0}, {[]*rig.Authority{ca, other}, 200, 200}, {[]*rig.Authority{other}, 403, 200}, {[]*rig.Authority{other}, 0, 200},
	} {
		var pem strings.Builder
		for _, a := range step.trust {
			pem.Write(a.PEM())
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
	first, second := rig.NewAuthority(t), rig.NewAuthority(t)
	ds := rig.NewWire(t, first)
	var asClient atomic.Pointer[tls.Certificate]
	show := func(c tls.Certificate) { asClient.Store(&c) }
	show(first.Issue("rreq.ds.example"))
	ds.Client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		RootCAs:              first.Pool(), // of the results listener
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return asClient.Load(), nil },
	}}
	s, proc := rig.SpawnSite(t, first, ds, rig.Plan{Sections: "limits: {per_key: 10000/s, wait: 1m}"})
	ds.Play(func(w http.ResponseWriter, areq rig.Object) { _, _ = w.Write(rig.Marshal(rig.ARes(areq, "C"))) })
	dir := filepath.Dir(s.ConfigFile)
	l, stop := startTraffic(t, s, 20)
	defer stop()
	serves := func(shown *rig.Authority, trusted ...*rig.Authority) {
		pool := x509.NewCertPool()
		for _, a := range trusted {
			pool.AddCert(a.Cert)
		}
		ds.TLS.Store(&tls.Config{Certificates: []tls.Certificate{shown.Issue("ds.example")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
	}
	serves(first, first, second)
	rig.WriteFile(t, filepath.Join(dir, "ca.pem"), append(first.PEM(), second.PEM()...))
	s.Reload(proc, rig.ReloadApplied)
	l.turn() // what had begun goes on with the former trust
	serves(second, first, second)
	show(second.Issue("rreq.ds.example"))
	second.Write(dir, second.Issue("3dss.example"), "client")
	s.Reload(proc, rig.ReloadApplied)
	l.turn()
	serves(second, second)
	rig.WriteFile(t, filepath.Join(dir, "ca.pem"), second.PEM())
	s.Reload(proc, rig.ReloadApplied)
	before := l.flows.Load()
	waittest.Until(t, "load with the second authority alone", func() bool { return l.flows.Load() > before+20 })
	stop()
	l.none(t)
}

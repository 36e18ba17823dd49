package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

const (
	actionDir = rig.Root + "/.github/actions/sandbox"
	installer = rig.DeployDir + "/devcontainer/src/threeds/install.sh"
)

// serveRelease serves a release as it is published: the archive of this platform, and the sums. spoil changes the
// archive after its sum was taken.
func serveRelease(t *testing.T, spoil func(archive []byte) []byte) (url string) {
	t.Helper()
	binary, err := exec.LookPath("threeds")
	rig.Must(t, err)
	program := rig.ReadFile(t, binary)
	name := fmt.Sprintf("threeds_0.1.0_%s_%s", runtime.GOOS, runtime.GOARCH)
	var archive bytes.Buffer
	zip, err := gzip.NewWriterLevel(&archive, gzip.BestSpeed)
	rig.Must(t, err)
	files := tar.NewWriter(zip)
	rig.Must(t, files.WriteHeader(&tar.Header{Name: name + "/threeds", Mode: 0o755, Size: int64(len(program))}))
	_, err = files.Write(program)
	rig.Must(t, err)
	rig.Must(t, files.Close())
	rig.Must(t, zip.Close())
	published := map[string][]byte{
		name + ".tar.gz": archive.Bytes(),
		"SHA256SUMS":     fmt.Appendf(nil, "%064x  other.deb\n%x  %s.tar.gz\n", 0, sha256.Sum256(archive.Bytes()), name),
	}
	if spoil != nil {
		published[name+".tar.gz"] = spoil(archive.Bytes())
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if data, ok := published[strings.TrimPrefix(r.URL.Path, "/v0.1.0/")]; ok {
			_, _ = w.Write(data)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestInstallerChecksTheSum: the program of a release is installed if its sum is that of the release, and only then.
func TestInstallerChecksTheSum(t *testing.T) {
	t.Parallel()
	rig.FindTool(t, "curl", "the installer of releases")
	run := func(releases, version string) (dir, out string, err error) {
		dir = t.TempDir()
		cmd := exec.Command("sh", installer)
		cmd.Env = append(os.Environ(), "VERSION="+version, "BIN_DIR="+dir, "RELEASES="+releases)
		said, err := cmd.CombinedOutput()
		return dir, string(said), err
	}
	good := serveRelease(t, nil)
	for _, version := range []string{"0.1.0", "v0.1.0"} {
		dir, out, err := run(good, version)
		if want := "threeds " + rig.ReleaseVersion(t) + ", "; err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("%s: %v, %q, want %q", version, err, out, want)
		}
		if info, err := os.Stat(filepath.Join(dir, "threeds")); err != nil || info.Mode() != 0o755 {
			t.Errorf("%s: %v, %v", version, info, err)
		}
	}
	spoilt := serveRelease(t, func(archive []byte) []byte { return append(bytes.Clone(archive), 0) })
	for _, tt := range []struct{ releases, version, want string }{
		{spoilt, "0.1.0", "its sum differs"},
		{good, "0.2.0", "is there a release 0.2.0?"},
	} {
		dir, out, err := run(tt.releases, tt.version)
		if err == nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v, %q, want %q", tt.version, err, out, tt.want)
		}
		if left := rig.ListFiles(t, dir); len(left) > 0 {
			t.Errorf("%s: installed %v", tt.version, left)
		}
	}
}

// runAction runs the script of the Action as a runner does, and returns what it exports. The
// sandbox ends with the test.
func runAction(t *testing.T, env ...string) (outputs, variables map[string]string, said string, err error) {
	t.Helper()
	temp := t.TempDir()
	out, exported := filepath.Join(temp, "output"), filepath.Join(temp, "env")
	cmd := exec.Command("bash", actionDir+"/start")
	cmd.Env = append(os.Environ(), "VERSION=0.1.0", "BINARY=", "ARGS=", "RUNNER_TEMP="+temp, "GITHUB_OUTPUT="+out, "GITHUB_ENV="+exported)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a runner ends what a job has left behind; so does this test
	log, err := os.Create(filepath.Join(temp, "said"))
	rig.Must(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		waittest.Until(t, "the end of the sandbox", func() bool { return syscall.Kill(-cmd.Process.Pid, 0) == syscall.ESRCH })
	})
	err = cmd.Run()
	read := func(file string) map[string]string {
		members := map[string]string{}
		text, _ := os.ReadFile(file) // none: nothing was exported
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			members[name] = value
		}
		return members
	}
	return read(out), read(exported), string(rig.ReadFile(t, log.Name())), err
}

// readAction returns the Action.
func readAction(t *testing.T) (action struct {
	Inputs  map[string]struct{ Default string }
	Outputs map[string]struct{ Value string }
	Runs    struct {
		Steps []struct {
			ID, Run string
			Env     map[string]string
		}
	}
}) {
	t.Helper()
	rig.Must(t, yaml.Unmarshal(rig.ReadFile(t, actionDir+"/action.yml"), &action))
	return action
}

// TestActionStartsTheSandbox: the next step finds the API of a sandbox that runs, with a key of it. Each output of
// the Action has a value.
func TestActionStartsTheSandbox(t *testing.T) {
	t.Parallel()
	rig.FindTool(t, "curl", "the installer of releases")
	binary, err := exec.LookPath("threeds")
	rig.Must(t, err)
	for _, env := range [][]string{{"BINARY=" + binary, "ARGS=--strict --rate-limit 100"}, {"RELEASES=" + serveRelease(t, nil)}} {
		outputs, variables, said, err := runAction(t, env...)
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		for name, output := range readAction(t).Outputs {
			if want := "${{ steps.start.outputs." + name + " }}"; outputs[name] == "" || output.Value != want {
				t.Errorf("the output %s is %q, and its value %s, want %s", name, outputs[name], output.Value, want)
			}
		}
		if variables["THREEDS_URL"] != outputs["url"] || variables["THREEDS_KEY"] != outputs["api-key"] || len(variables) != 2 {
			t.Errorf("variables %v, outputs %v", variables, outputs)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, outputs["url"]+"/preauth", strings.NewReader(`{"acctNumber": "3000100000000103"}`))
		rig.Must(t, err)
		request.Header = http.Header{"Apikey": {outputs["api-key"]}, "Content-Type": {"application/json"}}
		answer, err := http.DefaultClient.Do(request)
		rig.Must(t, err)
		answer.Body.Close()
		if answer.StatusCode != 200 {
			t.Errorf("/preauth: %d", answer.StatusCode)
		}
		if log := string(rig.ReadFile(t, outputs["log"])); !strings.Contains(log, "POST /preauth 200") {
			t.Errorf("the log is %q", log)
		}
	}
}

// TestActionSaysWhyThereIsNoSandbox: the job fails with the program's own words.
func TestActionSaysWhyThereIsNoSandbox(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("threeds")
	rig.Must(t, err)
	outputs, _, said, err := runAction(t, "BINARY="+binary, "ARGS=--rate-limit -1")
	if err == nil || len(outputs) > 0 || !strings.Contains(said, "::error::") || !strings.Contains(said, "--rate-limit -1: want requests") {
		t.Errorf("%v, %v, %q", err, outputs, said)
	}
}

// TestActionPassesItsInputs: each input reaches the script by the variable that it reads.
func TestActionPassesItsInputs(t *testing.T) {
	t.Parallel()
	action := readAction(t)
	script := string(rig.ReadFile(t, actionDir+"/start"))
	step := action.Runs.Steps[0]
	if step.ID != "start" || step.Run != `"$GITHUB_ACTION_PATH/start"` || len(step.Env) != len(action.Inputs) {
		t.Errorf("the step is %+v", step)
	}
	for name := range action.Inputs {
		variable := strings.ToUpper(name)
		if step.Env[variable] != "${{ inputs."+name+" }}" || variable != "VERSION" && !strings.Contains(script, "$"+variable) {
			t.Errorf("the input %s is lost: %v", name, step.Env)
		}
	}
}

// TestRecipesFitTheProgram: the recipes of docs/testing.md for containers use the port that the sandbox listens on,
// wait for a line that it writes, and have its key.
func TestRecipesFitTheProgram(t *testing.T) {
	t.Parallel()
	page := string(rig.ReadFile(t, rig.Root+"/docs/testing.md"))
	w := rig.StartSandbox(t)
	if !strings.Contains(page, "`"+w.APIKey+"`") {
		t.Errorf("the page does not name the key %s", w.APIKey)
	}
	const line = "threeds sandbox is ready"
	if n := strings.Count(page, `"`+line+`"`) + strings.Count(page, `".*`+line+`.*\\n"`); n != 3 {
		t.Errorf("%d recipes wait for the line %q, want those for Node, Java and Go", n, line)
	}
	p := rig.Launch(t, nil, "sandbox", "--listen", "127.0.0.1:0")
	waittest.Until(t, "the line that containers wait for", func() bool { return strings.Contains(p.Log.String(), line) })
	p.End(os.Interrupt)
}

// TestOneVersionIsNamed: what is published together names one version.
func TestOneVersionIsNamed(t *testing.T) {
	t.Parallel()
	var chart struct {
		Version    string
		AppVersion string `yaml:"appVersion"`
	}
	rig.Must(t, yaml.Unmarshal(rig.ReadFile(t, rig.DeployDir+"/helm/Chart.yaml"), &chart))
	var feature struct {
		Version string
		Options map[string]struct{ Default string }
	}
	rig.Must(t, json.Unmarshal(rig.ReadFile(t, filepath.Dir(installer)+"/devcontainer-feature.json"), &feature))
	versions := map[string]string{
		"the chart": chart.Version, "the image of the chart": chart.AppVersion, "the feature": feature.Version,
		"the release of the feature": feature.Options["version"].Default, "the release of the Action": readAction(t).Inputs["version"].Default,
	}
	for _, dir := range []string{"web", "web/node", "web/npm"} {
		var p struct{ Version string }
		rig.Must(t, json.Unmarshal(rig.ReadFile(t, filepath.Join(rig.Root, dir, "package.json")), &p))
		versions[dir] = p.Version
	}
	page := string(rig.ReadFile(t, rig.Root+"/docs/testing.md"))
	for i, m := range regexp.MustCompile(`openthreeds/threeds(?::|/\S*@v)([0-9.]+[0-9])`).FindAllStringSubmatch(page, -1) {
		versions["docs/testing.md, "+strconv.Itoa(i)] = m[1]
	}
	for where, version := range versions {
		if version != chart.Version {
			t.Errorf("%s has version %s, the chart %s", where, version, chart.Version)
		}
	}
	if len(versions) < 12 {
		t.Errorf("only %d versions were found: %v", len(versions), versions)
	}
}

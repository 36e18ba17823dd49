package lifecycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/internal/edge/console"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A manifest is an object of Kubernetes, as plain values.
type manifest map[string]any

// at follows keys, and numbers of lists, to a value; nil: there is none.
func (m manifest) at(keys ...any) any {
	var v any = map[string]any(m)
	for _, key := range keys {
		switch key := key.(type) {
		case string:
			inner, _ := v.(map[string]any)
			v = inner[key]
		case int:
			inner, _ := v.([]any)
			if key >= len(inner) {
				return nil
			}
			v = inner[key]
		}
	}
	return v
}

func (m manifest) text(keys ...any) string { return fmt.Sprint(m.at(keys...)) }

func (m manifest) list(keys ...any) (all []manifest) {
	list, _ := m.at(keys...).([]any)
	for _, v := range list {
		one, _ := v.(map[string]any)
		all = append(all, one)
	}
	return all
}

// manifests reads all of deploy/kubernetes, by kind and name.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	files, err := filepath.Glob(rig.DeployDir + "/kubernetes/*.yaml*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == "kustomization.yaml" })
	all := make(map[string]manifest)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		readManifests(t, file, data, all)
	}
	return all
}

// readManifests adds the manifests of a text by kind and name.
func readManifests(t *testing.T, file string, text []byte, to map[string]manifest) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var m map[string]any
		if err := decoder.Decode(&m); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		to[fmt.Sprint(m["kind"], "/", manifest(m).text("metadata", "name"))] = m
	}
}

// example reads a configuration as serve does, but for the files it names.
func example(t *testing.T, name, text string) *config.Config {
	t.Helper()
	c, err := config.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("%s has warnings: %v", name, c.Warnings)
	}
	return c
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// filesOf are all files that a configuration names.
func filesOf(c *config.Config) []string {
	all := []string{c.Keys, c.Journal.Keys, c.Results.TLS.Cert, c.Results.TLS.Key}
	if c.API.TLS != nil {
		all = append(all, c.API.TLS.Cert, c.API.TLS.Key)
	}
	for _, d := range c.Directories {
		all = append(all, d.ClientCert.Cert, d.ClientCert.Key, d.ServerCA.File, d.ClientCA.File)
	}
	return all
}

// rendered returns what the Helm chart makes of one of its examples, by kind and name, and the Secret that
// deploy/kubernetes has as an example. It is what testing/helm has rendered, for Helm is too large to be linked here.
func rendered(t *testing.T, file string) map[string]manifest {
	t.Helper()
	sum, err := difftest.SumFiles(os.DirFS(rig.DeployDir + "/helm"))
	rig.Must(t, err)
	text := rig.ReadFile(t, filepath.Join(rig.Root, "testing/helm/rendered", file))
	if first, _, _ := bytes.Cut(text, []byte("\n")); !bytes.HasSuffix(first, []byte(" "+sum)) {
		t.Fatalf("testing/helm/rendered/%s is of another chart: make update writes it again", file)
	}
	all := map[string]manifest{"Secret/threeds": manifests(t)["Secret/threeds"]}
	readManifests(t, file, text, all)
	return all
}

// TestKubernetes holds what the Helm chart makes of each of its examples against the program: ports, probes, the time
// to stop, files, rights, and who may come in. The manifests of deploy/kubernetes are what it makes of one of them.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"smallest.yaml", "postgres.yaml", "external-secrets.yaml"} {
		t.Run(file, func(t *testing.T) { checkManifests(t, rendered(t, file)) })
	}
}

// checkManifests holds the manifests of one server against each other, and against what the program takes.
func checkManifests(t *testing.T, all map[string]manifest) {
	for name, m := range all {
		if kind, _, _ := strings.Cut(name, "/"); !slices.Contains(
			[]string{"ConfigMap", "Secret", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "PersistentVolumeClaim"}, kind) ||
			m.at("metadata", "namespace") != nil {
			t.Errorf("%s: not something that belongs to whatever namespace it is put into", name)
		}
	}
	d := all["Deployment/threeds"]
	labels := d.at("spec", "template", "metadata", "labels")
	pod := manifest(d.at("spec", "template", "spec").(map[string]any))
	c := pod.list("containers")[0]
	text := all["ConfigMap/threeds"].text("data", "threeds.yaml")
	cfg := example(t, "threeds.yaml", text)

	listen := map[string]string{"api": port(t, cfg.API.Listen), "results": port(t, cfg.Results.Listen), "console": port(t, cfg.Console.Listen)}
	services, monitored := []string{"threeds-api", "threeds-results"}, "console"
	if cfg.Browser != nil {
		listen["browser"] = port(t, cfg.Browser.Listen)
		services = append(services, "threeds-browser")
	}
	if cfg.Console.MetricsListen != "" {
		listen["metrics"] = port(t, cfg.Console.MetricsListen)
		monitored = "metrics"
	}
	ports := make(map[string]string)
	for _, p := range c.list("ports") {
		ports[p.text("name")] = p.text("containerPort")
	}
	if !reflect.DeepEqual(ports, listen) {
		t.Errorf("the container has ports %v, the configuration listens on %v", ports, listen)
	}
	for _, name := range services {
		s := all["Service/"+name]
		if !reflect.DeepEqual(s.at("spec", "selector"), labels) || ports[s.text("spec", "ports", 0, "targetPort")] == "" ||
			"threeds-"+s.text("spec", "ports", 0, "targetPort") != name {
			t.Errorf("service %s leads nowhere", name)
		}
	}
	if want := "[serve --config /etc/threeds/config/threeds.yaml]"; c.text("args") != want {
		t.Errorf("arguments %v, want %s", c.at("args"), want)
	}
	handler := &console.Handler{Conditions: func() []console.Condition { return nil }, Metrics: http.NotFoundHandler()}
	for probe, want := range map[string]string{"readinessProbe": "/readyz", "livenessProbe": "/livez", "startupProbe": "/livez"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.text(probe, "httpGet", "path"), nil))
		if w.Code != 200 || c.text(probe, "httpGet", "path") != want || c.text(probe, "httpGet", "port") != monitored {
			t.Errorf("%s asks %v and gets %d", probe, c.at(probe, "httpGet"), w.Code)
		}
	}

	grace, err := time.ParseDuration(pod.text("terminationGracePeriodSeconds") + "s")
	if least := cfg.Timeouts.LameDuck + cfg.Timeouts.Shutdown + 5*time.Second; err != nil || grace < least {
		t.Errorf("terminationGracePeriodSeconds is %v, and the server may take %v", grace, least)
	}
	unready, err := time.ParseDuration(c.text("readinessProbe", "periodSeconds") + "s")
	if failures := c.text("readinessProbe", "failureThreshold"); err != nil || failures != "2" || cfg.Timeouts.LameDuck < 2*unready+5*time.Second {
		t.Errorf("lame_duck is %v, and it takes %s probes, %v apart, to be seen", cfg.Timeouts.LameDuck, failures, unready)
	}
	if cfg.Timeouts.Shutdown <= cfg.Timeouts.Authentication {
		t.Errorf("shutdown in %v, and an /auth takes up to %v", cfg.Timeouts.Shutdown, cfg.Timeouts.Authentication)
	}

	mounts := map[string]manifest{} // volumes by where they are
	for _, m := range c.list("volumeMounts") {
		if m.at("subPath") != nil {
			t.Errorf("%v is mounted by subPath: it would never change", m)
		}
		for _, v := range pod.list("volumes") {
			if v.text("name") == m.text("name") {
				mounts[m.text("mountPath")] = v
			}
		}
	}
	isMounted := func(file string) bool {
		v, ok := mounts[path.Dir(file)]
		if !ok || v.at("configMap") == nil && v.at("secret") == nil {
			return false
		}
		if name := v.text("secret", "secretName"); v.at("secret") != nil {
			data, isExample := all["Secret/"+name].at("stringData").(map[string]any)
			return !isExample || data[path.Base(file)] != nil
		}
		data, _ := all["ConfigMap/"+v.text("configMap", "name")].at("data").(map[string]any)
		return data[path.Base(file)] != nil
	}
	named := append(filesOf(cfg), "/etc/threeds/config/threeds.yaml")
	for _, m := range regexp.MustCompile(`(?:sslrootcert|passfile)=([^&"]+)`).FindAllStringSubmatch(text, -1) {
		named = append(named, m[1])
	}
	dir := cfg.Store.URL.Dir
	for _, file := range named {
		if isInStore := dir != "" && (file == "" || path.Dir(file) == dir); !isInStore && !isMounted(file) {
			t.Errorf("%s is named and not mounted", file)
		}
	}
	if n := len(named); n < 8 {
		t.Errorf("only %d files are named", n)
	}
	claim := mounts[path.Dir(dir)].text("persistentVolumeClaim", "claimName")
	if isThere := all["PersistentVolumeClaim/"+claim] != nil; isThere != (dir != "") {
		t.Errorf("the store is in %q, and it is %t that there is a volume for it, %q", dir, isThere, claim)
	}
	if want := map[bool]string{true: "RollingUpdate", false: "Recreate"}[dir == ""]; d.text("spec", "strategy", "type") != want {
		t.Errorf("the store is in %q: strategy %v, want %s", dir, d.at("spec", "strategy"), want)
	}

	for _, at := range [][]any{{"runAsNonRoot", true}, {"runAsUser", uint64(65532)}, {"fsGroup", uint64(65532)}} {
		if got := pod.at("securityContext", at[0]); got != at[1] {
			t.Errorf("%s is %v, want %v", at[0], got, at[1])
		}
	}
	for _, key := range []string{"readOnlyRootFilesystem", "allowPrivilegeEscalation"} {
		if got := c.at("securityContext", key); got != (key == "readOnlyRootFilesystem") {
			t.Errorf("%s is %v", key, got)
		}
	}
	if limit, soft := mebibytes(t, c.text("resources", "limits", "memory")), mebibytes(t, c.text("env", 0, "value")); c.text("env", 0, "name") != "GOMEMLIMIT" ||
		soft != limit*4/5 {
		t.Errorf("%v with %d MiB of memory, want four fifths of it", c.at("env", 0), limit)
	}
	selectors := []any{d.at("spec", "selector", "matchLabels"), all["NetworkPolicy/threeds"].at("spec", "podSelector", "matchLabels")}
	least, isMany := all["PodDisruptionBudget/threeds"], d.text("spec", "replicas") != "1"
	if isMany {
		if n, err := strconv.Atoi(d.text("spec", "replicas")); err != nil || least.text("spec", "minAvailable") != strconv.Itoa(n-1) {
			t.Errorf("%s of %s pods have to stay", least.text("spec", "minAvailable"), d.text("spec", "replicas"))
		}
		selectors = append(selectors, least.at("spec", "selector", "matchLabels"),
			pod.at("topologySpreadConstraints", 0, "labelSelector", "matchLabels"), pod.at("topologySpreadConstraints", 1, "labelSelector", "matchLabels"))
	}
	if !isMany && least != nil {
		t.Errorf("one node may never go: %v", least)
	}
	for _, selector := range selectors {
		if !reflect.DeepEqual(selector, labels) {
			t.Errorf("selector %v, the pods have %v", selector, labels)
		}
	}
	shut := maps.Clone(ports)
	if monitored == "metrics" {
		delete(shut, "console") // operators come by way of the node, with kubectl port-forward
	}
	for _, rule := range all["NetworkPolicy/threeds"].list("spec", "ingress") {
		if ports[rule.text("ports", 0, "port")] == "" {
			t.Errorf("the network policy lets in to %v", rule.at("ports"))
		}
		delete(shut, rule.text("ports", 0, "port"))
	}
	if len(shut) > 0 {
		t.Errorf("the network policy lets nobody in to %v", shut)
	}
}

// TestImageIsWhatKubernetesRuns holds what the image says of itself against the manifests of Kubernetes, which run it.
func TestImageIsWhatKubernetesRuns(t *testing.T) {
	t.Parallel()
	pod := manifest(manifests(t)["Deployment/threeds"].at("spec", "template", "spec").(map[string]any))
	listen := map[string]string{}
	for _, p := range pod.list("containers")[0].list("ports") {
		listen[p.text("name")] = p.text("containerPort")
	}
	image := readImage(t)
	if want := pod.text("securityContext", "runAsUser") + ":" + pod.text("securityContext", "runAsGroup"); image.User != want {
		t.Errorf("the image runs as %s, the pods as %s", image.User, want)
	}
	for name, number := range listen {
		if image.ExposedPorts[number+"/tcp"] == nil || len(image.ExposedPorts) != len(listen) {
			t.Errorf("the image has ports %v, and %s listens on %s", image.ExposedPorts, name, number)
		}
	}
}

// An imageSettings is what the image says of itself, see deploy/image.json.
type imageSettings struct {
	Entrypoint, Cmd []string
	User            string
	ExposedPorts    map[string]map[string]any
}

func readImage(t *testing.T) *imageSettings {
	t.Helper()
	settings := new(imageSettings)
	rig.Must(t, json.Unmarshal(rig.ReadFile(t, rig.DeployDir+"/image.json"), settings))
	return settings
}

// TestReleaseVersion: the version that goreleaser tells the linker is what the program says.
func TestReleaseVersion(t *testing.T) {
	t.Parallel()
	var m map[string]any
	rig.Must(t, yaml.Unmarshal(rig.ReadFile(t, "../../../.goreleaser.yaml"), &m))
	ldflags := strings.ReplaceAll(manifest(m).text("builds", 0, "ldflags", 0), "{{ .Version }}", "1.2.3-rc.1")
	binary := filepath.Join(t.TempDir(), "threeds")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags="+ldflags, "-o", binary, "./cmd/threeds")
	cmd.Dir, cmd.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary, "version").Output()
	if want := "threeds v1.2.3-rc.1, " + runtime.Version() + "\n"; err != nil || string(out) != want {
		t.Errorf("version says %q, %v, want %q", out, err, want)
	}
}

// TestSystemd holds the units against the example of a configuration, and asks
// systemd what it thinks of them.
func TestSystemd(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(rig.DeployDir + "/systemd/threeds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg := example(t, "/etc/threeds/threeds.yaml", string(text))
	unit := func(name string) map[string]string {
		data, err := os.ReadFile(rig.DeployDir + "/systemd/" + name)
		if err != nil {
			t.Fatal(err)
		}
		settings := make(map[string]string)
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
				settings[name] = value
			}
		}
		return settings
	}
	service := unit("threeds.service")
	var sockets []string
	for _, l := range [][2]string{{"api", cfg.API.Listen}, {"results", cfg.Results.Listen}, {"browser", cfg.Browser.Listen}, {"console", cfg.Console.Listen}} {
		name := "threeds-" + l[0] + ".socket"
		s := unit(name)
		sockets = append(sockets, name)
		if s["FileDescriptorName"] != l[0] || s["ListenStream"] != l[1] || s["Service"] != "threeds.service" {
			t.Errorf("%s: %v, the configuration has %s", name, s, l[1])
		}
	}
	if service["Sockets"] != strings.Join(sockets, " ") || service["Requires"] != service["Sockets"] {
		t.Errorf("the service has the sockets %s and needs %s", service["Sockets"], service["Requires"])
	}
	if stop, err := time.ParseDuration(service["TimeoutStopSec"]); err != nil || stop < cfg.Timeouts.LameDuck+cfg.Timeouts.Shutdown+5*time.Second {
		t.Errorf("TimeoutStopSec is %v, and the server may take %v and %v", stop, cfg.Timeouts.LameDuck, cfg.Timeouts.Shutdown)
	}
	if service["StateDirectory"] != filepath.Base(cfg.Store.URL.Dir) || !strings.HasPrefix(cfg.Store.URL.Dir, "/var/lib/") {
		t.Errorf("the store is in %s, the service may write into %s", cfg.Store.URL.Dir, service["StateDirectory"])
	}
	if want := "/usr/bin/threeds serve --config /etc/threeds/threeds.yaml"; service["ExecStart"] != want {
		t.Errorf("starts %s, want %s", service["ExecStart"], want)
	}

	analyze := rig.FindTool(t, "systemd-analyze", "what systemd itself says of the units")
	out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=15", rig.DeployDir+"/systemd/threeds.service").CombinedOutput()
	if err != nil {
		t.Errorf("exposed more than 1.5: %v\n%s", err, out)
	}
	dir := t.TempDir() // with a program that is there
	for _, name := range append(sockets, "threeds.service") {
		data, err := os.ReadFile(rig.DeployDir + "/systemd/" + name)
		if err != nil {
			t.Fatal(err)
		}
		rig.WriteFile(t, filepath.Join(dir, name), bytes.Replace(data, []byte("/usr/bin/threeds"), []byte("/bin/true"), 1))
	}
	if out, err := exec.Command(analyze, "verify", filepath.Join(dir, "threeds.service"),
		filepath.Join(dir, "threeds-api.socket")).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

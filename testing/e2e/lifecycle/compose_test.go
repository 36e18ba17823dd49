package lifecycle

import (
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// readDeployed reads a YAML file of deploy, without keys that are given twice.
func readDeployed(t *testing.T, name string) manifest {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal(rig.ReadFile(t, filepath.Join(rig.DeployDir, name)), &m); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

// TestDeployedMemoryLimitsFit: GOMEMLIMIT is four fifths of the memory that the process may have,
// wherever it is deployed.
func TestDeployedMemoryLimitsFit(t *testing.T) {
	unit := map[string]string{}
	for line := range strings.Lines(string(rig.ReadFile(t, filepath.Join(rig.DeployDir, "systemd/threeds.service")))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		unit[key] = value
	}
	compose := readDeployed(t, "compose.yaml")
	container := manifests(t)["Deployment/threeds"].list("spec", "template", "spec", "containers")[0]
	variable := ""
	for _, e := range container.list("env") {
		if e.text("name") == "GOMEMLIMIT" {
			variable = e.text("value")
		}
	}
	for name, is := range map[string][2]string{
		"systemd":    {unit["MemoryMax"], strings.TrimPrefix(unit["Environment"], "GOMEMLIMIT=")},
		"compose":    {compose.text("services", "server", "mem_limit"), compose.text("services", "server", "environment", "GOMEMLIMIT")},
		"Kubernetes": {container.text("resources", "limits", "memory"), variable},
	} {
		limit, soft := mebibytes(t, is[0]), mebibytes(t, is[1])
		if soft != limit*4/5 {
			t.Errorf("%s: GOMEMLIMIT is %s and the memory limit %s, want four fifths of it, %dMiB", name, is[1], is[0], limit*4/5)
		}
	}
}

// mebibytes reads a size as systemd, Docker, Kubernetes and Go write it. All of them mean powers of two here.
func mebibytes(t *testing.T, size string) int {
	t.Helper()
	digits := strings.TrimRight(size, "MGmgiB")
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Errorf("%q is no size", size)
	}
	if unit := strings.ToUpper(size[len(digits):]); strings.HasPrefix(unit, "G") {
		n *= 1024
	}
	return n
}

// texts are the items of a list, as text.
func (m manifest) texts(keys ...any) (all []string) {
	list, _ := m.at(keys...).([]any)
	for _, v := range list {
		all = append(all, fmt.Sprint(v))
	}
	return all
}

// TestKustomizationHasNoSecret: what kubectl applies, by -k or by the directory, has everything
// but a Secret.
func TestKustomizationHasNoSecret(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(rig.DeployDir + "/kubernetes/*.y*ml")
	rig.Must(t, err)
	var names []string
	for _, file := range files {
		if name := filepath.Base(file); name != "kustomization.yaml" && name != "rotate-keys-job.yaml" { // apply refuses that
			names = append(names, name)
		}
		if regexp.MustCompile(`(?m)^kind: Secret`).Match(rig.ReadFile(t, file)) {
			t.Errorf("%s would replace the secret of whoever applies it", file)
		}
	}
	k := readDeployed(t, "kubernetes/kustomization.yaml")
	if got := k.texts("resources"); !slices.Equal(got, names) || k.at("secretGenerator") != nil {
		t.Errorf("the kustomization has %v, want %v and no generated secret", got, names)
	}
}

// TestTemplatesOfferCurrentVersions: the examples of a configuration have no version that the
// schemes have ended, and serve warns of one.
func TestTemplatesOfferCurrentVersions(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"systemd":    string(rig.ReadFile(t, rig.DeployDir+"/systemd/threeds.yaml")),
		"kubernetes": manifests(t)["ConfigMap/threeds"].text("data", "threeds.yaml"),
		"compose":    string(rig.ReadFile(t, rig.DeployDir+"/compose/threeds.yaml")),
	}
	for name, text := range texts {
		c, err := config.Parse(name, []byte(text))
		rig.Must(t, err)
		for _, d := range c.Directories {
			if !slices.Equal(d.Versions, []string{"2.2.0", "2.3.1"}) {
				t.Errorf("%s: versions %v", name, d.Versions)
			}
		}
		c, err = config.Parse(name, []byte(strings.Replace(text, "[2.2.0, 2.3.1]", "[2.1.0, 2.2.0]", 1)))
		rig.Must(t, err)
		if !strings.Contains(fmt.Sprint(c.Warnings), "directories[0].versions: 2.1.0 ended") {
			t.Errorf("%s: no warning of 2.1.0 in %v", name, c.Warnings)
		}
	}
}

// TestComposeFitsTheProgram: names, ports, files and flags of the compose file are there.
func TestComposeFitsTheProgram(t *testing.T) {
	t.Parallel()
	compose := readDeployed(t, "compose.yaml")
	services, _ := compose.at("services").(map[string]any)
	for _, name := range []string{"sandbox", "server", "database", "prometheus", "grafana"} {
		if services[name] == nil {
			t.Errorf("there is no service %s", name)
		}
	}
	cfg := checkComposeServer(t, compose)
	_, console, _ := strings.Cut(cfg.Console.Listen, ":")
	prometheus := readDeployed(t, "compose/prometheus.yaml")
	if got := prometheus.text("scrape_configs", 0, "static_configs", 0, "targets", 0); got != "server:"+console {
		t.Errorf("Prometheus asks %s, want server:%s", got, console)
	}
	if got := prometheus.text("scrape_configs", 0, "job_name"); got != "threeds" {
		t.Errorf("the job is %s; the rules want threeds", got)
	}
	sources, providers := readDeployed(t, "compose/grafana/sources.yaml"), readDeployed(t, "compose/grafana/dashboards.yaml")
	if got := sources.text("datasources", 0, "url"); got != "http://prometheus:9090" {
		t.Errorf("Grafana reads %s", got)
	}
	dashboards := providers.text("providers", 0, "options", "path")
	for at, file := range map[string]string{
		"prometheus": prometheus.text("rule_files", 0), "grafana": dashboards,
		"server": "/etc/threeds/config/threeds.yaml",
	} {
		if !strings.Contains(fmt.Sprint(compose.at("services", at, "volumes")), ":"+file+":ro") {
			t.Errorf("%s lacks %s", at, file)
		}
	}
	checkComposeReferences(t, compose, services)
	checkComposeSandbox(t, compose)
}

// checkComposeReferences looks for the files, volumes, networks and secrets that services name.
func checkComposeReferences(t *testing.T, compose manifest, services map[string]any) {
	t.Helper()
	for name := range services {
		for _, volume := range compose.texts("services", name, "volumes") {
			source, _, _ := strings.Cut(volume, ":")
			_, isVolume := compose.at("volumes").(map[string]any)[source]
			_, err := os.Stat(filepath.Join(rig.DeployDir, source))
			if isSecret := source == "./compose/secret"; !isVolume && !isSecret && err != nil {
				t.Errorf("%s: %s is neither a volume nor a file", name, source)
			}
		}
		for _, kind := range []string{"networks", "secrets"} {
			for _, used := range compose.texts("services", name, kind) {
				if _, is := compose.at(kind).(map[string]any)[used]; !is && used != "default" {
					t.Errorf("%s: %s has no %s", name, kind, used)
				}
			}
		}
		needed, _ := compose.at("services", name, "depends_on").(map[string]any)
		for other := range needed {
			if services[other] == nil || compose.at("services", other, "healthcheck", "test") == nil {
				t.Errorf("%s waits for %s, which has no health check", name, other)
			}
		}
	}
	if !strings.Contains(string(rig.ReadFile(t, "../../../.gitignore")), "/deploy/compose/secret/") {
		t.Error("git does not ignore the secrets")
	}
}

// checkComposeServer holds the configuration of the server against the compose file.
func checkComposeServer(t *testing.T, compose manifest) *config.Config {
	t.Helper()
	cfg, err := config.Parse("threeds.yaml", rig.ReadFile(t, rig.DeployDir+"/compose/threeds.yaml"))
	rig.Must(t, err)
	database, err := url.Parse(cfg.Store.URL.Postgres)
	rig.Must(t, err)
	if database.Hostname() != "database" || database.User.Username() != compose.text("services", "database", "environment", "POSTGRES_USER") ||
		strings.TrimPrefix(database.Path, "/") != compose.text("services", "database", "environment", "POSTGRES_DB") ||
		!slices.Contains(compose.texts("services", "server", "networks"), "database") || compose.at("networks", "database", "internal") != true {
		t.Errorf("the server uses %s", database.Redacted())
	}
	if command := strings.Join(compose.texts("services", "server", "command"), " "); command != "serve --config /etc/threeds/config/threeds.yaml" {
		t.Errorf("the server is started with %s", command)
	}
	if check := compose.texts("services", "server", "healthcheck", "test"); len(check) != 5 || check[1] != readImage(t).Entrypoint[0] || check[2] != "health" {
		t.Errorf("the health of the server is asked with %v", check)
	}
	published := compose.texts("services", "server", "ports")
	for _, listen := range []string{cfg.API.Listen, cfg.Results.Listen, cfg.Browser.Listen, cfg.Console.Listen} {
		if !slices.ContainsFunc(published, func(p string) bool { return strings.HasSuffix(p, ":"+port(t, listen)) }) {
			t.Errorf("%s is not opened by %v", listen, published)
		}
	}
	for name, listen := range map[string]string{"browser": cfg.Browser.Listen, "console": cfg.Console.Listen} { // without TLS
		if !slices.Contains(published, "127.0.0.1:"+port(t, listen)+":"+port(t, listen)) {
			t.Errorf("%s is open to the outside: %v", name, published)
		}
	}
	for _, file := range append(filesOf(cfg), database.Query().Get("passfile")) {
		if filepath.Dir(file) != "/etc/threeds/secret" {
			t.Errorf("%s is not in the directory of secrets", file)
		}
	}
	return cfg
}

// checkComposeSandbox parses the command of the sandbox, which is that of the image, as the program does.
func checkComposeSandbox(t *testing.T, compose manifest) {
	t.Helper()
	image := readImage(t)
	if compose.at("services", "sandbox", "command") != nil || !slices.Equal(image.Entrypoint, []string{"/threeds"}) {
		t.Errorf("the sandbox has a command, and the image starts %v", image.Entrypoint)
	}
	command := image.Cmd
	flags := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	listen, public := flags.String("listen", "", ""), flags.String("public-url", "", "")
	if command[0] != "sandbox" || flags.Parse(command[1:]) != nil || flags.NArg() > 0 {
		t.Fatalf("the command of the sandbox is %v", command)
	}
	origin, err := playground.ParseOrigin(*public)
	rig.Must(t, err)
	if want := "127.0.0.1:" + port(t, strings.TrimPrefix(origin, "http://")) + ":" + port(t, *listen); compose.text("services", "sandbox", "ports", 0) != want {
		t.Errorf("the sandbox opens %v, want %s", compose.at("services", "sandbox", "ports"), want)
	}
	var out rig.LockedBuffer
	args := []string{"sandbox", "--listen", "127.0.0.1:0", "--public-url", origin, "--data", filepath.Join(t.TempDir(), "file", "x")}
	rig.Must(t, os.WriteFile(filepath.Dir(args[len(args)-1]), nil, 0o600))
	if code := rig.Run(t.Context(), args, strings.NewReader(""), &out, &out); code != 1 || !strings.Contains(out.String(), "not a directory") {
		t.Errorf("the flags are not those of the program: %d, %s", code, out.String())
	}
}

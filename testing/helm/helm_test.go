package helm

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/openthreeds/threeds/internal/base/difftest"
)

const root = "../.."

var update = flag.Bool("update", false, "write deploy/kubernetes again")

// examples are the files of values in the chart.
var examples = []string{"examples/smallest.yaml", "examples/postgres.yaml", "examples/external-secrets.yaml"}

// TestChartMakesObjectsOfKubernetes: each example, with the Job for a rotation where it may be, makes objects whose
// members Kubernetes knows, in exactly these letters.
func TestChartMakesObjectsOfKubernetes(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	reader := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	for _, file := range examples {
		kinds := map[string]int{}
		for _, object := range objects(t, file, map[string]any{"rotateKeys": !strings.Contains(file, "smallest")}) {
			_, kind, err := reader.Decode(object, nil, nil)
			if err != nil {
				t.Errorf("%s: %v\n%s", file, err, object)
				continue
			}
			kinds[kind.Kind]++
		}
		want := map[string]int{"ConfigMap": 1, "Deployment": 1, "NetworkPolicy": 1, "Service": 3, "PodDisruptionBudget": 1, "Job": 1}
		if strings.Contains(file, "smallest") {
			want = map[string]int{"ConfigMap": 1, "Deployment": 1, "NetworkPolicy": 1, "Service": 2, "PersistentVolumeClaim": 1}
		}
		if diff := difftest.Diff(want, kinds); diff != "" {
			t.Errorf("%s makes other objects than it should:\n%s", file, diff)
		}
	}
	if files, err := filepath.Glob(filepath.Join(root, Chart, "examples", "*")); err != nil || len(files) != len(examples) {
		t.Errorf("the chart has the examples %v, and %v are tested (%v)", files, examples, err)
	}
}

func objects(t *testing.T, file string, more map[string]any) [][]byte {
	t.Helper()
	made, err := Render(root, file, more)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Objects(made)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRenderedIsWhatTheChartMakes: the folder rendered has what the chart makes of each example, for tests that do not
// link Helm. The first line has the sum of the chart, so that they notice when it has changed since.
func TestRenderedIsWhatTheChartMakes(t *testing.T) {
	t.Parallel()
	sum, err := difftest.SumFiles(os.DirFS(filepath.Join(root, Chart)))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range examples {
		text := "# Made from deploy/helm by make update. Do not edit. SHA-256 of the chart: " + sum + "\n"
		for _, object := range objects(t, file, nil) {
			text += "---\n" + strings.TrimSuffix(string(object), "\n") + "\n"
		}
		file := filepath.Join("rendered", filepath.Base(file))
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if have, err := os.ReadFile(file); err != nil || string(have) != text {
			t.Errorf("%s is not what the chart makes (%v); make update writes it:\n%s", file, err, difftest.Diff(text, string(have)))
		}
	}
}

// TestKustomizeBaseIsWhatTheChartMakes: deploy/kubernetes, for those who do not use Helm, is the
// example for PostgreSQL.
func TestKustomizeBaseIsWhatTheChartMakes(t *testing.T) {
	t.Parallel()
	made, err := Render(root, "examples/postgres.yaml", map[string]any{"rotateKeys": true})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range made {
		file := filepath.Join(root, "deploy/kubernetes", name)
		text = "# Made from deploy/helm by make update. Do not edit.\n" + text
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if have, err := os.ReadFile(file); err != nil || string(have) != text {
			t.Errorf("%s is not what the chart makes (%v); make update writes it:\n%s", file, err, difftest.Diff(text, string(have)))
		}
	}
}

// TestChartRefuses: values that would make a server that nobody reaches, that loses requests when it is replaced, or
// that does not start, are refused with what would be right.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	config := func(file, old, text string) map[string]any {
		values, err := os.ReadFile(filepath.Join(root, Chart, file))
		if err != nil || !strings.Contains(string(values), old) {
			t.Fatalf("%s has no %q: %v", file, old, err)
		}
		_, config, _ := strings.Cut(strings.Replace(string(values), old, text, 1), "\nconfig: |\n")
		return map[string]any{"config": strings.ReplaceAll(config, "\n  ", "\n")[2:]}
	}
	const small, large = "examples/smallest.yaml", "examples/postgres.yaml"
	for _, tt := range []struct {
		file string
		more map[string]any
		want string
	}{
		{large, map[string]any{"config": ""}, "config: want the text of threeds.yaml"},
		{large, map[string]any{"config": "{"}, "config: no YAML"},
		{large, map[string]any{"replica": 3}, "replica"},
		{large, map[string]any{"replicas": 0}, "replicas"},
		{large, map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": "1G"}}}, "resources.limits.memory: want a number of Mi or Gi"},
		{large, config(large, `listen: ":8080"`, `listen: 127.0.0.1:8080`), "config: api.listen: want all addresses and a port"},
		{large, config(large, "lame_duck: 10s", "lame_duck: 9s"), "config: timeouts.lame_duck: want 10s or more"},
		{large, config(large, "shutdown: 20s", "shutdown: 1500ms"), "want whole seconds"},
		{small, map[string]any{"replicas": 2}, "replicas: want 1 with a store in files"},
		{small, config(small, "file:/var/lib/threeds/data", "file:threeds-data"), "config: store.url: want postgres"},
		{small, map[string]any{"rotateKeys": true}, "rotateKeys: with a store in files"},
	} {
		if _, err := Render(root, tt.file, tt.more); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s with %.60v: %v, want %q", tt.file, tt.more, err, tt.want)
		}
	}
}

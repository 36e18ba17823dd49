// Package helm renders the Helm chart of deploy/helm as Helm itself does. Use [Render], and [Objects] for what
// Kubernetes would be sent.
package helm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Chart is the folder of the chart, from the root of the repository.
const Chart = "deploy/helm"

// Render returns what the chart makes of a file of values, such as examples/postgres.yaml, and of further values that
// win over it: a text for each template that makes something, by name without folder. The release is called threeds.
// root is the root of the repository.
func Render(root, file string, more map[string]any) (map[string]string, error) {
	dir := filepath.Join(root, Chart)
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	if err := chart.Validate(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	values, err := chartutil.ReadValues(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	release := chartutil.ReleaseOptions{Name: "threeds", Namespace: "payments", IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(chart, chartutil.CoalesceTables(maps.Clone(more), values), release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	made := map[string]string{}
	for name, text := range rendered {
		if strings.TrimSpace(text) != "" && strings.HasSuffix(name, ".yaml") {
			made[path.Base(name)] = strings.TrimSpace(text) + "\n"
		}
	}
	return made, nil
}

// Objects returns the objects in what Render has made, each as YAML, in the order of their files.
func Objects(made map[string]string) (objects [][]byte, err error) {
	for _, name := range slices.Sorted(maps.Keys(made)) {
		for in := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(made[name]))); ; {
			object, err := in.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if len(bytes.TrimSpace(object)) > 0 {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

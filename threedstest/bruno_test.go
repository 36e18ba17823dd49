package threedstest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/threedstest"
)

// TestBrunoCollectionRuns sends the requests of docs/bruno to the sandbox, in the order in which Bruno sends them, and
// holds the answers against their assertions. The collection has each operation of the API once.
func TestBrunoCollectionRuns(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	shop := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer shop.Close()
	values := readBru(t, "../docs/bruno/environments/sandbox.bru").pairs("vars")
	for name, value := range map[string]string{"url": server.URL, "key": server.Key, "hook": shop.URL + "/hooks"} {
		if values[name] == "" {
			t.Errorf("the environment has no %s", name)
		}
		values[name] = value
	}
	files, err := filepath.Glob("../docs/bruno/*/[0-9]*.bru")
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	for _, file := range files {
		b := readBru(t, file)
		sent = append(sent, b.send(t, values))
	}
	var description struct {
		Paths map[string]map[string]any
	}
	text, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &description); err != nil {
		t.Fatal(err)
	}
	var want []string
	for at, methods := range description.Paths {
		for method := range methods {
			want = append(want, strings.ToUpper(method)+" "+at)
		}
	}
	slices.Sort(want)
	slices.Sort(sent)
	if !slices.Equal(sent, want) || len(want) < 20 {
		t.Errorf("the collection has\n%s\nand the API\n%s", strings.Join(sent, "\n"), strings.Join(want, "\n"))
	}
}

// A bru is a file of Bruno: its blocks by their names, without the indent.
type bru struct {
	file   string
	blocks map[string]string
}

func readBru(t *testing.T, file string) bru {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b := bru{file, map[string]string{}}
	for _, m := range regexp.MustCompile(`(?ms)^([a-z:-]+) \{\n(.*?)^\}$`).FindAllStringSubmatch(string(text), -1) {
		b.blocks[m[1]] = strings.ReplaceAll("\n"+m[2], "\n  ", "\n")
	}
	return b
}

// pairs returns the names and values of a block, without those that are switched off.
func (b bru) pairs(block string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(b.blocks[block]) {
		name, value, isPair := strings.Cut(strings.TrimSpace(line), ":")
		if isPair && !strings.HasPrefix(name, "~") {
			all[name] = strings.TrimSpace(value)
		}
	}
	return all
}

var (
	variable = regexp.MustCompile(`\{\{([^}]+)\}\}`)
	pathPart = regexp.MustCompile(`/:([a-z]+)`)
)

// send sends the request, checks its answer, and keeps what later requests want of it. It returns the operation.
func (b bru) send(t *testing.T, values map[string]string) (operation string) {
	t.Helper()
	fill := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(found string) string {
			name := found[2 : len(found)-2]
			if name == "$guid" {
				return uuid.New()
			}
			if values[name] == "" {
				t.Errorf("%s wants %s, which nothing has set", b.file, found)
			}
			return values[name]
		})
	}
	method, request := "", map[string]string{}
	for _, name := range []string{"get", "post", "patch", "delete"} {
		if _, isThere := b.blocks[name]; isThere {
			method, request = strings.ToUpper(name), b.pairs(name)
		}
	}
	address, isOurs := strings.CutPrefix(request["url"], "{{url}}")
	if !isOurs {
		t.Fatalf("%s: the URL %q does not begin with {{url}}", b.file, request["url"])
	}
	at, query, _ := strings.Cut(address, "?")
	operation = method + " " + pathPart.ReplaceAllString(at, "/{$1}")
	parts := b.pairs("params:path")
	at = pathPart.ReplaceAllStringFunc(at, func(part string) string { return "/" + parts[part[2:]] })
	r, err := http.NewRequestWithContext(t.Context(), method, fill(values["url"]+at+"?"+query), strings.NewReader(fill(b.blocks["body:json"])))
	if err != nil {
		t.Fatal(err)
	}
	if request["body"] == "json" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range b.pairs("headers") {
		r.Header.Set(name, fill(value))
	}
	switch request["auth"] {
	case "basic":
		r.SetBasicAuth(fill(b.pairs("auth:basic")["username"]), "")
	case "bearer":
		r.Header.Set("Authorization", "Bearer "+fill(b.pairs("auth:bearer")["token"]))
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer any
	_ = json.Unmarshal(text, &answer) // what has no body has no assertion about it
	find := func(path string) string {
		if path == "res.status" {
			return strconv.Itoa(res.StatusCode)
		}
		return member(answer, strings.TrimPrefix(path, "res.body."))
	}
	for path, want := range b.pairs("assert") {
		if want := strings.TrimPrefix(fill(want), "eq "); find(path) != want {
			t.Errorf("%s: %s is %q, want %q\n%s", b.file, path, find(path), want, text)
		}
	}
	if b.pairs("assert")["res.status"] == "" {
		t.Errorf("%s asserts no status", b.file)
	}
	for name, path := range b.pairs("vars:post-response") {
		values[name] = find(path)
	}
	return operation
}

// member returns the value at a path such as data[0].id, as a text; "" if there is none.
func member(value any, path string) string {
	for name := range strings.SplitSeq(strings.ReplaceAll(path, "[", ".["), ".") {
		if index, isIndex := strings.CutPrefix(name, "["); isIndex {
			all, _ := value.([]any)
			i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
			if err != nil || i >= len(all) {
				return ""
			}
			value = all[i]
			continue
		}
		object, _ := value.(map[string]any)
		value = object[name]
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// Licenses writes the licences of all modules that the program threeds is built from into the file that `threeds
// licenses` prints. Run it with
//
//	go generate ./...
//
// The program differs by platform, so the file has the modules of all that are built; the command prints those of its
// own build. The test holds the file fresh.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:generate go run . ../..

// output is the file that is written, within the module.
const output = "cmd/threeds/licenses.txt"

// headMark begins the line that names a module, its version and its licence. The texts follow the last of such lines.
const headMark = "@@ "

// platforms are those whose modules are in the file.
var platforms = []string{
	"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64", "freebsd/amd64", "freebsd/arm64",
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: licenses DIRECTORY-OF-THE-MODULE")
		os.Exit(2)
	}
	text, err := collect(os.Args[1])
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Args[1], output), []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// A module is one that the program is built from, with the directories of the packages that are in use.
type module struct {
	path, version, dir string
	packages           []string
}

// collect returns the content of the file. Modules whose texts are the same share them.
func collect(root string) (string, error) {
	modules, err := listModules(root)
	if err != nil {
		return "", err
	}
	heads, order := map[string][]string{}, []string{}
	for _, m := range modules {
		licence, text, err := m.licence()
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", m.path, m.version, err)
		}
		if heads[text] == nil {
			order = append(order, text)
		}
		heads[text] = append(heads[text], headMark+strings.Join([]string{m.path, m.version, licence}, " "))
	}
	var b strings.Builder
	for _, text := range order {
		fmt.Fprintf(&b, "%s\n%s\n", strings.Join(heads[text], "\n"), text)
	}
	return b.String(), nil
}

// listModules returns the program's own module, the standard library and all other modules of the program, by path.
func listModules(root string) ([]*module, error) {
	goroot, err := runGo(root, "", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	own, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	byPath := map[string]*module{"std": {path: "std", version: "-", dir: strings.TrimSpace(goroot)}}
	for _, platform := range platforms {
		const format = `{{with .Module}}{{.Path}}|{{if .Main}}-{{else}}{{.Version}}{{end}}|{{.Dir}}|{{$.Dir}}{{end}}`
		list, err := runGo(root, platform, "list", "-deps", "-f", format, "./cmd/threeds")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(list) {
			fields := strings.Split(strings.TrimSpace(line), "|")
			if len(fields) != 4 {
				continue // a package of the standard library
			}
			m := byPath[fields[0]]
			if m == nil {
				m = &module{path: fields[0], version: fields[1], dir: fields[2]}
				byPath[m.path] = m
			}
			if m.dir != own && !slices.Contains(m.packages, fields[3]) {
				m.packages = append(m.packages, fields[3])
			}
		}
	}
	var all []*module
	for _, m := range byPath {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *module) int { return cmp.Compare(a.path, b.path) })
	return all, nil
}

// runGo runs the go command for a platform; "" is that of this machine.
func runGo(root, platform string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if system, architecture, ok := strings.Cut(platform, "/"); ok {
		cmd.Env = append(cmd.Env, "GOOS="+system, "GOARCH="+architecture)
	}
	out, err := cmd.Output()
	return string(out), err
}

// licenceFile matches the names of files that a copy of a module's code has to come with.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licence returns the licences that a module's file LICENSE holds, by their SPDX ids, and the text of all such files of
// the module: in its root, and above the packages that are in use.
func (m *module) licence() (ids, text string, err error) {
	dirs := []string{m.dir}
	for _, dir := range m.packages {
		for ; len(dir) > len(m.dir); dir = filepath.Dir(dir) {
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.Sort(dirs)
	var texts []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", "", err
		}
		for _, entry := range entries {
			if entry.IsDir() || !licenceFile.MatchString(entry.Name()) {
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				return "", "", err
			}
			clean := strings.TrimSpace(strings.ReplaceAll(string(data), "\r\n", "\n"))
			if strings.HasPrefix(clean, headMark) || strings.Contains(clean, "\n"+headMark) {
				return "", "", fmt.Errorf("%s has a line that begins with %q", entry.Name(), headMark)
			}
			if dir == m.dir && ids == "" {
				ids = licencesIn(clean)
			}
			texts = append(texts, clean+"\n")
		}
	}
	if ids == "" {
		return "", "", errors.New("no licence that is known (add it to licencesIn)")
	}
	return ids, strings.Join(texts, "\n"), nil
}

// licencesIn returns the SPDX ids of the licences in a text, joined by AND.
func licencesIn(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	var ids []string
	add := func(id string, isThere bool) {
		if isThere {
			ids = append(ids, id)
		}
	}
	isBSD := strings.Contains(text, "Redistribution and use in source and binary forms")
	hasThirdClause := strings.Contains(text, "Neither the name") || strings.Contains(text, "The names of its contributors may not be used")
	add("Apache-2.0", strings.Contains(text, "Apache License") && strings.Contains(text, "Version 2.0"))
	add("BSD-2-Clause", isBSD && !hasThirdClause)
	add("BSD-3-Clause", isBSD && hasThirdClause)
	add("MIT", strings.Contains(text, "Permission is hereby granted, free of charge"))
	add("MPL-2.0", strings.Contains(text, "Mozilla Public License Version 2.0"))
	return strings.Join(ids, " AND ")
}

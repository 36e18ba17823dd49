// Npm writes the npm packages of a release as tarballs, from programs that were built before:
//
//	go run ./tools/npm -binaries dist -version 0.1.0 -out artifacts/npm
//
// It looks for files called threeds and threeds.exe in and below the folder of -binaries, and asks each of them for
// which platform it was built. It writes
//
//   - a package for each platform, such as @openthreeds/threeds-linux-x64, with the program alone,
//   - @openthreeds/threeds, which has all of those as optional dependencies, and the checker of messages that
//     tools/checker has built,
//   - @openthreeds/node and @openthreeds/browser, the clients for back ends and for pages.
//
// The same input gives the same bytes. Publish the packages of platforms first, then the others:
//
//	npm publish --access public artifacts/npm/openthreeds-threeds-linux-x64-0.1.0.tgz
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	binaries := flag.String("binaries", "", "`DIR` with the programs, in folders of any names")
	version := flag.String("version", "", "`VERSION` of the packages, such as 0.1.0")
	out := flag.String("out", "", "`DIR` for the tarballs")
	root := flag.String("root", ".", "`DIR` of the repository")
	checker := flag.String("checker", "internal/edge/docsite/checker", "`DIR` with the checker that go run ./tools/checker has built")
	flag.Parse()
	if *binaries == "" || *version == "" || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	written, err := packRelease(*root, *checker, *binaries, *version, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "npm:", err)
		os.Exit(1)
	}
	for _, file := range written {
		fmt.Println(file)
	}
}

// mainPackage is the path of the package that threeds is built from.
const mainPackage = "github.com/openthreeds/threeds/cmd/threeds"

// systems and processors are the names that Node has for those of Go.
var (
	systems = map[string]string{
		"linux": "linux", "darwin": "darwin", "windows": "win32", "freebsd": "freebsd", "netbsd": "netbsd", "openbsd": "openbsd",
	}
	processors = map[string]string{
		"amd64": "x64", "arm64": "arm64", "386": "ia32", "riscv64": "riscv64", "ppc64le": "ppc64", "s390x": "s390x", "loong64": "loong64",
	}
)

// versionForm is a version of npm, such as 0.1.0 or 0.1.0-rc.1.
var versionForm = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

// A program is a binary of threeds and the platform that it is for, in Node's words.
type program struct {
	path            string
	system, machine string
}

// name returns the name of the package of a program.
func (p program) name() string { return "@openthreeds/threeds-" + p.system + "-" + p.machine }

// packRelease writes the tarballs of a release and returns their paths. The packages that others depend on come first.
func packRelease(root, checker, binaries, version, out string) ([]string, error) {
	if !versionForm.MatchString(version) {
		return nil, fmt.Errorf("-version %s: want three numbers, such as 0.1.0 or 0.1.0-rc.1, without a v", version)
	}
	programs, err := findPrograms(binaries)
	if err != nil {
		return nil, err
	}
	licence, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	optional := map[string]any{}
	for _, program := range programs {
		optional[program.name()] = version
	}
	var others []*packed
	for _, dir := range []string{"web/npm", "web/node", "web"} {
		p, err := packFolder(filepath.Join(root, filepath.FromSlash(dir)), version)
		if err == nil && dir == "web/npm" {
			p.manifest["optionalDependencies"] = optional
			err = p.addChecker(root, checker)
		}
		if err != nil {
			return nil, err
		}
		others = append(others, p)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	var written []string
	write := func(p *packed) error {
		path, err := p.writeTo(out, version)
		written = append(written, path)
		return err
	}
	for _, program := range programs {
		p, err := packProgram(program, version, licence)
		if err != nil {
			return nil, err
		}
		if err := write(p); err != nil {
			return nil, err
		}
	}
	for _, p := range others {
		if err := write(p); err != nil {
			return nil, err
		}
	}
	slices.Sort(written[len(programs):])
	return written, nil
}

// findPrograms finds the programs in and below a folder, one for each platform, in the order of their packages.
func findPrograms(dir string) ([]program, error) {
	found := map[string]program{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() != "threeds" && d.Name() != "threeds.exe" {
			return err
		}
		p, err := readProgram(path)
		if err != nil {
			return err
		}
		if other, isTwice := found[p.name()]; isTwice {
			return fmt.Errorf("%s and %s are for the same platform, %s %s: want one of them", other.path, path, p.system, p.machine)
		}
		found[p.name()] = p
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no program: want files called threeds or threeds.exe in it, or in folders of it", dir)
	}
	var programs []program
	for _, name := range slices.Sorted(maps.Keys(found)) {
		programs = append(programs, found[name])
	}
	return programs, nil
}

// readProgram reads in a binary for which platform it was built.
func readProgram(path string) (program, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return program{}, fmt.Errorf("%s: no program that Go built: %w", path, err)
	}
	if info.Path != mainPackage {
		return program{}, fmt.Errorf("%s is built from %s, want %s", path, info.Path, mainPackage)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	p := program{path, systems[settings["GOOS"]], processors[settings["GOARCH"]]}
	if p.system == "" || p.machine == "" {
		return program{}, fmt.Errorf("%s is for %s/%s, for which Node has no name that is known here", path, settings["GOOS"], settings["GOARCH"])
	}
	return p, nil
}

// A packed package is what goes into one tarball.
type packed struct {
	manifest map[string]any // package.json
	files    map[string][]byte
	programs []string // those of files that are executable
}

// packProgram makes the package of one platform.
func packProgram(p program, version string, licence []byte) (*packed, error) {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	file := "bin/" + filepath.Base(p.path)
	readme := fmt.Sprintf("# %s\n\nThe program of [threeds](https://github.com/openthreeds/threeds) for %s %s. Install "+
		"`@openthreeds/threeds`, which depends on it.\n", p.name(), p.system, p.machine)
	return &packed{
		manifest: map[string]any{
			"name": p.name(), "version": version, "license": "Apache-2.0",
			"description":     fmt.Sprintf("The program of threeds, an EMV 3-D Secure server, for %s %s", p.system, p.machine),
			"homepage":        "https://github.com/openthreeds/threeds",
			"repository":      map[string]any{"type": "git", "url": "git+https://github.com/openthreeds/threeds.git"},
			"os":              []string{p.system},
			"cpu":             []string{p.machine},
			"files":           []string{file},
			"preferUnplugged": true, // Yarn keeps a package in an archive otherwise, where nothing can run.
			"engines":         map[string]any{"node": ">=18.17"},
		},
		files:    map[string][]byte{file: binary, "README.md": []byte(readme), "LICENSE": licence},
		programs: []string{file},
	}, nil
}

// packFolder makes the package of a folder with a package.json, with the files that it names.
func packFolder(dir, version string) (*packed, error) {
	data, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return nil, err
	}
	var listed struct {
		Files   []string
		Bin     map[string]string
		Exports json.RawMessage
	}
	p := &packed{files: map[string][]byte{}}
	if err := errors.Join(json.Unmarshal(data, &listed), json.Unmarshal(data, &p.manifest)); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "package.json"), err)
	}
	p.manifest["version"] = version
	if listed.Exports != nil {
		p.manifest["exports"] = listed.Exports // the first condition that fits counts, so their order stays
	}
	p.programs = slices.Collect(maps.Values(listed.Bin))
	for _, file := range append(listed.Files, "README.md", "LICENSE") {
		if p.files[file], err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(file))); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// addChecker adds the checker of messages, which is in no folder of sources: the program, the script of Go that starts
// it, and the licences of what is in it.
func (p *packed) addChecker(root, dir string) error {
	packedProgram, err := os.Open(filepath.Join(dir, "checker.wasm.gz"))
	if err != nil {
		return fmt.Errorf("there is no checker of messages: go run ./tools/checker builds it: %w", err)
	}
	defer packedProgram.Close()
	unpacked, err := gzip.NewReader(packedProgram)
	if err != nil {
		return err
	}
	names := []string{"checker.wasm", "wasm_exec.js", "LICENSES-OF-MODULES.txt"}
	for i, read := range []func() ([]byte, error){
		func() ([]byte, error) { return io.ReadAll(unpacked) },
		func() ([]byte, error) { return os.ReadFile(filepath.Join(dir, "wasm_exec.js")) },
		func() ([]byte, error) { return os.ReadFile(filepath.Join(root, "cmd/threeds/licenses.txt")) },
	} {
		if p.files[names[i]], err = read(); err != nil {
			return err
		}
	}
	files, _ := p.manifest["files"].([]any)
	for _, name := range names {
		files = append(files, name)
	}
	p.manifest["files"] = files
	return nil
}

// packedAt is the time of each file in a tarball. It is the one that npm pack writes.
var packedAt = time.Date(1985, 10, 26, 8, 15, 0, 0, time.UTC)

// writeTo writes the tarball into a folder and returns its path.
func (p *packed) writeTo(dir, version string) (string, error) {
	manifest, err := json.MarshalIndent(p.manifest, "", "  ")
	if err != nil {
		return "", err
	}
	files := maps.Clone(p.files)
	files["package.json"] = append(manifest, '\n')
	var tarball bytes.Buffer
	zip := gzip.NewWriter(&tarball)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: "package/" + name, Size: int64(len(files[name])), Mode: 0o644, ModTime: packedAt, Format: tar.FormatUSTAR,
		}
		if slices.Contains(p.programs, name) {
			header.Mode = 0o755
		}
		if err := archive.WriteHeader(header); err != nil {
			return "", err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return "", err
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return "", err
	}
	name := strings.NewReplacer("@", "", "/", "-").Replace(fmt.Sprint(p.manifest["name"]))
	path := filepath.Join(dir, name+"-"+version+".tgz")
	return path, os.WriteFile(path, tarball.Bytes(), 0o644)
}

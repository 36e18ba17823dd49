package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// tryArchives unpacks each archive, looks at its binary, and uses that of this machine.
func tryArchives(ctx context.Context, t *trial) error {
	binaries, err := readBinaries(t.root)
	if err != nil {
		return err
	}
	for _, b := range binaries {
		name := "threeds_" + t.rev.version + "_" + b.platform()
		dir := filepath.Join(t.work, "unpacked", name)
		archive, program := name+".tar.gz", filepath.Join(dir, name, "threeds")
		unpack := []string{"tar", "--extract", "--gzip", "--directory", filepath.Dir(filepath.Dir(program)), "--file"}
		if b.GOOS == "windows" {
			archive, program = name+".zip", program+".exe"
			unpack = []string{"python3", "-m", "zipfile", "--extract"}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		args := append(unpack[1:], t.release(archive))
		if b.GOOS == "windows" {
			args = append(args, dir)
		}
		_, err := output(ctx, t.work, nil, unpack[0], args...)
		if err == nil {
			err = errors.Join(t.lookAtArchive(archive, filepath.Dir(program)), t.lookAtBinary(program, &b))
		}
		t.add(archive, "unpacked; files, size, build, static, stripped", err)
		if b.GOOS == runtime.GOOS && b.GOARCH == runtime.GOARCH {
			t.add(archive, "threeds version, licenses, sandbox's help", t.useBinary(ctx, program))
			t.add(archive, "the site that it exports has the checker that was built", t.exportSite(ctx, program))
			t.add(archive, "completion in bash", tryCompletion(ctx, filepath.Dir(program)))
			t.add(archive, "manual pages rendered", tryManual(ctx, filepath.Dir(program)))
		}
	}
	return nil
}

// lookAtArchive looks for the files that each archive has.
func (t *trial) lookAtArchive(archive, dir string) error {
	info, err := os.Stat(t.release(archive))
	if err != nil {
		return err
	}
	errs := []error{atMost(info.Size(), mostPacked)}
	for _, name := range []string{
		"LICENSE", "LICENSES-OF-MODULES.txt", "completions/threeds.bash", "completions/_threeds", "completions/threeds.fish",
		"completions/threeds.ps1", "man/threeds.1", "man/threeds-serve.1",
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			errs = append(errs, fmt.Errorf("has no %s", name))
		}
	}
	return errors.Join(errs...)
}

// lookAtBinary holds a binary against what was promised: its platform, commit, size, and what it must not have.
func (t *trial) lookAtBinary(path string, b *binary) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(text))
	if err != nil {
		return err
	}
	errs := []error{atMost(int64(len(text)), mostBinary)}
	want := map[string]string{
		"GOOS": b.GOOS, "GOARCH": b.GOARCH, "CGO_ENABLED": "0", "-trimpath": "true", "vcs.revision": t.rev.commit,
		"vcs.modified": "false", "vcs.time": t.rev.date.Format(time.RFC3339),
	}
	for _, s := range info.Settings {
		if w, ok := want[s.Key]; ok && w == s.Value {
			delete(want, s.Key)
		}
	}
	if info.GoVersion != toolchain {
		errs = append(errs, fmt.Errorf("was built with %s, want %s", info.GoVersion, toolchain))
	}
	for key, value := range want {
		errs = append(errs, fmt.Errorf("was not built with %s=%s", key, value))
	}
	if bytes.Contains(text, []byte(t.work)) {
		errs = append(errs, errors.New("has the path of the folder in which it was built"))
	}
	sections, isStatic, err := readSections(text, b.GOOS)
	if err != nil || !isStatic {
		errs = append(errs, fmt.Errorf("is not static: %w", err))
	}
	for _, s := range sections {
		if s == ".symtab" || strings.HasPrefix(strings.TrimLeft(s, "._"), "debug") || strings.HasPrefix(strings.TrimLeft(s, "._"), "zdebug") {
			errs = append(errs, fmt.Errorf("is not stripped: it has the section %s", s))
		}
	}
	return errors.Join(errs...)
}

// readSections returns the names of the sections of a program, and whether it needs no loader of the system. On macOS
// and Windows every program has one.
func readSections(text []byte, system string) (names []string, isStatic bool, err error) {
	switch system {
	case "darwin":
		f, err := macho.NewFile(bytes.NewReader(text))
		if err != nil {
			return nil, false, err
		}
		for _, s := range f.Sections {
			names = append(names, s.Name)
		}
		return names, true, nil
	case "windows":
		f, err := pe.NewFile(bytes.NewReader(text))
		if err != nil {
			return nil, false, err
		}
		for _, s := range f.Sections {
			if s.Name != ".symtab" || f.NumberOfSymbols > 0 { // the linker writes the section also without a symbol
				names = append(names, s.Name)
			}
		}
		return names, true, nil
	}
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return nil, false, err
	}
	for _, s := range f.Sections {
		names = append(names, s.Name)
	}
	isStatic = !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC })
	return names, isStatic, nil
}

// useBinary asks the program of this machine which build it is, and for the licences of its modules.
func (t *trial) useBinary(ctx context.Context, program string) error {
	text, err := output(ctx, t.work, nil, program, "version", "--json")
	if err != nil {
		return err
	}
	var is struct {
		Version, Commit string
		Date            time.Time
		Modified        bool
	}
	if err := json.Unmarshal([]byte(text), &is); err != nil {
		return err
	}
	if is.Version != "v"+t.rev.version || is.Commit != t.rev.commit || !is.Date.Equal(t.rev.date) || is.Modified {
		return fmt.Errorf("says that it is %s", text)
	}
	licences, err := output(ctx, t.work, nil, program, "licenses")
	if err == nil && !strings.Contains(licences, "modernc.org/sqlite") {
		err = errors.New("threeds licenses does not name all modules")
	}
	if err == nil {
		_, err = output(ctx, t.work, nil, program, "sandbox", "--help")
	}
	return err
}

// exportSite exports the documentation of a program, and looks for the checker of messages in it.
func (t *trial) exportSite(ctx context.Context, program string) (err error) {
	dir, err := os.MkdirTemp(t.work, "site-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := output(ctx, t.work, nil, program, "docs", "export", dir); err != nil {
		return err
	}
	for _, name := range []string{"checker.wasm.gz", "wasm_exec.js"} {
		built, err := os.ReadFile(filepath.Join(t.root, checkerDir, name))
		if err != nil {
			return err
		}
		if exported, err := os.ReadFile(filepath.Join(dir, "assets", name)); err != nil || !bytes.Equal(exported, built) {
			return fmt.Errorf("assets/%s is not the one that tools/checker has built: %w", name, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "check.html"))
	if err == nil && !bytes.Contains(page, []byte(`<form id="checker"`)) {
		err = errors.New("check.html has no form")
	}
	return err
}

// tryCompletion completes a command line as bash does when TAB is pressed.
func tryCompletion(ctx context.Context, dir string) error {
	words, err := output(ctx, dir, nil, "bash", "--norc", "-c",
		`source completions/threeds.bash; COMP_WORDS=(threeds sand); COMP_CWORD=1; _threeds; echo "${COMPREPLY[@]}"`)
	if err == nil && words != "sandbox" {
		err = fmt.Errorf("sand is completed to %q, want sandbox", words)
	}
	return err
}

// tryManual renders each manual page, without a warning.
func tryManual(ctx context.Context, dir string) error {
	pages, err := filepath.Glob(filepath.Join(dir, "man", "*.1"))
	if err != nil {
		return err
	}
	if len(pages) < 10 {
		return fmt.Errorf("there are %d", len(pages))
	}
	for _, page := range pages {
		text, err := output(ctx, dir, nil, "sh", "-c", `MANWIDTH=80 man --warnings --local-file "$1" 2>&1`, "sh", page)
		if err != nil {
			return err
		}
		if !strings.Contains(text, "NAME") || strings.Contains(text, "warning:") {
			return fmt.Errorf("%s is rendered as %.200s", filepath.Base(page), text)
		}
	}
	return nil
}

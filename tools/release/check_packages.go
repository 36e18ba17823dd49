package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unpackers are shell scripts that unpack the package $1 into the working directory, by the end of its name.
var unpackers = map[string]string{
	"deb": `dpkg-deb --extract "$1" .`,
	"rpm": `rpm2cpio "$1" | cpio --extract --make-directories --no-absolute-filenames --preserve-modification-time --quiet 2>/dev/null`,
	"apk": `tar --extract --gzip --warning=no-unknown-keyword --file "$1"`,
}

// packageNames returns the names of the packages for a processor, by their kinds.
func packageNames(version, architecture string) map[string]string {
	other := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[architecture]
	return map[string]string{
		"deb": "threeds_" + version + "_" + architecture + ".deb",
		"rpm": "threeds-" + version + "-1." + other + ".rpm",
		"apk": "threeds_" + version + "_" + other + ".apk",
	}
}

// tryPackages unpacks each package. All have the same files, except for the folders in which zsh looks, and the
// binary of the archive.
func tryPackages(ctx context.Context, t *trial) error {
	binaries, err := readBinaries(t.root)
	if err != nil {
		return err
	}
	for _, b := range binaries {
		if b.GOOS != "linux" {
			continue
		}
		program, err := sumFile(b.Path)
		if err != nil {
			return err
		}
		var first map[string]string
		names := packageNames(t.rev.version, b.GOARCH)
		for _, kind := range []string{"deb", "rpm", "apk"} {
			dir := filepath.Join(t.work, "unpacked", names[kind])
			files, err := unpackPackage(ctx, t, kind, names[kind], dir)
			if err == nil {
				err = lookAtPackage(files, program)
			}
			if first == nil {
				first = files
			}
			for path, sum := range files {
				if err == nil && first[path] != sum {
					err = fmt.Errorf("%s is not that of the deb", path)
				}
			}
			if info, statErr := os.Stat(t.release(names[kind])); statErr == nil {
				err = errors.Join(err, atMost(info.Size(), mostPacked))
			}
			t.add(names[kind], "unpacked; files and size, the binary that of the archive", err)
		}
		text, err := output(ctx, t.work, nil, "rpm", "--query", "--package", "--info", "--requires", "--scripts", "--configfiles",
			t.release(names["rpm"]))
		for _, want := range []string{"preinstall", "postinstall", "preuninstall", "postuninstall", "/etc/threeds/threeds.yaml", "/usr/sbin/useradd"} {
			if err == nil && !strings.Contains(text, want) {
				err = fmt.Errorf("rpm --query does not show %s", want)
			}
		}
		t.add(names["rpm"], "asked for requirements, scripts, configuration", err)
	}
	return nil
}

// unpackPackage unpacks a package and returns the sums of its files, by path. What only describes the package, and the
// completion for zsh, are left out.
func unpackPackage(ctx context.Context, t *trial, kind, name, dir string) (map[string]string, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if _, err := output(ctx, dir, nil, "sh", "-c", unpackers[kind], "sh", t.release(name)); err != nil {
		return nil, err
	}
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		inside := strings.TrimPrefix(path, dir)
		if err != nil || entry.IsDir() || strings.HasPrefix(inside, "/.") || strings.Contains(inside, "/zsh/") {
			return err
		}
		files[inside], err = sumFile(path)
		return err
	})
	return files, err
}

// lookAtPackage looks for what each package has to have.
func lookAtPackage(files map[string]string, program string) error {
	var errs []error
	for _, path := range []string{
		"/etc/threeds/threeds.yaml", "/usr/lib/systemd/system/threeds.service", "/usr/lib/systemd/system/threeds-api.socket",
		"/usr/lib/systemd/system/threeds-results.socket", "/usr/lib/systemd/system/threeds-browser.socket",
		"/usr/lib/systemd/system/threeds-console.socket", "/usr/lib/sysusers.d/threeds.conf", "/usr/share/doc/threeds/copyright",
		"/usr/share/doc/threeds/LICENSES-OF-MODULES.txt", "/usr/share/bash-completion/completions/threeds",
		"/usr/share/fish/vendor_completions.d/threeds.fish", "/usr/share/man/man1/threeds.1.gz", "/usr/share/man/man1/threeds-serve.1.gz",
	} {
		if files[path] == "" {
			errs = append(errs, fmt.Errorf("has no %s", path))
		}
	}
	if files["/usr/bin/threeds"] != program {
		errs = append(errs, errors.New("/usr/bin/threeds is not the binary that was built"))
	}
	return errors.Join(errs...)
}

// tryChart renders the chart with each of its examples. Kubernetes has to know what comes out.
func tryChart(ctx context.Context, t *trial) error {
	_, err := output(ctx, t.root, nil, "go", "-C", "testing/helm", "test", "-count=1", ".")
	t.add("deploy/helm", "rendered with three files of values; the objects are valid, and wrong values refused", err)
	return nil
}

// tryBills looks into the bills of materials, and lets sha256sum check the sums.
func tryBills(ctx context.Context, t *trial) error {
	bills, err := filepath.Glob(t.release("*.cdx.json"))
	if err != nil {
		return err
	}
	binaries, err := readBinaries(t.root)
	if err != nil {
		return err
	}
	if len(bills) != len(binaries) {
		t.add("*.cdx.json", "one for each platform", fmt.Errorf("there are %d bills and %d platforms", len(bills), len(binaries)))
	}
	for _, bill := range bills {
		text, err := os.ReadFile(bill)
		if err != nil {
			return err
		}
		var is struct {
			BOMFormat  string `json:"bomFormat"`
			Components []struct{ Name, Version, PURL string }
		}
		err = json.Unmarshal(text, &is)
		if err == nil && (is.BOMFormat != "CycloneDX" || len(is.Components) < 20) {
			err = fmt.Errorf("is %s with %d components", is.BOMFormat, len(is.Components))
		}
		t.add(filepath.Base(bill), "CycloneDX, names each module of the binary", err)
	}
	_, err = output(ctx, filepath.Join(t.root, releaseDir), nil, "sha256sum", "--check", "--strict", "--quiet", sumsFile)
	if err == nil {
		sums, readErr := os.ReadFile(t.release(sumsFile))
		entries, dirErr := os.ReadDir(filepath.Join(t.root, releaseDir))
		err = errors.Join(readErr, dirErr)
		for _, e := range entries {
			if e.Name() != sumsFile && !slices.Contains(strings.Fields(string(sums)), e.Name()) {
				err = errors.Join(err, fmt.Errorf("has no line for %s", e.Name()))
			}
		}
	}
	t.add(sumsFile, "sha256sum --check; has all files", err)
	return nil
}

// trySources looks for known vulnerabilities, and whether the licences are those of the modules.
func trySources(ctx context.Context, t *trial) error {
	_, err := output(ctx, t.root, nil, "make", "vulnerabilities")
	t.add("source", "known vulnerabilities", err)
	_, err = output(ctx, t.root, nil, "go", "test", "./tools/licenses")
	t.add("source", "licences of all modules", err)
	return nil
}

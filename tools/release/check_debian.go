package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// checkUnit runs the trial inside of Debian when it has started, and ends the system then.
const checkUnit = `[Unit]
Description=Trial of the packages
After=multi-user.target

[Service]
Type=oneshot
TimeoutStartSec=15min
ExecStart=/trial/release inside packages
StandardOutput=append:/trial/log
StandardError=append:/trial/log
ExecStopPost=/bin/systemctl --no-block poweroff

[Install]
WantedBy=multi-user.target
`

// An insideRow is a row as a trial inside of another root reports it.
type insideRow struct {
	Tried, Fault string
	Took         time.Duration
}

// tryDebian installs, upgrades and removes the package in Debian systems: one in which systemd does not run,
// and one that is booted.
func tryDebian(ctx context.Context, t *trial) error {
	name := packageNames(t.rev.version, runtime.GOARCH)["deb"]
	earlier := filepath.Join(t.work, "earlier", releaseDir, packageNames(earlierVersion, runtime.GOARCH)["deb"])
	if err := t.makeDebian(ctx); err != nil {
		return err
	}
	t.add(name, "installed, removed, purged where systemd does not run", t.installWithoutSystemd(ctx, name))

	root := filepath.Join(t.work, "debian")
	if err := t.copyDebian(ctx, root); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	for from, to := range map[string]string{program: "release", earlier: "earlier.deb", t.release(name): "new.deb"} {
		if err := copyFile(from, filepath.Join(root, "trial", to)); err != nil {
			return err
		}
	}
	units := filepath.Join(root, "etc/systemd/system")
	if err := os.WriteFile(filepath.Join(units, "trial.service"), []byte(checkUnit), 0o644); err != nil {
		return err
	}
	wanted := filepath.Join(units, "multi-user.target.wants")
	if err := errors.Join(os.MkdirAll(wanted, 0o755), os.Symlink("../trial.service", filepath.Join(wanted, "trial.service"))); err != nil {
		return err
	}
	_, bootErr := output(ctx, t.work, nil, "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network",
		"--console=pipe", "--boot", "--directory", root)
	// systemd-nspawn fails at tidying up on some machines, after all has been done.
	return t.addInside(name, filepath.Join(root, "trial"), bootErr)
}

// addInside adds the rows that a trial inside of another root has written into a folder.
func (t *trial) addInside(artefact, dir string, ended error) error {
	text, err := os.ReadFile(filepath.Join(dir, rowsFile))
	var rows []insideRow
	if err == nil {
		err = json.Unmarshal(text, &rows)
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		return fmt.Errorf("the trial inside did not end: %w\n%w\n%s", err, ended, log)
	}
	for _, r := range rows {
		var fault error
		if r.Fault != "" {
			fault = errors.New(r.Fault)
		}
		t.add(artefact, r.Tried, fault)
		t.rows[len(t.rows)-1].took = r.Took
	}
	return nil
}

// makeDebian makes a small Debian with systemd, once.
func (t *trial) makeDebian(ctx context.Context) error {
	t.debian = filepath.Join(t.work, "bookworm")
	if _, err := os.Stat(filepath.Join(t.debian, "usr/bin/systemctl")); err == nil {
		return nil
	}
	if err := os.RemoveAll(t.debian); err != nil {
		return err
	}
	_, err := output(ctx, t.work, nil, "debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,procps", "bookworm", t.debian)
	return err
}

func (t *trial) copyDebian(ctx context.Context, root string) error {
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	_, err := output(ctx, t.work, nil, "cp", "--archive", t.debian, root)
	return err
}

// installWithoutSystemd installs the package in a root in which no systemd runs, as a container image is made.
func (t *trial) installWithoutSystemd(ctx context.Context, name string) error {
	root := filepath.Join(t.work, "quiet")
	if err := t.copyDebian(ctx, root); err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := copyFile(t.release(name), filepath.Join(root, "new.deb")); err != nil {
		return err
	}
	script := `set -e
dpkg --install /new.deb
test "$(threeds version | cut -d, -f1)" = "threeds v` + t.rev.version + `"
test "$(stat -c %U:%G:%a /var/lib/threeds)" = threeds:threeds:700
touch /var/lib/threeds/kept
dpkg --remove threeds
test -e /var/lib/threeds/kept
test -e /etc/threeds/threeds.yaml
dpkg --purge threeds
test ! -e /var/lib/threeds
test ! -e /etc/threeds
`
	text, err := output(ctx, root, []string{"DEBIAN_FRONTEND=noninteractive"}, "chroot", root, "sh", "-xc", script)
	if err == nil && !strings.Contains(text, "does not run yet") {
		err = errors.New("the installation does not say what to do next")
	}
	return err
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// insideCommand is the command of a copy of this program that runs inside of another root.
const insideCommand = "inside"

// rowsFile has the rows of a trial inside of another root, as JSON.
const rowsFile = "rows.json"

const trialDir = "/trial"

var units = []string{
	"threeds-api.socket", "threeds-results.socket", "threeds-browser.socket", "threeds-console.socket", "threeds.service",
}

// tryInside tries what its argument says, and writes the rows.
func tryInside(ctx context.Context) error {
	var rows []insideRow
	dir := trialDir
	steps := packageSteps
	if len(os.Args) > 3 && os.Args[2] == "image" {
		dir, steps = os.Args[3], imageSteps
	}
	for _, s := range steps {
		row, began := insideRow{Tried: s.tried}, time.Now()
		if err := s.do(ctx); err != nil {
			row.Fault = err.Error()
		}
		row.Took = time.Since(began)
		fmt.Println(row.Tried, row.Fault)
		rows = append(rows, row)
		if row.Fault != "" {
			break // the next steps need what this one was to leave
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, rowsFile), text, 0o644)
}

// A step is one thing that is tried.
type step struct {
	tried string
	do    func(context.Context) error
}

var packageSteps = []step{
	{"an earlier release installed: user, files, modes", installEarlier},
	{"systemd-analyze verify", verifyUnits},
	{"started by systemd, as user threeds, without rights", startServer},
	{"upgraded under load, no request lost, configuration kept", upgradeUnderLoad},
	{"reloaded", func(ctx context.Context) error {
		return shell(ctx, "systemctl reload threeds && systemctl is-active threeds")
	}},
	{"removed: stopped, data and configuration kept", removePackage},
	{"purged: data gone, certificates of the operator kept", purgePackage},
}

// shell runs lines of sh, all of which have to succeed.
func shell(ctx context.Context, script string) error {
	out, err := exec.CommandContext(ctx, "sh", "-exc", script).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func installEarlier(ctx context.Context) error {
	return shell(ctx, `DEBIAN_FRONTEND=noninteractive dpkg --install /trial/earlier.deb
test "$(stat -c %U:%G:%a /etc/threeds)" = root:threeds:750
test "$(stat -c %U:%G:%a /etc/threeds/threeds.yaml)" = root:threeds:640
test "$(stat -c %U:%G:%a /var/lib/threeds)" = threeds:threeds:700
test "$(stat -c %U:%G:%a /usr/bin/threeds)" = root:root:755
test "$(getent passwd threeds | cut -d: -f6,7)" = /var/lib/threeds:/usr/sbin/nologin
test "$(systemctl is-enabled threeds.service)" = disabled || test "$(systemctl is-active threeds.service)" = inactive
systemd-sysusers --cat-config | grep -q '^u threeds'`)
}

func verifyUnits(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "systemd-analyze", append([]string{"verify", "--man=no"}, units...)...).CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) > 0 {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// startServer starts the server against directory servers of the sandbox, as an operator does after the installation.
func startServer(ctx context.Context) error {
	lab := exec.CommandContext(ctx, "threeds", "sandbox", "--directories", trialDir+"/lab")
	lab.Stdout, lab.Stderr = os.Stdout, os.Stdout
	if err := lab.Start(); err != nil {
		return err
	}
	if err := waitFor(ctx, func() error { _, err := os.Stat(trialDir + "/lab/ready"); return err }); err != nil {
		return err
	}
	return shell(ctx, `cd /trial/lab
sed -e 's,file:threeds-data,file:/var/lib/threeds,' threeds.yaml >/etc/threeds/threeds.yaml
echo 'timeouts: {lame_duck: 1s}' >>/etc/threeds/threeds.yaml
cp -r *.pem *.key visa mastercard amex jcb upi protectbuy sbn cb standin /etc/threeds/
chgrp -R threeds /etc/threeds
chmod -R u=rwX,g=rX,o= /etc/threeds
cp /etc/threeds/threeds.yaml /trial/written.yaml
threeds key create --config /etc/threeds/threeds.yaml --name "Corner Shop" >/trial/key
systemctl enable --now `+strings.Join(units, " ")+`
test "$(systemctl is-active threeds.service)" = active
pid=$(systemctl show --property MainPID --value threeds.service)
test "$(stat -c %U /proc/$pid)" = threeds
grep -q '^NoNewPrivs:.1' /proc/$pid/status
grep -q '^CapBnd:.0000000000000000' /proc/$pid/status
grep -q '^Seccomp:.2' /proc/$pid/status
threeds health --url http://127.0.0.1:8090 --live`)
}

// preauth asks the server for the versions of a card.
func preauth(ctx context.Context, client *http.Client, base, key, card string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/preauth", strings.NewReader(`{"acctNumber": "`+card+`"}`))
	if err != nil {
		return err
	}
	request.Header.Set("APIKey", key)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("threeDSServerTransID"))) {
		err = fmt.Errorf("/preauth answers %d: %s", response.StatusCode, body)
	}
	return err
}

// upgradeUnderLoad installs the new release while requests come, and counts those that fail.
func upgradeUnderLoad(ctx context.Context) error {
	key, err := os.ReadFile(trialDir + "/key")
	if err != nil {
		return err
	}
	const base, card = "http://127.0.0.1:8080", "4000000000000103"
	ask := func(ctx context.Context) error {
		return preauth(ctx, http.DefaultClient, base, strings.TrimSpace(string(key)), card)
	}
	if err := waitFor(ctx, func() error { return ask(ctx) }); err != nil { // until card ranges are there
		return err
	}
	var answered, failed atomic.Int64
	var fault atomic.Value
	stop, ended := make(chan struct{}), make(chan struct{})
	const workers = 5
	for range workers {
		go func() {
			defer func() { ended <- struct{}{} }()
			pace := time.NewTicker(100 * time.Millisecond) // all of them stay below the limit of a key
			defer pace.Stop()
			for {
				select {
				case <-stop:
					return
				case <-pace.C:
				}
				if err := ask(ctx); err != nil {
					failed.Add(1)
					fault.Store(err.Error())
				} else {
					answered.Add(1)
				}
			}
		}()
	}
	err = shell(ctx, `before=$(systemctl show --property MainPID --value threeds.service)
DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold --install /trial/new.deb
test "$(systemctl show --property MainPID --value threeds.service)" != "$before"
test "$(systemctl is-active threeds.service)" = active
cmp /etc/threeds/threeds.yaml /trial/written.yaml
test "$(stat -c %U:%G:%a /etc/threeds/threeds.yaml)" = root:threeds:640
test -e /etc/threeds/threeds.yaml.dpkg-dist
test "$(readlink /proc/$(systemctl show --property MainPID --value threeds.service)/exe)" = /usr/bin/threeds`)
	after := answered.Load()
	if err == nil {
		err = waitFor(ctx, func() error {
			if answered.Load() < after+100 {
				return errors.New("the new release answers no more requests")
			}
			return nil
		})
	}
	close(stop)
	for range workers {
		<-ended
	}
	fmt.Println(answered.Load(), "requests answered,", failed.Load(), "failed")
	if err == nil && failed.Load() > 0 {
		err = fmt.Errorf("%d requests failed of %d: %v", failed.Load(), failed.Load()+answered.Load(), fault.Load())
	}
	return err
}

func removePackage(ctx context.Context) error {
	return shell(ctx, `dpkg --remove threeds
test ! -e /usr/bin/threeds
test ! -e /usr/lib/systemd/system/threeds.service
cmp /etc/threeds/threeds.yaml /trial/written.yaml
test -e /var/lib/threeds/keys.json
for unit in `+strings.Join(units, " ")+`; do test "$(systemctl is-active $unit)" = inactive; done
test ! -e /etc/systemd/system/multi-user.target.wants/threeds.service
test ! -e /etc/systemd/system/sockets.target.wants/threeds-api.socket`)
}

func purgePackage(ctx context.Context) error {
	return shell(ctx, `dpkg --purge threeds
test ! -e /var/lib/threeds
test ! -e /etc/threeds/threeds.yaml
test -e /etc/threeds/results.key`)
}

// waitFor tries again until what it waits for is there. The caller's context, or the trial's unit, ends it.
func waitFor(ctx context.Context, is func() error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		err := is()
		if err == nil {
			return nil
		}
		select {
		case <-limit.Done():
			return err
		case <-tick.C:
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// settingsFile has the settings of an image, next to the root that was unpacked.
const settingsFile = "settings.json"

// tryImage unpacks the image of each platform, and runs that of this machine where nothing else is: a root that cannot
// be written to, and a network of its own.
func tryImage(ctx context.Context, t *trial) error {
	binaries, err := readBinaries(t.root)
	if err != nil {
		return err
	}
	for _, b := range binaries {
		if b.GOOS != "linux" {
			continue
		}
		name := "threeds_" + t.rev.version + "_" + b.platform() + "_image.tar"
		dir := filepath.Join(t.work, "unpacked", name)
		image, err := tarball.ImageFromPath(t.release(name), nil)
		if err == nil {
			err = errors.Join(validate.Image(image), t.unpackImage(ctx, image, dir))
		}
		if err == nil {
			err = t.lookAtImage(image, &b, dir)
		}
		t.add(name, "unpacked; files, user, labels, size, the binary that of the archive", err)
		if err != nil || b.GOARCH != runtime.GOARCH {
			continue
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		_, ended := output(ctx, dir, nil, "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", program, insideCommand, "image", dir)
		if err := t.addInside(name, dir, ended); err != nil {
			return err
		}
	}
	t.add("threeds_"+t.rev.version+"_image_oci.tar", "unpacked; the images of all platforms", t.lookAtLayout(ctx, binaries))
	return nil
}

// unpackImage writes the files of an image into dir/root, and its settings.
func (t *trial) unpackImage(ctx context.Context, image v1.Image, dir string) error {
	root := filepath.Join(dir, "root")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(root, 0o755)); err != nil {
		return err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	text, err := json.Marshal(file.Config)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, settingsFile), text, 0o644); err != nil {
		return err
	}
	files := mutate.Extract(image)
	defer files.Close()
	cmd := exec.CommandContext(ctx, "tar", "--extract", "--preserve-permissions", "--directory", root)
	cmd.Stdin, cmd.Stderr = files, os.Stderr
	return cmd.Run()
}

// lookAtImage holds an image against what was promised.
func (t *trial) lookAtImage(image v1.Image, b *binary, dir string) error {
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	want, err := sumFile(b.Path)
	if err != nil {
		return err
	}
	is, err := sumFile(filepath.Join(dir, "root", "threeds"))
	if err != nil || is != want {
		return fmt.Errorf("/threeds is not the binary that was built: %w", err)
	}
	var errs []error
	if file.OS != b.GOOS || file.Architecture != b.GOARCH {
		errs = append(errs, fmt.Errorf("is for %s/%s", file.OS, file.Architecture))
	}
	if id, err := strconv.Atoi(strings.Split(file.Config.User, ":")[0]); err != nil || id == 0 {
		errs = append(errs, fmt.Errorf("runs as %q, want the number of a user that is not root", file.Config.User))
	}
	for _, label := range []string{"source", "version", "revision", "created", "licenses", "title"} {
		if file.Config.Labels["org.opencontainers.image."+label] == "" {
			errs = append(errs, fmt.Errorf("has no label org.opencontainers.image.%s", label))
		}
	}
	programs := 0
	err = filepath.WalkDir(filepath.Join(dir, "root"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, _ := entry.Info(); info.Mode()&0o111 != 0 {
				programs++
			}
		}
		return err
	})
	if programs != 1 {
		err = errors.Join(err, fmt.Errorf("has %d programs, want one and no shell", programs))
	}
	authorities, readErr := os.ReadFile(filepath.Join(dir, "root/etc/ssl/certs/ca-certificates.crt"))
	if strings.Count(string(authorities), "BEGIN CERTIFICATE") < 50 {
		readErr = errors.Join(readErr, errors.New("has too few certificate authorities"))
	}
	return errors.Join(append(errs, err, readErr)...)
}

// lookAtLayout unpacks the layout and compares it with what is pushed.
func (t *trial) lookAtLayout(ctx context.Context, binaries []binary) error {
	dir := filepath.Join(t.work, "unpacked", "layout")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	if _, err := output(ctx, dir, nil, "tar", "--extract", "--file", t.release("threeds_"+t.rev.version+"_image_oci.tar")); err != nil {
		return err
	}
	if _, err := output(ctx, dir, nil, "diff", "--recursive", dir, filepath.Join(t.root, imageDir)); err != nil {
		return err
	}
	index, err := readIndex(dir)
	if err != nil {
		return err
	}
	if err := validate.Index(index); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	var has, want []string
	for _, m := range manifest.Manifests {
		has = append(has, m.Platform.OS+"/"+m.Platform.Architecture)
	}
	for _, b := range binaries {
		if b.GOOS == "linux" {
			want = append(want, b.GOOS+"/"+b.GOARCH)
		}
	}
	if strings.Join(has, " ") != strings.Join(want, " ") {
		return fmt.Errorf("has images for %v, want %v", has, want)
	}
	return nil
}

// imageSteps are tried in namespaces of their own, with the folder of the unpacked image as the last argument.
var imageSteps = []step{
	{"runs with a read-only root as its user; threeds version by argument", runImageVersion},
	{"the sandbox without a flag: pages and API at localhost:8080, ends at SIGTERM", runImageSandbox},
}

// imageProgram returns the program of the unpacked image, to be run as a container engine does. Without arguments it
// has those of the image.
func imageProgram(ctx context.Context, args ...string) (*exec.Cmd, error) {
	dir := os.Args[3]
	settings, err := readSettings(filepath.Join(dir, settingsFile))
	if err != nil {
		return nil, err
	}
	if args == nil {
		args = settings.Cmd
	}
	user, group, _ := strings.Cut(settings.User, ":")
	uid, err := strconv.ParseUint(user, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(group, 10, 32)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, settings.Entrypoint[0], append(settings.Entrypoint[1:], args...)...)
	cmd.Dir, cmd.Env = settings.WorkingDir, settings.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: filepath.Join(dir, "root"), Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
	}
	return cmd, nil
}

func runImageVersion(ctx context.Context) error {
	root := filepath.Join(os.Args[3], "root")
	if err := shell(ctx, "ip link set lo up\nmount --bind "+root+" "+root+"\nmount -o remount,ro,bind "+root+"\n"+
		"mount -t tmpfs -o mode=1777 tmpfs "+root+"/tmp\nif touch "+root+"/x; then exit 1; fi"); err != nil {
		return err
	}
	cmd, err := imageProgram(ctx, "version")
	if err != nil {
		return err
	}
	out, err := cmd.CombinedOutput()
	if err == nil && !strings.HasPrefix(string(out), "threeds v") {
		err = errors.New("no version")
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func runImageSandbox(ctx context.Context) error {
	cmd, err := imageProgram(ctx)
	if err != nil {
		return err
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return err
	}
	err = waitFor(ctx, func() error { return askSandbox(ctx) })
	cmd.Process.Signal(syscall.SIGTERM)
	if ended := cmd.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("after SIGTERM: %w: %s", ended, said.String()))
	}
	return err
}

// askSandbox loads the shop as a browser of the host does, and calls the API.
func askSandbox(ctx context.Context) error {
	const base = "http://localhost:8080"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(page), "<html") {
		return fmt.Errorf("GET / answers %d: %w", response.StatusCode, err)
	}
	// The key is the same in every sandbox.
	return preauth(ctx, http.DefaultClient, base, "5a5a5a5a-0000-4000-8000-000000000001", "4000000000000103")
}

package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// settingsPath is the file of the settings of the image: what runs without arguments, and as which user. The user is a
// number, so that Kubernetes sees that it is not root.
const settingsPath = "deploy/image.json"

// A tarEntry is a file or a folder of a layer. A folder has a name that ends with a slash.
type tarEntry struct {
	name string
	mode int64
	body []byte
}

// writeImages writes the image for all platforms of Linux, as a layout of OCI in imageDir and as files of the release.
func writeImages(_ context.Context, j *job, rev *revision) error {
	binaries, err := readBinaries(j.root)
	if err != nil {
		return err
	}
	settings, err := readSettings(filepath.Join(j.root, settingsPath))
	if err != nil {
		return err
	}
	settings.Labels = imageLabels(rev)
	system, err := systemLayer(j.root, settings.User, rev.date)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(latestImage + ":" + rev.version)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	index = mutate.Annotations(index, imageLabels(rev)).(v1.ImageIndex)
	for _, b := range binaries {
		if b.GOOS != "linux" {
			continue
		}
		image, err := newImage(&b, system, settings, rev)
		if err != nil {
			return err
		}
		file := filepath.Join(j.root, releaseDir, "threeds_"+rev.version+"_"+b.platform()+"_image.tar")
		if err := tarball.WriteToFile(file, tag, image); err != nil {
			return err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()},
		})
	}
	dir := filepath.Join(j.root, imageDir)
	written, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = written.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": rev.version}))
	}
	if err != nil {
		return err
	}
	return packLayout(dir, filepath.Join(j.root, releaseDir, "threeds_"+rev.version+"_image_oci.tar"), rev.date)
}

// readSettings reads the settings of an image.
func readSettings(path string) (*v1.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	settings := new(v1.Config)
	return settings, json.Unmarshal(text, settings)
}

// imageLabels are those that OCI has names for.
func imageLabels(rev *revision) map[string]string {
	const about = "org.opencontainers.image."
	return map[string]string{
		about + "title": "threeds", about + "description": "EMV 3-D Secure server with its tools, and a sandbox",
		about + "url": "https://github.com/openthreeds/threeds", about + "source": "https://github.com/openthreeds/threeds",
		about + "documentation": "https://github.com/openthreeds/threeds/blob/v" + rev.version + "/README.md",
		about + "vendor":        "The threeds authors", about + "licenses": "Apache-2.0",
		about + "version": "v" + rev.version, about + "revision": rev.commit, about + "created": rev.date.Format(time.RFC3339),
	}
}

// systemLayer makes what the program needs of a system: certificate authorities, the name of its user, and /tmp, where
// the sandbox keeps its data.
func systemLayer(root, user string, date time.Time) (v1.Layer, error) {
	id, _, _ := strings.Cut(user, ":")
	licence, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var authorities bytes.Buffer
	for a := range bundle.Roots() {
		if a.Constraint != nil { // a file of PEM cannot say which certificates of this authority are good
			continue
		}
		if err := pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate}); err != nil {
			return nil, err
		}
	}
	return newLayer(date, []tarEntry{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte("root:x:0:\nthreeds:x:" + id + ":\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/none\nthreeds:x:" + id + ":" + id + ":threeds:/tmp:/none\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities.Bytes()},
		{"tmp/", 0o1777, nil},
		{"usr/", 0o755, nil},
		{"usr/share/", 0o755, nil},
		{"usr/share/doc/", 0o755, nil},
		{"usr/share/doc/threeds/", 0o755, nil},
		{"usr/share/doc/threeds/LICENSE", 0o644, licence},
	})
}

// newImage makes the image of one platform: the system, and the program on it.
func newImage(b *binary, system v1.Layer, settings *v1.Config, rev *revision) (v1.Image, error) {
	program, err := os.ReadFile(b.Path)
	if err != nil {
		return nil, err
	}
	layer, err := newLayer(rev.date, []tarEntry{{"threeds", 0o755, program}})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: rev.date}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: system, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: "system"}},
		mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: "threeds"}})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = b.GOOS, b.GOARCH, created
	if b.GOARCH == "arm64" {
		file.Variant = "v8"
	}
	file.Config = *settings
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, imageLabels(rev)).(v1.Image), nil
}

// newLayer makes a layer of files that all belong to root and have one date.
func newLayer(date time.Time, entries []tarEntry) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, e := range entries {
		if err := writeEntry(w, &e, date); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithCompressionLevel(9), tarball.WithMediaType(types.OCILayer))
}

func writeEntry(w *tar.Writer, e *tarEntry, date time.Time) error {
	kind := byte(tar.TypeReg)
	if e.name[len(e.name)-1] == '/' {
		kind = tar.TypeDir
	}
	err := w.WriteHeader(&tar.Header{
		Typeflag: kind, Name: e.name, Mode: e.mode, Size: int64(len(e.body)), ModTime: date, Format: tar.FormatUSTAR,
	})
	if err == nil {
		_, err = w.Write(e.body)
	}
	return err
}

// packLayout writes a folder into a tar file, in the order of names.
func packLayout(dir, file string, date time.Time) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return writeEntry(w, &tarEntry{filepath.ToSlash(inside), 0o644, body}, date)
	})
	if err := cmp.Or(err, w.Close()); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return out.Close()
}

// readIndex reads the index of all platforms from a layout of OCI.
func readIndex(dir string) (v1.ImageIndex, error) {
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("the layout has %d indexes, want one", len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}

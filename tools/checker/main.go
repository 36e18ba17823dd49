// Checker builds the checker of the documentation: the program in internal/edge/docsite/checker as WebAssembly,
// compressed, and the script of Go that starts it. A program that is built with the tag checker after that has both.
//
//	go run ./tools/checker
//	go build -tags checker ./cmd/threeds
//
// The same sources give the same bytes.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// dir has the sources of the checker, and gets what is made of them.
const dir = "internal/edge/docsite/checker"

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "checker:", err)
		os.Exit(1)
	}
}

func build() (err error) {
	work, err := os.MkdirTemp("", "checker-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	program := filepath.Join(work, "checker.wasm")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-l", // inlined code is long
		"-ldflags=-s -w -buildid=", "-o", program, "./"+dir)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	if cmd.Stderr = os.Stderr; cmd.Run() != nil {
		return errors.New("the checker cannot be built")
	}
	wasm, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is one of the package
	w.Write(wasm)                                              // a Buffer takes everything
	w.Close()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	script, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	fmt.Printf("The checker has %d bytes, %d compressed.\n", len(wasm), packed.Len())
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "checker.wasm.gz"), packed.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "wasm_exec.js"), script, 0o644),
	)
}

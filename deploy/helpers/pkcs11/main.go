// The program threeds-pkcs11 is a key helper for threeds in front of an HSM, or of whatever else has a module of PKCS
// #11. It needs cgo, so it is a module and a program of its own. Docs/operating/hsm.md of threeds has the protocol, and
// how to try it with SoftHSM.
//
//	threeds-pkcs11 --module /usr/lib/softhsm/libsofthsm2.so --token threeds --pin-file /etc/threeds/pin
//
// It answers one request after the other, logs in once, and ends with its input. When the session with the
// token is gone, it ends, and threeds starts it again. When the token refuses the PIN, it stays and says why: to try
// again would lock the token.
package main

import (
	"bufio"
	"crypto"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// A request is a line that threeds writes.
type request struct {
	ID      uint64 `json:"id"`
	Verb    string `json:"verb"`
	Key     string `json:"key"`
	Data    []byte `json:"data"`
	Context string `json:"context"`
	Hash    string `json:"hash"`
	Scheme  string `json:"scheme"`
}

// An answer is a line that threeds reads.
type answer struct {
	ID    uint64 `json:"id"`
	Data  []byte `json:"data,omitempty"`
	Error string `json:"error,omitempty"`
}

func main() {
	module := flag.String("module", "", "the module of PKCS #11 to load, such as /usr/lib/softhsm/libsofthsm2.so")
	label := flag.String("token", "", "the label of the token")
	pinFile := flag.String("pin-file", "", "the file with the PIN of the token")
	csr := flag.String("csr", "", "print a certificate signing request of the key with this label, and end")
	name := flag.String("cn", "", "the common name in that request")
	flag.Parse()
	if err := run(*module, *label, *pinFile, *csr, *name); err != nil {
		fmt.Fprintln(os.Stderr, "threeds-pkcs11:", err)
		os.Exit(1)
	}
}

func run(module, label, pinFile, csr, name string) error {
	if module == "" || label == "" || pinFile == "" {
		return errors.New("--module, --token and --pin-file are needed")
	}
	if err := keepMemoryOutOfFiles(); err != nil {
		return err
	}
	// It ends with its input: threeds needs it while it drains, although both get the signals of systemd.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	pin, err := os.ReadFile(pinFile)
	if err != nil {
		return err
	}
	t, err := openToken(module, label, strings.TrimSpace(string(pin)))
	clear(pin)
	switch {
	case err != nil && (!isRefusedPIN(err) || csr != ""):
		return err
	case csr != "":
		return t.printRequest(csr, name)
	}
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<10)
	for in.Scan() {
		var r request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return errors.New("a line of the input is no request")
		}
		var data []byte
		failure := err
		if failure == nil {
			data, failure = t.do(&r)
		}
		clear(r.Data)
		a := answer{ID: r.ID, Data: data}
		if failure != nil {
			a = answer{ID: r.ID, Error: failure.Error()}
		}
		if err := out.Encode(a); err != nil {
			return err
		}
		clear(data)
		if isGone(failure) {
			return failure
		}
	}
	return in.Err()
}

// do does what a request asks for.
func (t *token) do(r *request) ([]byte, error) {
	switch r.Verb {
	case "wrap":
		return t.wrap(r.Key, r.Data, []byte(r.Context))
	case "unwrap":
		return t.unwrap(r.Key, r.Data, []byte(r.Context))
	case "public":
		return t.public(r.Key)
	case "sign":
		for _, hash := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
			if hash.String() == r.Hash {
				return t.sign(r.Key, r.Scheme, hash, r.Data)
			}
		}
		return nil, errors.New("unknown hash")
	}
	return nil, errors.New("unknown verb")
}

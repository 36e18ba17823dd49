package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/config"
	"github.com/openthreeds/threeds/internal/scheme"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// maxMessage is how much check reads: far more than any listener takes.
const maxMessage = 64 << 20

// runCheck prints the message of a file, masked, and on stderr all that is
// wrong with it.
func runCheck(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	of := fs.String("scheme", "", "hold it against what this card scheme asks for as well")
	rest, err := parseFlags(fs, args, 1)
	if err != nil {
		return err
	}
	if known := scheme.Names(); *of != "" && !slices.Contains(known, *of) {
		return usageErrorf("check: no scheme %q%s", *of, config.Hint(*of, known...))
	}
	if len(rest) == 0 {
		return usageErrorf("check: no file (- is standard input)")
	}
	name, in := rest[0], stdin
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	data, all, err := readUpTo(in, maxMessage)
	if err != nil {
		return err
	}
	if !all {
		return fmt.Errorf("%s: longer than %d MiB, so it was not checked: no message is", name, maxMessage>>20)
	}
	// No limits apply: the question is what is wrong, not whether to accept the message.
	m, err := message.Parse(data, message.Limits{Members: -1})
	if err != nil {
		return fmt.Errorf("%s: %w%s", name, err, describeOther(data))
	}
	if err := m.Describe(stdout); err != nil {
		return err
	}
	for _, d := range extension.Describe(m) {
		if err := d.Write(stdout); err != nil {
			return err
		}
	}
	var ctx message.Context
	if t, ok := m.Type(); ok && t == message.AReq {
		ctx.AReq = m // conditions of nested objects refer to members of the AReq
	}
	problems := append(m.Check(ctx), extension.Check(m)...)
	for _, p := range problems {
		fmt.Fprintf(stderr, "%s: %s: %s %s\n", name, p.Path, p.Code, describeProblem(p))
	}
	if text := describeForeign(m); text != "" {
		fmt.Fprintf(stderr, "%s: %s\n", name, text)
	}
	faults := len(problems) + printSchemeFindings(stderr, name, *of, m)
	if faults == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", name, countOf(faults, "fault"))
}

// printSchemeFindings prints what a card scheme says about a message: what it asks for and an
// AReq lacks, or what its own codes in an answer mean. It returns how many faults there are
// in the sense of scheme_rules: enforce.
func printSchemeFindings(w io.Writer, name, of string, m *message.Message) (faults int) {
	t, known := m.Type()
	switch {
	case !known:
	case t == message.AReq:
		for _, f := range scheme.Check(of, m, time.Now()) {
			if f.Code != 0 {
				faults++
			}
			fmt.Fprintf(w, "%s: %s: %s\n", name, of, f.Text)
		}
	case t == message.ARes, t == message.RReq:
		for _, element := range []string{"eci", "transStatusReason"} {
			if meaning := scheme.Meaning(of, element, m.Text(element)); meaning != "" {
				fmt.Fprintf(w, "%s: %s: %s: %s\n", name, of, element, meaning)
			}
		}
	}
	return faults
}

// readLine returns the first line of in, without space around it: "" if there is none.
func readLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(in, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// readUpTo reads at most limit bytes, and says whether that is all.
func readUpTo(in io.Reader, limit int) (data []byte, all bool, err error) {
	data, err = io.ReadAll(io.LimitReader(in, int64(limit)+1))
	return data[:min(len(data), limit)], len(data) <= limit, err
}

// describeOther returns what a text that is not JSON may be. It quotes nothing.
func describeOther(data []byte) string {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return ": it is empty"
	case data[0] == '<':
		return ": XML, like the messages of 3-D Secure 1, is not checked here"
	}
	encoded := bytes.TrimRight(data, "=")
	if text, err := base64.RawURLEncoding.DecodeString(string(encoded)); err == nil && bytes.HasPrefix(text, []byte("{")) {
		return ": it is Base64url, as creq and cres are; decode it first"
	}
	return ""
}

// describeForeign returns what m is if it is not a message of the protocol but something else
// that users of this server come across; else "".
func describeForeign(m *message.Message) string {
	switch {
	case m.Text("messageType") == "CRD":
		return "a CRD is the answer of this server's /preauth, and no message of EMV 3-D Secure"
	case m.Has("messageType"):
		return ""
	case m.Has("cardRangeData"):
		return "card range files have no type: threeds ranges import reads them"
	case m.Has("threeDSMethodNotificationURL"):
		return "the data of the 3DS Method has no type, and is not checked here"
	}
	return ""
}

// describeProblem returns what the code of a problem means, with its note if that is not the path.
func describeProblem(p message.Problem) string {
	if p.Note == "" || p.Note == string(p.Path) {
		return p.Code.Description()
	}
	return fmt.Sprintf("%s (%s)", p.Code.Description(), p.Note)
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

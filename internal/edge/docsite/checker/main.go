//go:build js && wasm

// Checker is `threeds check` and `threeds explain` for a browser, and for Node. Tools/checker builds it.
//
// It sets threedsChecker to a function with four arguments: "check" or "explain", the text, a card scheme or "", and
// the time in milliseconds since 1970. The function returns an object: status is the exit status of the command, stdout
// and stderr are what it writes, and it calls the text "text". summary is the last line of stderr if the status is not
// 0, and findings are the other lines, all without the name of the text. No text leaves the program.
package main

import (
	"bytes"
	"fmt"
	"strings"
	"syscall/js"
	"time"

	"github.com/openthreeds/threeds/internal/engine/verdict"
)

func main() {
	js.Global().Set("threedsChecker", js.FuncOf(answer))
	select {} // the function is called from now on
}

// answer is what a page calls.
func answer(_ js.Value, args []js.Value) any {
	command, text := args[0].String(), args[1].String()
	o := verdict.Options{Name: "text", Scheme: args[2].String(), Now: time.UnixMilli(int64(args[3].Float())).UTC()}
	var stdout, stderr bytes.Buffer
	err := verdict.FindScheme(o.Scheme)
	switch {
	case err != nil:
		err = verdict.UnreadableError{Err: err}
	case command == "explain":
		err = verdict.Explain([]byte(text), o, &stdout, &stderr)
	default:
		err = verdict.Check([]byte(text), o, &stdout, &stderr)
	}
	withoutName := func(line string) string { return strings.TrimPrefix(strings.TrimSuffix(line, "\n"), o.Name+": ") }
	summary, findings := "", []any{}
	for line := range strings.Lines(stderr.String()) {
		findings = append(findings, withoutName(line))
	}
	if err != nil {
		summary = withoutName(err.Error())
		fmt.Fprintln(&stderr, err)
	}
	return map[string]any{
		"status": verdict.Status(err), "summary": summary, "findings": findings,
		"stdout": stdout.String(), "stderr": stderr.String(),
	}
}

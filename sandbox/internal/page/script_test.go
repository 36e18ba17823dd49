package page_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestPageScriptTakesAnyField: the script of the issuers' pages puts the focus on a field with a text to select, on a
// button, which has none, and does without both.
func TestPageScriptTakesAnyField(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no node")
		}
		t.Skip("there is no node: the script was not run")
	}
	script, err := os.ReadFile("files/page.js")
	if err != nil {
		t.Fatal(err)
	}
	for name, field := range map[string]string{
		"field":   `{focus() { done.push("focus") }, select() { done.push("select") }}`,
		"button":  `{focus() { done.push("focus") }}`,
		"nothing": `null`,
	} {
		const before = `const done = []; let shown
			globalThis.addEventListener = (name, call) => { shown = call }
			globalThis.document = {querySelectorAll: () => [], querySelector: () => field}
			const field = `
		out, err := exec.CommandContext(t.Context(), node, "-e", before+field+"\n"+string(script)+"\nshown(); console.log(done.join())").CombinedOutput()
		want := map[string]string{"field": "focus,select\n", "button": "focus\n", "nothing": "\n"}[name]
		if err != nil || string(out) != want {
			t.Errorf("%s: %v %q, want %q", name, err, out, want)
		}
	}
}

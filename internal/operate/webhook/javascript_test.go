package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestW1ThePublishedJavaScriptLibraryVerifies checks that standardwebhooks of npm verifies our signatures, and that we
// verify its signatures. The version and its digest are in testdata/js. It is skipped without node or npm, and where
// npm finds no registry.
func TestW1ThePublishedJavaScriptLibraryVerifies(t *testing.T) {
	if testing.Short() {
		t.Skip("npm is not asked for a quick answer")
	}
	t.Parallel()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s: the JavaScript library was not asked", program)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/js")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir, install.WaitDelay = dir, time.Second
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm cannot install standardwebhooks, so the JavaScript library was not asked: %v\n%s", err, out)
	}

	type delivery struct {
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
		isGood  bool
	}
	secret, other, now := NewSecret(), NewSecret(), time.Now()
	sign := func(body string, at time.Time, secrets ...Secret) map[string]string {
		return map[string]string{
			"webhook-id": "evt_1", "webhook-timestamp": strconv.FormatInt(at.Unix(), 10),
			"webhook-signature": Sign("evt_1", at, []byte(body), secrets...),
		}
	}
	const body = `{"id":"evt_1","type":"authentication.completed","data":{"cardholderInfo":"Grüße, 您好"}}`
	deliveries := []delivery{
		{sign(body, now, secret), body, true},
		{sign(body, now, other, secret), body, true}, // during a rotation
		{sign(body, now, other), body, false},
		{sign(body, now, secret), body + " ", false},
		{sign(body, now.Add(-time.Hour), secret), body, false},
	}
	input, err := json.Marshal(map[string]any{"secret": secret.Text(), "deliveries": deliveries})
	if err != nil {
		t.Fatal(err)
	}
	node := exec.CommandContext(ctx, "node", "verify.mjs")
	node.Dir, node.Stdin, node.WaitDelay = dir, bytes.NewReader(input), time.Second
	var problems strings.Builder
	node.Stderr = &problems
	out, err := node.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, problems.String())
	}
	var said struct {
		Good                       []bool
		Body, Timestamp, Signature string
	}
	if err := json.Unmarshal(out, &said); err != nil || len(said.Good) != len(deliveries) {
		t.Fatalf("%v: %s", err, out)
	}
	for i, d := range deliveries {
		if said.Good[i] != d.isGood {
			t.Errorf("delivery %d: the library says %t, want %t", i, said.Good[i], d.isGood)
		}
	}
	if err := Verify("evt_js", said.Timestamp, said.Signature, []byte(said.Body), time.Now(), secret); err != nil {
		t.Errorf("ours refuses the library's: %v", err)
	}
}

package browser

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestReadme pastes the session of README.md, which docs/getting-started.md has, too, into a shell beside a sandbox. Of
// the lines only the address of the API is changed.
func TestReadme(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sh", "curl"} {
		rig.FindTool(t, name, "the session of README.md")
	}
	blocks := shellBlocks(t, "../../../README.md")
	if len(blocks) < 4 || blocks[0] != "go run ./cmd/threeds sandbox\n" {
		t.Fatal("the session of README.md does not begin with the sandbox")
	}
	session := strings.Join(blocks[1:], "")
	if page := strings.Join(shellBlocks(t, "../../../docs/getting-started.md"), ""); !strings.Contains(page, session) {
		t.Error("docs/getting-started.md has another session than README.md")
	}
	if !strings.Contains(session, "KEY="+playground.Key+"\n") {
		t.Error("README.md has another key than the sandbox")
	}
	api := rig.StartSandbox(t).API
	moved := strings.Replace(session, "API=http://127.0.0.1:8080\n", "API="+api+"\n", 1)
	if moved == session {
		t.Fatal("README.md does not say where the API is")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-e")
	cmd.Stdin = strings.NewReader(moved)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Errorf("the session ends with %v and says on standard error:\n%s", err, &errs)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{`"messageType" *: *"CRD"`, `"transStatus" *: *"Y"`, `"transStatus" *: *"C"`, `"messageType" *: *"RReq"`}
	if len(lines) != len(want) {
		t.Fatalf("the session prints %d lines, want %d:\n%s", len(lines), len(want), &out)
	}
	for i, pattern := range want {
		if !regexp.MustCompile(pattern).MatchString(lines[i]) {
			t.Errorf("line %d of the session is not %s:\n%s", i+1, pattern, lines[i])
		}
	}
}

// TestShellBlocks: what the pages give to a shell is for any shell, not for one
// maker's.
func TestShellBlocks(t *testing.T) {
	t.Parallel()
	rig.FindTool(t, "sh", "the commands of the pages")
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := filepath.Glob("../../../docs/operating/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range append(append(pages, manual...), "../../../README.md") {
		for i, block := range shellBlocks(t, page) {
			n++
			cmd := exec.CommandContext(t.Context(), "sh", "-n")
			cmd.Stdin = strings.NewReader(block)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s, block %d: %v\n%s", filepath.Base(page), i+1, err, out)
			}
		}
	}
	if n < 9 {
		t.Errorf("%d blocks, want 9 at least", n)
	}
}

// TestSamples sends every whole AReq of the pages to a sandbox, as it is and with
// what its page adds to it in 2.3.1, and brings those that are not final to an
// end as the pages say.
func TestSamples(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	block := regexp.MustCompile("(?ms)^ *```json\n(.*?)^ *```$")
	for page, want := range map[string]int{"app-flow": 2, "3ri": 10, "decoupled": 1} {
		data, err := os.ReadFile("../../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		var samples []rig.Object
		var added rig.Object
		for _, m := range block.FindAllStringSubmatch(string(data), -1) {
			var o rig.Object
			if err := json.Unmarshal([]byte(m[1]), &o); err != nil {
				t.Fatalf("%s.md: %v", page, err)
			}
			switch {
			case o.Text("messageType") == "AReq":
				samples = append(samples, o)
			case o.Text("messageVersion") == "2.3.1":
				added = o
			}
		}
		if added != nil {
			for _, o := range slices.Clone(samples) {
				samples = append(samples, o.With(added))
			}
		}
		if len(samples) != want {
			t.Errorf("%s.md has %d whole AReqs, want %d", page, len(samples), want)
		}
		for i, areq := range samples {
			complete(w, fmt.Sprintf("%s.md, sample %d", page, i+1), areq)
		}
	}
}

// TestSlips sends what errors.md lists as often seen: it gets the code that stands
// there and is named, and what is wanted in its place is taken.
func TestSlips(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	w := rig.StartSandbox(t)
	const pan = "4000000000000103"
	rows := regexp.MustCompile("(?m)^\\| `(\"(.*?)\": .*?)` \\| ([0-9]{3}) \\| `(.*?)` \\|").FindAllStringSubmatch(string(data), -1)
	if len(rows) < 14 {
		t.Errorf("%d slips, want 14 at least", len(rows))
	}
	for _, row := range rows {
		var sent, wanted rig.Object
		if err := errors.Join(json.Unmarshal([]byte("{"+row[1]+"}"), &sent), json.Unmarshal([]byte("{"+row[4]+"}"), &wanted)); err != nil {
			t.Fatalf("%s: %v", row[0], err)
		}
		areq := rig.BrowserRequest("2.2.0", pan, w.Preauth(pan).Text("threeDSServerTransID"), "U")
		status, got := w.Post("/auth", areq.With(sent))
		if status != http.StatusBadRequest || got.Text("errorCode") != row[3] || row[3] == "203" && got.Text("errorDetail") != row[2] {
			t.Errorf("%s: %d %v, want %s", row[1], status, got, row[3])
		}
		if status, got := w.Post("/auth", areq.With(wanted)); status != http.StatusOK || got.Text("transStatus") != "Y" {
			t.Errorf("%s: %d %v", row[4], status, got)
		}
	}
}

// complete sends an AReq and waits for its result, if there is one to come.
func complete(w *rig.World, name string, areq rig.Object) {
	w.T.Helper()
	status, ares := w.Post("/auth", areq)
	if status != http.StatusOK {
		w.T.Errorf("%s: %d %v", name, status, ares)
		return
	}
	switch ares.Text("transStatus") {
	case "C":
		decided, err := http.PostForm(w.Control+"/app", url.Values{"transID": {ares.Text("acsTransID")}, "result": {"pass"}})
		if err != nil {
			w.T.Fatal(err)
		}
		decided.Body.Close()
	case "D":
	default:
		return
	}
	waittest.Until(w.T, name+": a result", func() bool {
		status, rreq := w.Post("/postauth", rig.Object{"threeDSServerTransID": ares.Text("threeDSServerTransID")})
		return status == http.StatusOK && rreq.Text("transStatus") == "Y"
	})
}

// shellBlocks are the blocks marked sh of a page, in order.
func shellBlocks(t *testing.T, page string) []string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(data), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

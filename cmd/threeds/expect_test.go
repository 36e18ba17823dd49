package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// ofErro are the members of an Erro: those that are always there, those that
// may be, and those that only one with a directory's part in it has.
var (
	ofErro    = []string{"messageType", "messageVersion", "errorCode", "errorComponent", "errorDescription", "errorDetail"}
	mayErro   = []string{"threeDSServerTransID", "errorMessageType"}
	peersErro = []string{"dsTransID", "acsTransID", "sdkTransID"}
)

// An expected is what an Erro has to say; empty means anything.
type expected struct {
	status                                    int // 0: 400
	code, component, description, detail, msg string
	transID                                   string // "-": none
	version                                   string
}

// check holds an answer of the API against it.
func (e expected) check(t *testing.T, status int, got object) {
	t.Helper()
	if e.status == 0 {
		e.status = 400
	}
	if e.component == "" {
		e.component = "S"
	}
	if status != e.status {
		t.Errorf("status %d, want %d: %v", status, e.status, got)
	}
	if got.text("messageType") != "Erro" {
		t.Errorf("not an Erro: %v", got)
		return
	}
	may := mayErro
	if e.component != "S" {
		may = append(peersErro, may...)
	}
	members(t, "Erro", got, ofErro, may)
	for name, want := range map[string]string{
		"errorCode": e.code, "errorComponent": e.component, "errorDescription": e.description, "errorDetail": e.detail,
		"errorMessageType": e.msg, "messageVersion": e.version, "threeDSServerTransID": e.transID,
	} {
		if want == "-" {
			want = ""
		} else if want == "" {
			continue
		}
		have := got.text(name)
		if name == "errorDetail" && e.description != "Invalid JSON" { // names, in any order
			have, want = sorted(have), sorted(want)
		}
		if have != want {
			t.Errorf("%s = %q, want %q", name, have, want)
		}
	}
	for name, v := range got {
		if s, ok := v.(string); !ok || s == "" {
			t.Errorf("Erro: %s = %v, want a string with something in it", name, v)
		}
	}
}

// sorted is a list with commas in alphabetical order.
func sorted(list string) string {
	items := strings.Split(list, ",")
	slices.Sort(items)
	return strings.Join(items, ",")
}

// members checks the names of what: all of always, and none beyond may.
func members(t *testing.T, what string, got object, always, may []string) {
	t.Helper()
	for _, name := range always {
		if _, there := got[name]; !there {
			t.Errorf("%s has no %s: %v", what, name, got)
		}
	}
	for name := range got {
		if !slices.Contains(always, name) && !slices.Contains(may, name) {
			t.Errorf("%s has a %s, which the contract does not know", what, name)
		}
	}
}

// refused sends a body to an operation that has to answer with an Erro.
func (w *world) refused(path string, body any, want expected) object {
	w.t.Helper()
	code, got := w.post(path, body)
	want.check(w.t, code, got)
	return got
}

// spent waits until an authentication that ended with its time has ended for /postauth
// too. A store that takes longer than the answer may be late writes nothing of it; then
// that is so a moment later.
func (w *world) spent(id string) {
	w.t.Helper()
	waitFor(w.t, "the end of an authentication", func() bool {
		_, got := w.post("/postauth", object{"threeDSServerTransID": id})
		return got.text("errorCode") != "305"
	})
}

// since waits for the clock: until a moment is so long ago.
func since(t *testing.T, start time.Time, d time.Duration) {
	t.Helper()
	waitFor(t, "time to pass", func() bool { return time.Since(start) > d })
}

// list names what is in a directory, and what is in that.
func list(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

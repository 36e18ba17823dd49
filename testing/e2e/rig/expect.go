package rig

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
)

// ErroMembers are the members of an Erro: those that are always there, those that
// may be, and those that only one with a directory's part in it has.
var (
	ErroMembers = []string{"messageType", "messageVersion", "errorCode", "errorComponent", "errorDescription", "errorDetail"}
	mayErro     = []string{"threeDSServerTransID", "errorMessageType"}
	peersErro   = []string{"dsTransID", "acsTransID", "sdkTransID"}
)

// An Expected is what an Erro has to say; empty means anything.
type Expected struct {
	Status                                    int // 0: 400
	Code, Component, Description, Detail, Msg string
	TransID                                   string // "-": none
	Version                                   string
}

// Check holds an answer of the API against it.
func (e Expected) Check(t *testing.T, status int, got Object) {
	t.Helper()
	if e.Status == 0 {
		e.Status = 400
	}
	if e.Component == "" {
		e.Component = "S"
	}
	if status != e.Status {
		t.Errorf("status %d, want %d: %v", status, e.Status, got)
	}
	if got.Text("messageType") != "Erro" {
		t.Errorf("not an Erro: %v", got)
		return
	}
	may := mayErro
	if e.Component != "S" {
		may = append(peersErro, may...)
	}
	CheckMembers(t, "Erro", got, ErroMembers, may)
	for name, want := range map[string]string{
		"errorCode": e.Code, "errorComponent": e.Component, "errorDescription": e.Description, "errorDetail": e.Detail,
		"errorMessageType": e.Msg, "messageVersion": e.Version, "threeDSServerTransID": e.TransID,
	} {
		if want == "-" {
			want = ""
		} else if want == "" {
			continue
		}
		have := got.Text(name)
		if name == "errorDetail" && e.Description != "Invalid JSON" { // names, in any order
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

// CheckMembers checks the names of what: all of always, and none beyond may.
func CheckMembers(t *testing.T, what string, got Object, always, may []string) {
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

// Refused sends a body to an operation that has to answer with an Erro.
func (w *World) Refused(path string, body any, want Expected) Object {
	w.T.Helper()
	code, got := w.Post(path, body)
	want.Check(w.T, code, got)
	return got
}

// Spent waits until an authentication that ended with its time has ended for /postauth
// too. A store that takes longer than the answer may be late writes nothing of it; then
// that is so a moment later.
func (w *World) Spent(id string) {
	w.T.Helper()
	waittest.Until(w.T, "the end of an authentication", func() bool {
		_, got := w.Post("/postauth", Object{"threeDSServerTransID": id})
		return got.Text("errorCode") != "305"
	})
}

// retryInterval is the time between two attempts of a client.
const retryInterval = 50 * time.Millisecond

// Retry calls done again and again until it returns true, as a client does that is in no hurry. Unlike waittest.Until
// it may be called from any goroutine.
func Retry(done func() bool) {
	for !done() {
		time.Sleep(retryInterval)
	}
}

// ListFiles names what is in a directory, and what is in that.
func ListFiles(t *testing.T, dir string) []string {
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

// scrapeInterval is the least time between two looks at the metrics of a server: tests look again and again, and the
// metrics are long.
const scrapeInterval = 20 * time.Millisecond

// scraped has the time of the latest look, by the address of the console.
var scraped sync.Map

// pace waits until the metrics of a server may be looked at again.
func pace(console string) {
	if last, ok := scraped.Load(console); ok {
		time.Sleep(scrapeInterval - time.Since(last.(time.Time)))
	}
	scraped.Store(console, time.Now())
}

// Unhurried returns done with a pause ahead of each call, for waittest.Until and what costs a process.
func Unhurried(done func() bool) func() bool {
	return func() bool {
		time.Sleep(5 * scrapeInterval)
		return done()
	}
}

// Exposed is what the console says of metrics.
func (s *Site) Exposed() string {
	s.T.Helper()
	pace(s.ConsoleURL)
	res, err := http.Get(s.ConsoleURL + "/metrics")
	if err != nil {
		s.T.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return string(data)
}

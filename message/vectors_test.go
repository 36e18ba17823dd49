package message

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/openthreeds/threeds/internal/base/txtartest"
)

var update = flag.Bool("update", false, "write what is found into testdata/vectors")

// The test checks each in/NAME of each archive and compares the result with want/NAME. A file in/NAME.quoted is a Go
// string, in/NAME.tmpl a template with the function repeat. Files areq, ares, preq of an archive are other messages of
// the transaction; "versions: 2.2.0" in its comment names the versions that are in use.
func TestVectorsHaveTheirResults(t *testing.T) {
	files, err := filepath.Glob("testdata/vectors/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no vectors", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtartest.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			runVectors(t, a)
			if *update {
				if err := os.WriteFile(name, txtartest.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func runVectors(t *testing.T, a *txtartest.Archive) {
	want := make(map[string]string)
	var rest []txtartest.File
	for _, f := range a.Files {
		if name, ok := strings.CutPrefix(f.Name, "want/"); ok {
			want[name] = string(f.Data)
			continue
		}
		rest = append(rest, f)
	}
	c := contextOf(t, a)
	var all []txtartest.File
	for _, f := range rest {
		all = append(all, f)
		name, ok := strings.CutPrefix(f.Name, "in/")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, ".")
		got := verdict(vectorInput(t, f), c)
		all = append(all, txtartest.File{Name: "want/" + name, Data: []byte(got)})
		if !*update && got != want[name] {
			t.Errorf("%s: got\n%swant\n%s", name, got, want[name])
		}
	}
	if *update {
		a.Files = all
	}
}

func contextOf(t *testing.T, a *txtartest.Archive) Context {
	var c Context
	for _, f := range a.Files {
		to, ok := map[string]**Message{"areq": &c.AReq, "ares": &c.ARes, "rreq": &c.RReq, "creq": &c.CReq, "preq": &c.PReq}[f.Name]
		if !ok {
			continue
		}
		m, err := Parse(f.Data, Limits{})
		if err != nil {
			t.Fatal(f.Name, err)
		}
		*to = m
	}
	if _, list, ok := strings.Cut(string(a.Comment), "versions: "); ok {
		list, _, _ = strings.Cut(list, "\n")
		for s := range strings.FieldsSeq(list) {
			v, ok := ParseVersion(s)
			if !ok {
				t.Fatal("version", s)
			}
			c.Versions = append(c.Versions, v)
		}
	}
	c.KnownExtension = func(id string) bool { return id == "known" }
	return c
}

func vectorInput(t *testing.T, f txtartest.File) []byte {
	switch {
	case strings.HasSuffix(f.Name, ".quoted"):
		s, err := strconv.Unquote(strings.TrimSpace(string(f.Data)))
		if err != nil {
			t.Fatal(f.Name, err)
		}
		return []byte(s)
	case strings.HasSuffix(f.Name, ".tmpl"):
		var b bytes.Buffer
		tmpl, err := template.New("").Funcs(template.FuncMap{"repeat": func(n int, s string) string { return strings.Repeat(s, n) }}).Parse(string(f.Data))
		if err == nil {
			err = tmpl.Execute(&b, nil)
		}
		if err != nil {
			t.Fatal(f.Name, err)
		}
		return b.Bytes()
	}
	return f.Data
}

// verdict is what is found in a message, for people.
func verdict(data []byte, c Context) string {
	m, err := Parse(data, Limits{})
	if err != nil {
		return "refused: " + err.Error() + "\n"
	}
	problems := m.Check(c)
	if problems == nil {
		return "valid\n"
	}
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%s %s", p.Code, p.Path)
		if p.Note != "" {
			fmt.Fprintf(&b, " (%s)", p.Note)
		}
		b.WriteByte('\n')
	}
	for o, name := range [...]string{ForRequestor: "to a requestor", ForPeer: "to a peer"} {
		code, detail := problems.Pick(Order(o))
		fmt.Fprintf(&b, "%s: %s %s\n", name, code, detail)
	}
	return b.String()
}

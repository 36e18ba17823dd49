package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

// FuzzParse holds what Parse reads against encoding/json's view of it, and
// asks Check in every context.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/vectors/*.txtar")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtar.Parse(data).Files {
			if len(file.Data) < 4096 && strings.HasPrefix(file.Name, "in/") {
				f.Add(bytes.TrimSpace(file.Data))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sameVerdict(t, data)
		m, err := Parse(data, Limits{})
		if err != nil {
			if _, ok := errors.AsType[*SyntaxError](err); !ok {
				t.Fatalf("%T", err)
			}
			if _, err := parse(data, Limits{}, true); err == nil {
				t.Fatal("refused strictly, read in any case")
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var want map[string]any
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		for i := range m.nodes {
			if !json.Valid(m.raw(uint32(i))) {
				t.Fatalf("node %d is not JSON", i)
			}
		}
		if !m.hasDuplicates {
			sameView(t, m, 0, want)
		}
		anyContext(m)
		folded, err := parse(data, Limits{}, true)
		if err != nil || len(folded.nodes) != len(m.nodes) {
			t.Fatal("names in any case:", err)
		}
		anyContext(folded)
	})
}

// sameVerdict says whether the walk, where it is asked alone, calls JSON what
// the decoder does.
func sameVerdict(t *testing.T, data []byte) {
	if !isPlainText(data) {
		return
	}
	value, want := jsontext.Value(data), false
	if value.IsValid(jsontext.AllowDuplicateNames(true)) {
		want = value.Kind() == '{'
	}
	if _, err := parse(data, Limits{-1, -1}, false); (err == nil) != want {
		t.Fatalf("read: %v, the decoder says %t", err, want)
	}
}

// anyContext checks m as part of many transactions.
func anyContext(m *Message) {
	m.Check(Context{})
	m.Check(Context{AReq: m, ARes: m, RReq: m, CReq: m, PReq: m, Versions: []Version{V220}, Informational: true, Loopback: true})
	m.Check(Context{AReq: m, KnownExtension: known})
	for _, path := range []string{"", "messageType", "messageExtension[0].data", "acctInfo.x", "a[1][2]", "[", "x]", "."} {
		m.Has(path)
		m.Text(path)
		m.Raw(path)
		m.Strings(path)
	}
}

// sameView says whether encoding/json sees the value at node i as want.
func sameView(t *testing.T, m *Message, i uint32, want any) {
	t.Helper()
	n := m.nodes[i]
	equal := false
	switch want := want.(type) {
	case nil:
		equal = n.kind == jsonNull
	case bool:
		equal = n.kind == jsonBool && string(m.raw(i)) == map[bool]string{true: "true", false: "false"}[want]
	case json.Number:
		equal = n.kind == jsonNumber && string(m.raw(i)) == want.String()
	case string:
		equal = n.kind == jsonString && string(m.text(i, nil)) == want
	case []any:
		k := 0
		for j := i + 1; j < n.next; j = m.nodes[j].next {
			if k < len(want) {
				sameView(t, m, j, want[k])
			}
			k++
		}
		equal = n.kind == jsonArray && k == len(want)
	case map[string]any:
		k := 0
		for j := i + 1; j < n.next; j = m.nodes[j].next {
			name := ""
			if id := m.nodes[j].name; id&unknownName != 0 {
				name = string(nameText(m.data, m.nodes[j]))
			} else {
				name = names.list[id]
			}
			v, ok := want[name]
			if !ok {
				t.Fatalf("member %q is not there", name)
			}
			sameView(t, m, j, v)
			k++
		}
		equal = n.kind == jsonObject && k == len(want)
	}
	if !equal {
		t.Fatalf("node %d differs from %v", i, want)
	}
}

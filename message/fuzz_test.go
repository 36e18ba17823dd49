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

	"github.com/openthreeds/threeds/internal/base/txtartest"
)

// FuzzParse compares the result of Parse with that of encoding/json, and calls Check with
// several contexts.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/vectors/*.txtar")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtartest.Parse(data).Files {
			if len(file.Data) < 4096 && strings.HasPrefix(file.Name, "in/") {
				f.Add(bytes.TrimSpace(file.Data))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkVerdict(t, data)
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
			checkView(t, m, 0, want)
		}
		checkInAllContexts(m)
		folded, err := parse(data, Limits{}, true)
		if err != nil || len(folded.nodes) != len(m.nodes) {
			t.Fatal("names in any case:", err)
		}
		checkInAllContexts(folded)
	})
}

// checkVerdict fails if Parse without limits and jsontext do not agree that data is a JSON
// object.
func checkVerdict(t *testing.T, data []byte) {
	value, want := jsontext.Value(data), false
	if value.IsValid(jsontext.AllowDuplicateNames(true)) {
		want = value.Kind() == '{'
	}
	if _, err := parse(data, Limits{-1, -1}, false); (err == nil) != want {
		t.Fatalf("read: %v, the decoder says %t", err, want)
	}
}

// checkInAllContexts calls Check with several contexts and the accessors with many paths.
func checkInAllContexts(m *Message) {
	m.Check(Context{})
	m.Check(Context{AReq: m, ARes: m, RReq: m, CReq: m, PReq: m, Versions: []Version{V220}, Informational: true, Loopback: true})
	m.Check(Context{AReq: m, KnownExtension: knowsAll})
	for _, path := range []string{"", "messageType", "messageExtension[0].data", "acctInfo.x", "a[1][2]", "[", "x]", "."} {
		m.Has(path)
		m.Text(path)
		m.Raw(path)
		m.Strings(path)
	}
}

// checkView fails unless the value of node i is want, as encoding/json read it.
func checkView(t *testing.T, m *Message, i uint32, want any) {
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
				checkView(t, m, j, want[k])
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
			checkView(t, m, j, v)
			k++
		}
		equal = n.kind == jsonObject && k == len(want)
	}
	if !equal {
		t.Fatalf("node %d differs from %v", i, want)
	}
}

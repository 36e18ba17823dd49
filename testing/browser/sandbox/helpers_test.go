// Package sandbox has the tests of the sandbox in real browsers: the pages of its issuers, its demo shop, and the pages
// of a server that asks it.
package sandbox

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"os"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/browsertest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waitFor waits until ok. If that never comes, the test fails with what there is.
func waitFor(t *testing.T, ok func() bool, says func() string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(says())
		}
	}()
	waittest.Until(t, "what the test logs next", ok)
}

// views are the sizes and colour schemes in which a walk looks at a page: all of them in a long walk, otherwise a wide
// light one and a narrow dark one.
func views(all []view) []view {
	if browsertest.HasLongWalks() {
		return all
	}
	return []view{{1280, 800, "light"}, {320, 700, "dark"}}
}

// A view is a size of the screen and a colour scheme.
type view struct {
	width, height int64
	scheme        string
}

// marshal is JSON as merchants send it.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only values of the test come here
	}
	return bytes.TrimSpace(b.Bytes())
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func decode(text string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(text) }

// elementOf returns the text of the first XML element of a name, "" if there is none.
func elementOf(text []byte, name string) string {
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == name {
			var value string
			if d.DecodeElement(&value, &start) != nil {
				return ""
			}
			return strings.TrimSpace(value)
		}
	}
}

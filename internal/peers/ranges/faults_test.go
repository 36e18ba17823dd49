package ranges

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/openthreeds/threeds/message"
)

// countingReader counts the bytes that were read from it.
type countingReader struct {
	io.Reader
	count int
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.count += n
	return n, err
}

// repeated is an endless text.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	return len(b), nil
}

// TestD113BadEntriesEndAPRes: after 1,000 bad entries the rest of a PRes is not read, wherever its
// entries stand and whatever is wrong with them.
func TestD113BadEntriesEndAPRes(t *testing.T) {
	list220, _, _ := strings.Cut(pres220(""), "]}")
	list231, _, _ := strings.Cut(pres231(""), "]}")
	equal := entry231("4000000000000000", "4000000000000009", "")
	second := entry220("4000000000000000", "4000000000000009")
	tests := []struct {
		name, head, entry string
		code              message.Code
		element           string
		read              int // entries that are read, about
	}{
		{"empty, 2.2.0", list220, `{},`, message.Missing, "cardRangeData.startRange", 1000},
		{"empty, 2.3.1", list231, `{},`, message.Duplicate, "cardRangeData", 1000},
		{"numbers", list220, `7,`, message.Format, "cardRangeData", 1000},
		{"empty, before the type", `{"cardRangeData":[`, `{},`, message.Missing, "cardRangeData.startRange", 1000},
		{"from the end to the start", list220, entry220("4000000000000009", "4000000000000000") + ",", message.Format, "cardRangeData", 1000},
		{"equal", list231 + equal + ",", equal + ",", message.Duplicate, "cardRangeData", 1000},
		{"members twice", list220, `{"startRange":"1","startRange":"1"},`, message.Duplicate, "cardRangeData.startRange", 1000},
		{"a second list", list220 + second + `],"cardRangeData":[`, second + ",", message.Duplicate, "cardRangeData", 1000},
		{"many faults in one entry", list231, `{"ranges":[` + strings.Repeat(`{},`, 1000) + `{}]},`, message.Missing, "cardRangeData.ranges.start", 1},
	}
	for _, test := range tests {
		for _, bad := range []int{maxBadEntries, 20_000} {
			t.Run(fmt.Sprintf("%s, %d", test.name, bad), func(t *testing.T) {
				entries := &repeated{text: test.entry}
				r := &countingReader{Reader: io.MultiReader(strings.NewReader(test.head), io.LimitReader(entries, int64(bad*len(test.entry))))}
				resp, problems, err := ReadPRes(r, Options{window: 4096})
				if err != nil || resp == nil || len(problems) == 0 || len(problems) > 3*maxProblems {
					t.Fatalf("%d problems, error %v", len(problems), err)
				}
				most := len(test.head) + (test.read+1)*len(test.entry) + 16<<10
				if r.count > most {
					t.Errorf("%d bytes were read, want at most %d", r.count, most)
				}
				code, detail := problems.Pick(message.ForPeer)
				if code != test.code || !strings.HasPrefix(detail, test.element) || utf8.RuneCountInString(detail) > 2048 {
					t.Errorf("code %s, errorDetail %q, want %s %s", code, detail, test.code, test.element)
				}
			})
		}
	}
}

// TestD113FewerBadEntriesAreReadToTheEnd: 999 bad entries are reported with what is wrong behind them.
func TestD113FewerBadEntriesAreReadToTheEnd(t *testing.T) {
	list := strings.TrimSuffix(strings.Repeat(`"x",`, maxBadEntries-1), ",")
	text := strings.TrimSuffix(pres220(list), "}") + `,"serialNum":"2"}`
	_, problems, err := ReadPRes(io.MultiReader(strings.NewReader(text)), Options{})
	if code, detail := problems.Pick(message.ForPeer); err != nil || code != message.Duplicate || !strings.HasPrefix(detail, "serialNum") {
		t.Errorf("code %s, errorDetail %.80q, error %v", code, detail, err)
	}
}

// TestD113BadEntriesEndAFile: a file of card ranges ends as a PRes does.
func TestD113BadEntriesEndAFile(t *testing.T) {
	r := &countingReader{Reader: io.MultiReader(strings.NewReader(`{"cardRangeData":[`), &repeated{text: "{},"})}
	_, problems, err := ReadFile(r, &Response{Version: message.V231}, Options{window: 4096, Bytes: 8 << 20})
	if err != nil || len(problems) == 0 || r.count > 64<<10 {
		t.Errorf("%d problems, error %v, %d bytes read", len(problems), err, r.count)
	}
}

// TestD113EntriesOfAVersionToComeAreReadAgain: bad entries do not end a text that can be read again by the version that
// follows them.
func TestD113EntriesOfAVersionToComeAreReadAgain(t *testing.T) {
	var entries bytes.Buffer
	for i := range 2 * maxBadEntries {
		fmt.Fprintf(&entries, "%s,", entry220(fmt.Sprintf("4%015d", 10*i), fmt.Sprintf("4%015d", 10*i+9)))
	}
	head, tail, _ := strings.Cut(pres220(""), `"cardRangeData":[]`)
	text := `{"cardRangeData":[` + strings.TrimSuffix(entries.String(), ",") + `],` + strings.TrimSuffix(head[1:], ",") + tail
	preq := parse(t, `{"messageType":"PReq","messageVersion":"2.3.1","threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e"}`)
	resp, problems, err := ReadPRes(strings.NewReader(text), Options{Context: message.Context{PReq: preq}})
	if resp == nil || resp.Entries != 2*maxBadEntries && len(problems) > 1 || err != nil {
		t.Errorf("%d problems, error %v", len(problems), err)
	}
}

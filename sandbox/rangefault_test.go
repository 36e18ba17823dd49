package sandbox_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
	"github.com/openthreeds/threeds/sandbox/ranges"
)

// exchange sends a message with headers and returns the answer as it came.
func (s *server) exchange(scheme string, body []byte, headers map[string]string) (*http.Response, []byte, error) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.directory(scheme).URL, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	answer, err := s.client(scheme).Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	return answer, raw, err
}

// dataFaults are the faults of messages that arrive whole, with the code that
// the field tables have for them in each version, "" where they have none.
var dataFaults = []struct {
	fault string
	codes [3]string
}{
	{"missing dsTransID", [3]string{"201", "201", "201"}},
	{"missing readOrder", [3]string{"", "", "201"}},
	{"missing dsStartProtocolVersion", [3]string{"201", "201", ""}},
	{"missing cardRangeData", [3]string{"", "", "201"}},
	{"missing cardRangeData.startRange", [3]string{"201", "201", ""}},
	{"missing cardRangeData.acsEndProtocolVersion", [3]string{"201", "201", ""}},
	{"missing cardRangeData.ranges", [3]string{"", "", "201"}},
	{"missing cardRangeData.ranges.end", [3]string{"", "", "201"}},
	{"missing cardRangeData.acsProtocolVersions.version", [3]string{"", "", "201"}},
	{"missing cardRangeData.acsProtocolVersions.supportedMsgExt.id", [3]string{"", "", "201"}},
	{"duplicate", [3]string{"204", "204", "204"}},
	{"type-other", [3]string{"type", "type", "type"}},
	{"id-other", [3]string{"301", "301", "301"}},
	{"version-other", [3]string{"203", "203", "203"}},
	{"version-old", [3]string{"102", "102", "102"}},
	{"extension", [3]string{"202", "202", "202"}},
	{"serial-other", [3]string{"", "", "201"}},
	{"serial-blank", [3]string{"203", "203", "203"}},
	{"serial-long", [3]string{"203", "203", "203"}},
	{"serial-none", [3]string{"", "", ""}},
	{"ds-country", [3]string{"", "", "304"}},
	{"url-beside", [3]string{"", "", ""}},
	{"empty", [3]string{"203", "203", "201"}},
	{"shrink", [3]string{"", "", ""}},
	{"overlap", [3]string{"", "", ""}},
	{"nested", [3]string{"", "", ""}},
	{"add-known", [3]string{"", "", ""}},
	{"delete-unknown", [3]string{"", "", ""}},
	{"modify-unknown", [3]string{"", "", ""}},
	{"modify-bounds", [3]string{"", "", ""}},
	{"reversed", [3]string{"", "", ""}},
	{"lengths", [3]string{"", "", ""}},
	{"method-http", [3]string{"", "", ""}},
	{"method-bad", [3]string{"", "", ""}},
	{"country", [3]string{"", "", "304"}},
	{"version-inactive", [3]string{"", "", "102"}},
	{"info", [3]string{"", "203", "207"}},
	{"ext-version", [3]string{"", "", "203"}},
	{"pairs-none", [3]string{"", "", "201"}},
}

// TestRangeFaults asks for each, and looks whether it is what it says.
func TestRangeFaults(t *testing.T) {
	s := newServer(t, start(t, nil))
	r := s.box.Ranges("visa")
	old := r.Serial()
	if err := r.Generate(40, 3); err != nil {
		t.Fatal(err)
	}
	base := r.Serial()
	if err := r.Add(ranges.Range{Start: "4999000000000000", End: "4999999999999999"}); err != nil {
		t.Fatal(err)
	}
	for _, test := range dataFaults {
		if err := r.Serve(ranges.Service{Fault: test.fault}); err != nil {
			t.Fatal(err)
		}
		for i, version := range allVersions {
			req := preq(version, "")
			if test.fault == "url-beside" && version == "2.3.1" {
				req["cardRangeDataDownloadInd"] = "Y"
			}
			_, raw, err := s.exchange("visa", req.json(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := codeOf(t, req, raw); got != test.codes[i] {
				t.Errorf("%s in %s: code %q, want %q: %.500s", test.fault, version, got, test.codes[i], raw)
			}
			// The lie is not built upon.
			got := read(t, raw)
			if serial, _ := got["serialNum"].(string); strings.HasSuffix(serial, "z") {
				if got := s.plain(preq(version, serial)); got["errorCode"] != "307" {
					t.Errorf("%s: its serial number is known", test.fault)
				}
			}
		}
	}
	for _, test := range []struct {
		fault, from string
		count       int // of entries in 2.2.0
	}{
		{fault: "shrink", count: 10},
		{fault: "shrink", from: base, count: 33},
		{fault: "overlap", count: 44},
		{fault: "nested", count: 44},
		{fault: "overlap", from: r.Serial(), count: 1},
		{fault: "delete-unknown", from: base, count: 2},
		{fault: "modify-unknown", from: base, count: 2},
		{fault: "modify-bounds", from: base, count: 2},
		{fault: "add-known", from: base, count: 2},
		{fault: "empty", from: base, count: 0},
		{fault: "reversed", from: base, count: 2},
	} {
		if err := r.Serve(ranges.Service{Fault: test.fault}); err != nil {
			t.Fatal(err)
		}
		data, _ := s.plain(preq("2.2.0", test.from))["cardRangeData"].([]any)
		if data == nil || len(data) != test.count {
			t.Errorf("%s from %q: %d entries, want %d", test.fault, test.from, len(data), test.count)
		}
	}
	if got := s.plain(preq("2.2.0", old)); got["errorCode"] != "307" {
		t.Errorf("a serial number of before Generate: %v", got)
	}
}

// plain sends a PReq and reads an answer that need not be a good message.
func (s *server) plain(req members) members {
	s.t.Helper()
	_, raw, err := s.exchange("visa", req.json(s.t), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return read(s.t, raw)
}

// codeOf is what the field tables find in a PRes: the code that wins.
func codeOf(t *testing.T, req members, raw []byte) string {
	t.Helper()
	m, err := message.Parse(raw, message.Limits{Members: -1})
	if err != nil {
		t.Fatal(err)
	}
	if typ, _ := m.Type(); typ != message.PRes {
		return "type"
	}
	p := m.Check(message.Context{PReq: parse(t, req.json(t))})
	if len(p) == 0 {
		return ""
	}
	code, _ := p.Pick(message.ForPeer)
	return code.String()
}

// TestRangeFaultsOfSets looks at what no field table can see.
func TestRangeFaultsOfSets(t *testing.T) {
	s := newServer(t, start(t, nil))
	r := s.box.Ranges("visa")
	bounds := func(version, serial string) (all [][2]string, actions []string) {
		_, raw, err := s.exchange("visa", preq(version, serial).json(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		var pres struct {
			CardRangeData []struct {
				StartRange, EndRange, ActionInd string
				Ranges                          []struct{ Start, End string }
			}
		}
		if err := json.Unmarshal(raw, &pres); err != nil {
			t.Fatal(err)
		}
		for _, e := range pres.CardRangeData {
			if e.Ranges == nil {
				all = append(all, [2]string{e.StartRange, e.EndRange})
			}
			for _, p := range e.Ranges {
				all = append(all, [2]string{p.Start, p.End})
			}
			actions = append(actions, e.ActionInd)
		}
		return all, actions
	}
	first := [2]string{"4000000000000000", "4000999999999999"}
	for fault, want := range map[string]struct {
		last   func(b [2]string) bool
		action string
	}{
		"overlap":        {func(b [2]string) bool { return b[0] < first[0] && first[0] < b[1] && b[1] < first[1] }, "A"},
		"nested":         {func(b [2]string) bool { return first[0] < b[0] && b[0] < b[1] && b[1] < first[1] }, "A"},
		"add-known":      {func(b [2]string) bool { return b == first }, "A"},
		"modify-bounds":  {func(b [2]string) bool { return b[0] == first[0] && b[1] == "4000999999999998" }, "M"},
		"modify-unknown": {func(b [2]string) bool { return b[0] == "9990000000000000" }, "M"},
		"delete-unknown": {func(b [2]string) bool { return b[0] == "9990000000000000" }, "D"},
		"reversed":       {func(b [2]string) bool { return b[0] > b[1] }, "A"},
		"lengths":        {func(b [2]string) bool { return len(b[0]) == 13 && len(b[1]) == 16 }, "A"},
	} {
		if err := r.Serve(ranges.Service{Fault: fault}); err != nil {
			t.Fatal(err)
		}
		for _, version := range allVersions {
			for serial, count := range map[string]int{"": 3, r.Serial(): 1} {
				all, actions := bounds(version, serial)
				if len(all) != count || !want.last(all[count-1]) || actions[count-1] != want.action {
					t.Errorf("%s in %s from %q: %v %v", fault, version, serial, all, actions)
				}
			}
		}
	}
}

// TestRangeFaultsOfAnswers is what goes wrong with the connection.
func TestRangeFaultsOfAnswers(t *testing.T) {
	box := start(t, nil)
	s := newServer(t, box)
	r := box.Ranges("visa")
	if err := r.Generate(2000, 1); err != nil {
		t.Fatal(err)
	}
	ask := func(service ranges.Service, headers map[string]string) (*http.Response, []byte, error) {
		t.Helper()
		if err := r.Serve(service); err != nil {
			t.Fatal(err)
		}
		return s.exchange("visa", preq("2.2.0", "").json(t), headers)
	}
	if _, _, err := ask(ranges.Service{Fault: "reset"}, nil); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("reset: %v", err)
	}
	if answer, _, err := ask(ranges.Service{Fault: "status 503"}, nil); err != nil || answer.StatusCode != 503 {
		t.Errorf("503: %v", err)
	}
	for _, code := range []string{"103", "307", "404", "999"} {
		if _, raw, err := ask(ranges.Service{Fault: "erro " + code}, nil); err != nil || read(t, raw)["errorCode"] != code {
			t.Errorf("erro %s: %v %s", code, err, raw)
		} else {
			valid(t, raw, message.Context{})
		}
	}
	if _, raw, err := ask(ranges.Service{Fault: "garbage"}, nil); err != nil || json.Valid(raw) {
		t.Errorf("garbage: %v %s", err, raw)
	}
	for _, plain := range []bool{true, false} {
		whole, _, _ := ask(ranges.Service{Plain: plain}, nil)
		_, all, err := ask(ranges.Service{Plain: plain}, nil)
		if err != nil || !json.Valid(all) || whole.Uncompressed == plain {
			t.Errorf("whole, plain %t: %v", plain, err)
		}
		if _, raw, err := ask(ranges.Service{Fault: "truncated", Plain: plain}, nil); err != nil || json.Valid(raw) || len(raw) != len(all)/2 {
			t.Errorf("truncated: %v, %d of %d bytes", err, len(raw), len(all))
		}
		if _, raw, err := ask(ranges.Service{Fault: "truncated 100", Plain: plain}, nil); err != nil || len(raw) != 100 {
			t.Errorf("truncated 100: %v, %d bytes", err, len(raw))
		}
		if _, raw, err := ask(ranges.Service{Fault: "broken", Plain: plain}, nil); !errors.Is(err, io.ErrUnexpectedEOF) || len(raw) == 0 {
			t.Errorf("broken: %v after %d bytes", err, len(raw))
		}
		if _, raw, err := ask(ranges.Service{Fault: "broken 5000", Plain: plain}, nil); !errors.Is(err, io.ErrUnexpectedEOF) || plain && len(raw) != 5000 {
			t.Errorf("broken 5000: %v after %d bytes", err, len(raw))
		}
	}
	began := time.Now()
	if _, _, err := ask(ranges.Service{Delay: 50 * time.Millisecond, Fault: "status 500", Times: 1}, nil); err != nil || time.Since(began) < 50*time.Millisecond {
		t.Errorf("late: %v after %v", err, time.Since(began))
	}
	if got := r.Service(); got.Delay != 0 || got.Fault != "" {
		t.Errorf("after its one time: %+v", got)
	}
	if _, raw, err := s.exchange("visa", preq("2.2.0", "").json(t), nil); err != nil || read(t, raw)["messageType"] != "PRes" {
		t.Errorf("after one fault: %v", err)
	}
	silent := preq("2.2.0", "")
	if err := r.Serve(ranges.Service{Fault: "silence"}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, _, err := s.exchange("visa", silent.json(t), nil); done <- err }()
	waitFor(t, box, silent["threeDSServerTransID"].(string), func(all []sandbox.Exchange) bool { return len(all) == 2 && all[1].Note == "silence" })
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("silence ended with an answer")
	}
}

// TestGzipIsSentOnRequest: a server that accepts gzip gets it, others do not.
func TestGzipIsSentOnRequest(t *testing.T) {
	s := newServer(t, start(t, nil))
	for header, want := range map[string]string{
		"gzip": "gzip", "br, gzip;q=0.5": "gzip", "GZIP": "gzip", "gzip;q=0": "", "gzip; q=0.0": "", "identity": "", "x-gzip": "",
	} {
		answer, raw, err := s.exchange("visa", preq("2.3.1", "").json(t), map[string]string{"Accept-Encoding": header})
		if err != nil {
			t.Fatal(err)
		}
		if got := answer.Header.Get("Content-Encoding"); got != want {
			t.Errorf("%q: encoding %q, want %q", header, got, want)
		}
		if want == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			if raw, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if !json.Valid(raw) {
			t.Errorf("%q: %s", header, raw)
		}
	}
}

// TestServeTakesEveryFaultOfTheText holds the text against what Serve takes.
func TestServeTakesEveryFaultOfTheText(t *testing.T) {
	r := start(t, nil).Ranges("jcb")
	args := map[string][]string{"": {""}, "CODE": {" 503"}, "[BYTES]": {"", " 77"}, "MEMBER": {" dsTransID"}}
	tested := make(map[string]bool)
	for _, test := range dataFaults {
		tested[strings.Fields(test.fault)[0]] = true
	}
	for line := range strings.Lines(sandbox.RangeFaults()) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		arg := ""
		if strings.ToUpper(words[1]) == words[1] {
			arg = words[1]
		}
		for _, with := range args[arg] {
			if err := r.Serve(ranges.Service{Fault: words[0] + with}); err != nil {
				t.Error(err)
			}
		}
		if err := r.Serve(ranges.Service{Fault: words[0] + " and more"}); err == nil {
			t.Errorf("%s takes anything", words[0])
		}
		delete(tested, words[0])
	}
	if len(tested) > 0 {
		t.Errorf("the text lacks %v", slices.Collect(maps.Keys(tested)))
	}
	for _, bad := range []string{"erro", "erro 12", "erro abc", "status 99", "status 600", "missing", "truncated -1", "truncated x"} {
		if err := r.Serve(ranges.Service{Fault: bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

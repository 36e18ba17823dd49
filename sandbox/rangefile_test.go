package sandbox_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/sandbox/ranges"
)

// fileOf asks for the address of the file.
func (s *server) fileOf() (id, url string) {
	s.t.Helper()
	req := preq("2.3.1", "").with(members{"cardRangeDataDownloadInd": "Y"})
	got, raw := s.pres(req)
	url, _ = got["cardRangeDataFileURL"].(string)
	if url == "" || got["cardRangeData"] != nil || got["serialNum"] != nil {
		s.t.Fatalf("%s", raw)
	}
	return req["threeDSServerTransID"].(string), url
}

// fetch asks for the file with a client that trusts visa and has no certificate.
func fetch(t *testing.T, c *http.Client, url string, headers map[string]string) (*http.Response, []byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	answer, err := c.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	return answer, raw, err
}

func stranger(t *testing.T, s *server) *http.Client {
	c := clientWith(s.directory("visa").ServerCA)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func serve(t *testing.T, r *ranges.Set, service ranges.Service) {
	t.Helper()
	if err := r.Serve(service); err != nil {
		t.Fatal(err)
	}
}

// TestRangeFileIsServedWholeAndInParts downloads it, whole and in parts, with and without gzip.
func TestRangeFileIsServedWholeAndInParts(t *testing.T) {
	s := newServer(t, start(t, nil))
	r, c := s.box.Ranges("visa"), stranger(t, s)
	if err := r.Generate(1000, 5); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.pres(preq("2.3.1", "").with(members{"cardRangeDataDownloadInd": "Y"})); got["cardRangeData"] == nil {
		t.Error("no ranges where the switch is off")
	}
	serve(t, r, ranges.Service{File: ranges.File{On: true}})
	for _, version := range allVersions {
		if got, _ := s.pres(preq(version, "")); got["cardRangeData"] == nil {
			t.Errorf("%s: no ranges where none asked for the file", version)
		}
	}
	_, inline := s.pres(preq("2.3.1", ""))
	want, _ := model(nil).apply(inline, true)
	id, url := s.fileOf()
	var tags []string
	for _, encoding := range []string{"identity", "gzip"} {
		ask := map[string]string{"Accept-Encoding": encoding}
		answer, all, err := fetch(t, c, url, ask)
		if err != nil || answer.StatusCode != 200 || answer.ContentLength != int64(len(all)) || answer.Header.Get("Accept-Ranges") != "bytes" {
			t.Fatalf("%s: %v %+v", encoding, err, answer)
		}
		text := all
		if encoding == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(all))
			if err != nil {
				t.Fatal(err)
			}
			if text, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := model(nil).apply(text, true); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %d ranges, want %d", encoding, err, len(got), len(want))
		}
		tag := answer.Header.Get("ETag")
		tags = append(tags, tag)
		for _, from := range []int{0, 1, 1000, len(all) - 1} {
			part, raw, err := fetch(t, c, url, map[string]string{"Accept-Encoding": encoding, "Range": fmt.Sprintf("bytes=%d-", from), "If-Range": tag})
			if err != nil || part.StatusCode != 206 || !bytes.Equal(raw, all[from:]) || part.Header.Get("ETag") != tag ||
				part.Header.Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", from, len(all)-1, len(all)) {
				t.Errorf("%s from %d: %v %+v", encoding, from, err, part)
			}
		}
		if part, raw, _ := fetch(t, c, url, map[string]string{
			"Accept-Encoding": encoding, "Range": "bytes=5-9",
		}); part.StatusCode != 206 || !bytes.Equal(raw, all[5:10]) {
			t.Errorf("%s: %+v", encoding, part)
		}
		if part, _, _ := fetch(t, c, url, map[string]string{"Accept-Encoding": encoding, "Range": fmt.Sprintf("bytes=%d-", len(all))}); part.StatusCode != 416 {
			t.Errorf("behind the end: %+v", part)
		}
		if same, _, _ := fetch(t, c, url, map[string]string{"Accept-Encoding": encoding, "If-None-Match": tag}); same.StatusCode != 304 {
			t.Errorf("unchanged: %+v", same)
		}
	}
	if tags[0] == tags[1] || tags[0] == "" {
		t.Errorf("ETags %q", tags)
	}
	// A change of the set between two parts.
	if err := r.Add(ranges.Range{Start: "4999000000000000", End: "4999999999999999"}); err != nil {
		t.Fatal(err)
	}
	if part, _, _ := fetch(t, c, url, map[string]string{"Accept-Encoding": "identity", "Range": "bytes=100-", "If-Range": tags[0]}); part.StatusCode != 200 {
		t.Errorf("a part of what changed: %s", part.Status)
	}
	var notes []string
	for _, e := range s.box.Received(id) {
		if e.Type == "cardRangeDataFile" {
			notes = append(notes, e.Body+e.Note)
		}
	}
	if len(notes) < 10 || !strings.Contains(notes[2], "bytes=0-") || !strings.Contains(notes[3], "206; ") ||
		!strings.Contains(notes[3], "Content-Range: bytes 0-") {
		t.Errorf("Received: %q", notes)
	}
	post, err := c.Post(url, "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	post.Body.Close()
	wrong, _, _ := fetch(t, c, strings.Replace(url, id, "nobody", 1), nil)
	if post.StatusCode != 405 || wrong.StatusCode != 404 {
		t.Errorf("POST %s, another name %s", post.Status, wrong.Status)
	}
	serve(t, r, ranges.Service{})
	if off, _, _ := fetch(t, c, url, nil); off.StatusCode != 404 {
		t.Errorf("switched off: %s", off.Status)
	}
}

// TestRangeFileFaults is what can go wrong with the file.
func TestRangeFileFaults(t *testing.T) {
	s := newServer(t, start(t, nil))
	r, c := s.box.Ranges("visa"), stranger(t, s)
	if err := r.Generate(1000, 5); err != nil {
		t.Fatal(err)
	}
	file := func(f ranges.File) string {
		f.On = true
		serve(t, r, ranges.Service{File: f})
		_, url := s.fileOf()
		return url
	}
	plain := map[string]string{"Accept-Encoding": "identity"}
	_, want, _ := fetch(t, c, file(ranges.File{}), plain)

	// Broken three times, and resumed.
	url := file(ranges.File{BreakAfter: 20_000, Breaks: 3})
	var all []byte
	tag, tries := "", 0
	for ; len(all) < len(want) && tries < 10; tries++ {
		ask := map[string]string{"Accept-Encoding": "identity"}
		if tag != "" {
			ask["Range"], ask["If-Range"] = fmt.Sprintf("bytes=%d-", len(all)), tag
		}
		answer, part, err := fetch(t, c, url, ask)
		if tries < 3 && (!errors.Is(err, io.ErrUnexpectedEOF) || len(part) != 20_000) {
			t.Fatalf("break %d: %v after %d bytes", tries, err, len(part))
		}
		all, tag = append(all, part...), answer.Header.Get("ETag")
	}
	if !bytes.Equal(all, want) || tries != 4 {
		t.Errorf("%d of %d bytes after %d tries", len(all), len(want), tries)
	}

	// Another file behind the break.
	url = file(ranges.File{BreakAfter: 20_000, Breaks: 1, Changes: 1})
	answer, begun, _ := fetch(t, c, url, plain)
	old := answer.Header.Get("ETag")
	answer, rest, err := fetch(t, c, url, map[string]string{"Accept-Encoding": "identity", "Range": "bytes=20000-", "If-Range": old})
	if err != nil || answer.StatusCode != 200 || answer.Header.Get("ETag") == old || bytes.Equal(rest, want) || !json.Valid(rest) {
		t.Errorf("changed: %v %s %q", err, answer.Status, answer.Header.Get("ETag"))
	}
	answer, rest, _ = fetch(t, c, url, map[string]string{"Accept-Encoding": "identity", "Range": "bytes=20000-"})
	if answer.StatusCode != 206 || bytes.Equal(append(begun, rest...), want) {
		t.Errorf("changed, without If-Range: %s", answer.Status)
	}

	for _, length := range []int64{100, -100} {
		_, raw, err := fetch(t, c, file(ranges.File{Length: length}), plain)
		if length > 0 && (!errors.Is(err, io.ErrUnexpectedEOF) || len(raw) != len(want)) || length < 0 && (err != nil || len(raw) != len(want)-100) {
			t.Errorf("length %d: %v, %d bytes of %d", length, err, len(raw), len(want))
		}
	}
	if answer, _, _ := fetch(t, c, file(ranges.File{Status: 503}), plain); answer.StatusCode != 503 {
		t.Errorf("503: %s", answer.Status)
	}
	answer, raw, _ := fetch(t, c, file(ranges.File{Whole: true, NoETag: true}), map[string]string{"Accept-Encoding": "identity", "Range": "bytes=9-"})
	if answer.StatusCode != 200 || len(raw) != len(want) || answer.Header.Get("ETag") != "" || answer.Header.Get("Accept-Ranges") != "none" {
		t.Errorf("whole: %+v", answer)
	}

	url = file(ranges.File{Mutual: true})
	if _, _, err := fetch(t, c, url, plain); err == nil {
		t.Error("the file came without a certificate")
	}
	if _, raw, err := fetch(t, s.client("visa"), url, plain); err != nil || !bytes.Equal(raw, want) {
		t.Errorf("with a certificate: %v", err)
	}

	// Faults of the ranges are in the file.
	for fault, sign := range map[string]string{"overlap": `"start":"3999`, "empty": `"cardRangeData":[]`, "country": `"issuerCountryCode":"999"`} {
		serve(t, r, ranges.Service{Fault: fault, File: ranges.File{On: true}})
		_, url := s.fileOf()
		if _, raw, _ := fetch(t, c, url, plain); !json.Valid(raw) || !bytes.Contains(raw, []byte(sign)) {
			t.Errorf("%s: %.300s", fault, raw)
		}
	}
	serve(t, r, ranges.Service{Fault: "missing cardRangeData", File: ranges.File{On: true}})
	_, url = s.fileOf()
	if _, raw, _ := fetch(t, c, url, plain); string(raw) != `{"sandboxEdition":""}` {
		t.Errorf("without ranges: %.300s", raw)
	}
}

// TestHuge streams 200,000 ranges, as a PRes and as a file, and looks how much
// memory that takes.
func TestHuge(t *testing.T) {
	const n = 200_000
	s := newServer(t, start(t, nil))
	r := s.box.Ranges("visa")
	if err := r.Generate(n, 11); err != nil {
		t.Fatal(err)
	}
	if r.Len() != n+2 {
		t.Errorf("Len = %d", r.Len())
	}
	url, c := "", stranger(t, s)
	serve(t, r, ranges.Service{File: ranges.File{On: true}})
	_, url = s.fileOf()
	for _, version := range append(allVersions, "file") {
		for _, encoding := range []string{"identity", "gzip"} {
			req, _ := http.NewRequest(http.MethodGet, url, nil)
			client := c
			id := newID()
			if version != "file" {
				body := preq(version, "").with(members{"threeDSServerTransID": id}).json(t)
				req, _ = http.NewRequest(http.MethodPost, s.directory("visa").URL, bytes.NewReader(body))
				client = s.client("visa")
			}
			req.Header.Set("Accept-Encoding", encoding)
			before := heap()
			answer, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.Header.Get("Content-Encoding"); (got == "gzip") != (encoding == "gzip") {
				t.Errorf("%s: encoding %q", version, got)
			}
			var body io.Reader = answer.Body
			if encoding == "gzip" {
				if body, err = gzip.NewReader(body); err != nil {
					t.Fatal(err)
				}
			}
			count, entries, bytes, most := countRanges(t, body)
			answer.Body.Close()
			if count != n+2 || version == "2.3.1" && entries > 20_000 {
				t.Errorf("%s %s: %d ranges in %d entries", version, encoding, count, entries)
			}
			if grown := int64(most) - int64(before); grown > 8<<20 || bytes < 5<<20 {
				t.Errorf("%s %s: %d bytes took %d bytes of memory", version, encoding, bytes, grown)
			}
			t.Logf("%s %s: %d entries, %d bytes, memory %d", version, encoding, entries, bytes, int64(most)-int64(before))
			if all := s.box.Received(id); version != "file" && (len(all) != 2 || len(all[1].Body) != 64<<10 || all[1].Note != "only its first 65536 bytes") {
				t.Errorf("%s: Received has %d", version, len(all))
			}
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// countRanges reads a body without keeping it.
func countRanges(t *testing.T, body io.Reader) (ranges, entries, bytes int, most uint64) {
	t.Helper()
	buf := make([]byte, 64<<10)
	var tail []byte
	for next := 0; ; {
		n, err := body.Read(buf)
		text := string(tail) + string(buf[:n])
		keep := min(len(text), 15) // no name is longer, none is counted twice
		for name, counter := range map[string]*int{`"start":"`: &ranges, `"startRange":"`: &ranges, `"actionInd":"`: &entries} {
			*counter += strings.Count(text, name) - strings.Count(string(tail), name)
		}
		tail = []byte(text[len(text)-keep:])
		if bytes += n; bytes >= next {
			most = max(most, heap())
			next += 8 << 20
		}
		if errors.Is(err, io.EOF) {
			return ranges, entries, bytes, most
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRangeControl steers all of it from outside.
func TestRangeControl(t *testing.T) {
	s := newServer(t, start(t, nil))
	do := func(method, path, body string, want int) string {
		t.Helper()
		r, err := http.NewRequest(method, s.box.ControlURL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		raw, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != want {
			t.Errorf("%s %s: %s %s", method, path, answer.Status, raw)
		}
		return string(raw)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	one := `{"start":"4999000000000000","end":"4999999999999999","methodURL":"https://acs.example/m","versions":["2.2.0"],` +
		`"info":["01"],"dsVersions":["2.2.0"],"country":"208","extensions":[{"id":"A000000802-001","version":"1.0"}],"confirms":true}`
	if got := do("POST", "/ranges/visa", `{"add":[`+one+`]}`, 200); !strings.Contains(got, `"count":3`) || !strings.Contains(got, s.box.Ranges("visa").Serial()) {
		t.Errorf("add: %s", got)
	}
	if got := do("GET", "/ranges/visa/all", "", 200); !strings.Contains(got, one) || !json.Valid([]byte(got)) {
		t.Errorf("all: %s", got)
	}
	do("POST", "/ranges/visa", `{"add":[`+one+`]}`, 400)
	do("POST", "/ranges/visa", `{"ad":[`+one+`]}`, 400)
	do("POST", "/ranges/visa", `{"generate":{"count":5},"add":[]}`, 400)
	do("POST", "/ranges/visa", `{`, 400)
	do("POST", "/ranges/nobody", `{}`, 404)
	if got := do("POST", "/ranges/amex", `{"replace":[]}`, 200); !strings.Contains(got, `"count":0`) {
		t.Errorf("replace: %s", got)
	}
	if got := do("GET", "/ranges/amex/all", "", 200); got != "[]\n" {
		t.Errorf("all: %q", got)
	}
	if got := do("POST", "/ranges/jcb", `{"generate":{"count":1000,"seed":1}}`, 200); !strings.Contains(got, `"count":1001`) {
		t.Errorf("generate: %s", got)
	}
	service := `{"fault":"erro 403","times":2,"readOrder":"02","file":{"on":true,"breakAfter":5},"delay":"1ms","pace":"1h0m0s"}`
	if got := do("PUT", "/ranges/visa/service", service, 200); !strings.Contains(got, `"service":`+service) {
		t.Errorf("service: %s", got)
	}
	if got := s.plain(preq("2.2.0", "")); got["errorCode"] != "403" {
		t.Errorf("fault: %v", got)
	}
	do("PUT", "/ranges/visa/service", `{"fault":"none such"}`, 400)
	do("PUT", "/ranges/visa/service", `{"delay":5}`, 400)
	if got := do("PUT", "/ranges/visa/service", `{}`, 200); !strings.Contains(got, `"service":{}`) {
		t.Errorf("service: %s", got)
	}
	if got := do("GET", "/ranges", "", 200); strings.Count(got, `"serial"`) != 9 {
		t.Errorf("%s", got)
	}
	if text, err := os.ReadFile("scenarios/ranges.txt"); err != nil || do("GET", "/ranges/faults", "", 200) != string(text) {
		t.Errorf("faults: %v", err)
	}
	do("GET", "/transactions", "", 200)
	do("DELETE", "/transactions", "", 405)
}

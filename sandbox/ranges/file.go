package ranges

import (
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// A File is the file with the whole set that a 2.3.1 PRes names instead of
// bringing it, when a PReq asks for that. It is made while it is sent, has an
// ETag, and can be had in parts. What its ranges have wrong is Fault of
// Service.
type File struct {
	// On has PRes name the file.
	On bool `json:"on,omitempty"`

	// Mutual serves it where PReqs go, to clients with a certificate. Otherwise it has a listener of its own, which
	// shows the directory server's certificate and asks for none.
	Mutual bool `json:"mutual,omitempty"`

	// BreakAfter is after how many bytes the connection breaks, Breaks in how
	// many of the next answers.
	BreakAfter int64 `json:"breakAfter,omitempty"`
	Breaks     int   `json:"breaks,omitempty"`

	// Changes is after how many of the next answers the file is another one, with
	// another ETag, though the set is the same.
	Changes int `json:"changes,omitempty"`

	// Length is what Content-Length has too much.
	Length int64 `json:"length,omitempty"`

	// Status is what is answered instead of the file.
	Status int `json:"status,omitempty"`

	// Whole answers a request for a part with the whole file and status 200.
	Whole bool `json:"whole,omitempty"`

	// NoETag sends none.
	NoETag bool `json:"noETag,omitempty"`
}

// FilePath is what the path of the file begins with.
const FilePath = "/cardranges/"

// fileURL is the address that a PRes gives. It has the id of the PReq in it, by which what passed can be found.
func (r *Set) fileURL(q PReq, s Service) string {
	base := r.o.FilesURL
	if s.File.Mutual {
		base = strings.TrimSuffix(r.o.URL, "/")
	}
	return base + FilePath + q.TransID + ".json"
}

// file is the file as it is now: its text, its ETag, and how this answer is to
// be wrong.
func (r *Set) file(zip bool) (body, string, File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.service
	c := content{ranges: r, have: r.snapshot(), version: peer.V231, some: true, full: true}
	var fault string
	fault, c.arg, _ = readFault(s.Fault)
	c.items = c.have.items()
	if f := faults[fault]; f.data != nil {
		f.data(&c)
	}
	edition := r.edition
	head := fmt.Appendf(nil, `"sandboxEdition":%q`, strings.Repeat("i", edition)) // each moves all that follows
	parts := c.body(s, head, nil)
	tag := fmt.Sprintf("%s-%d-%x", r.serial, edition, s.Fault+strconv.Itoa(s.Together)+strconv.FormatBool(s.Bare))
	r.fetched++
	s.File.BreakAfter = max(s.File.BreakAfter, 0)
	if r.fetched > s.File.Breaks {
		s.File.BreakAfter = -1
	}
	if r.fetched <= s.File.Changes {
		r.edition++
	}
	if zip {
		return zipped(parts), `"` + tag + `-gzip"`, s.File
	}
	return parts, `"` + tag + `"`, s.File
}

// sizeOf is how long a file is. It is counted once.
func (r *Set) sizeOf(tag string, parts body) int64 {
	r.mu.Lock()
	n, known := r.files[tag]
	r.mu.Unlock()
	if !known {
		n = size(parts)
		r.mu.Lock()
		r.files[tag] = n
		r.mu.Unlock()
	}
	return n
}

// ServeFile sends the file or a part of it.
func (r *Set) ServeFile(w http.ResponseWriter, req *http.Request) {
	id := strings.TrimSuffix(path.Base(req.URL.Path), ".json")
	if !strings.HasPrefix(req.URL.Path, FilePath) || !peer.IsUUID(id) || !r.Service().File.On {
		http.NotFound(w, req)
		return
	}
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "GET the file", http.StatusMethodNotAllowed)
		return
	}
	zip := compress.AcceptsGzip(req) && !r.Service().Plain
	parts, tag, how := r.file(zip)
	asked := req.Header.Get("Range")
	r.o.Note(id, Note{
		IsFromServer: true, Type: "cardRangeDataFile",
		Body: strings.TrimSpace(req.Method + " " + req.URL.Path + " " + asked),
		Text: headers(req.Header, "Accept-Encoding", "If-Range"),
	})
	if how.Status != 0 {
		http.Error(w, http.StatusText(how.Status), how.Status)
		return
	}
	parts = untilClosed(req, parts)
	text := &seeker{parts: parts, size: r.sizeOf(tag, parts)}
	defer text.Close()
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.FormatInt(text.size, 10))
	h.Set("Vary", "Accept-Encoding")
	if zip {
		h.Set("Content-Encoding", "gzip")
	}
	if !how.NoETag {
		h.Set("ETag", tag)
	}
	if how.Whole {
		req.Header.Del("Range")
	}
	http.ServeContent(&fileWriter{ResponseWriter: w, set: r, id: id, how: how, left: how.BreakAfter}, req, "",
		time.Time{}, text)
}

// untilClosed ends a body with its request.
func untilClosed(req *http.Request, parts body) body {
	return func(yield func([]byte) bool) {
		for part := range parts {
			if req.Context().Err() != nil {
				panic(http.ErrAbortHandler)
			}
			if !yield(part) {
				return
			}
		}
	}
}

func headers(h http.Header, names ...string) string {
	var all []string
	for _, name := range names {
		if v := h.Get(name); v != "" {
			all = append(all, name+": "+v)
		}
	}
	return strings.Join(all, "; ")
}

// A fileWriter writes down what is answered and breaks what is to break.
type fileWriter struct {
	http.ResponseWriter
	set  *Set
	id   string
	how  File
	left int64 // until the connection breaks; negative for never
	room int64 // what a Content-Length that is too small leaves
}

func (w *fileWriter) WriteHeader(status int) {
	h := w.Header()
	if w.how.Whole {
		h.Set("Accept-Ranges", "none")
	}
	if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil && w.how.Length != 0 && status < 300 {
		w.room = max(n+w.how.Length, 0)
		h.Set("Content-Length", strconv.FormatInt(w.room, 10))
	}
	w.set.o.Note(w.id, Note{
		Type: "cardRangeDataFile",
		Text: strings.TrimSuffix(
			fmt.Sprintf("%d; %s", status, headers(h, "Content-Length", "Content-Range", "Content-Encoding", "ETag")), "; "),
	})
	w.ResponseWriter.WriteHeader(status)
}

func (w *fileWriter) Write(part []byte) (int, error) {
	if w.how.Length < 0 {
		fits := min(int64(len(part)), w.room)
		w.room -= fits
		_, err := w.ResponseWriter.Write(part[:fits])
		return len(part), err
	}
	if w.left < 0 {
		return w.ResponseWriter.Write(part)
	}
	if int64(len(part)) < w.left {
		w.left -= int64(len(part))
		return w.ResponseWriter.Write(part)
	}
	_, _ = w.ResponseWriter.Write(part[:w.left])             // it is to break
	_ = http.NewResponseController(w.ResponseWriter).Flush() // the same
	panic(http.ErrAbortHandler)
}

// Package compress sends answers under gzip to clients that accept it. Put [Handler] around a handler that makes its
// answers, and serve content that never changes as a [File].
//
// Compression tells secrets: the length of an answer shows whether text that a stranger put into a request stands in
// the answer a second time, so that who sees lengths on the network finds out a secret of the page letter by letter
// (BREACH). So these are never compressed:
//
//   - answers to POST, PATCH and DELETE: they show secrets that were just made, beside what the form said;
//   - the pages of the login, which have the token of a form beside the address that a link chose;
//   - the API of payments: its callers choose the request, and its answers have authentication values.
//
// Put no [Handler] around such pages. The token that each form of the console brings is another text on every page, see
// Session.FormToken of package operator. The hosted page repeats nothing of a request but the token in its path, which
// who asks for the page already has.
package compress

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

// Handler returns a handler that compresses what next answers to GET and HEAD: pages, scripts, styles, pictures in SVG,
// and JSON, of a kilobyte or more. An ETag gets another text when the answer is compressed.
func Handler(next http.Handler) http.Handler {
	compressed := wrap()(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		compressed(w, r)
	})
}

// maxJitter is how many bytes an answer may become longer by chance, depending on its content, so that its length says
// little.
const maxJitter = 64

var wrap = sync.OnceValue(func() func(http.Handler) http.HandlerFunc {
	wrapper, err := gzhttp.NewWrapper(
		gzhttp.EnableZstd(false),
		gzhttp.ContentTypes([]string{
			"text/html", "text/css", "text/javascript", "application/json", "application/problem+json", "image/svg+xml",
		}),
		gzhttp.SuffixETag("-gzip"),
		gzhttp.RandomJitter(maxJitter, 0, false),
	)
	if err != nil {
		panic(err) // of options that are constants
	}
	return wrapper
})

// A File is content that never changes. It is compressed once, when the first client accepts that.
// Make it with [NewFile].
type File struct {
	mediaType string
	content   []byte
	tag       string
	gzipped   func() []byte
}

// NewFile returns a file, whose content must not change any more.
func NewFile(mediaType string, content []byte) *File {
	sum := sha256.Sum256(content)
	return &File{mediaType, content, hex.EncodeToString(sum[:8]), sync.OnceValue(func() []byte {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is a good one
		_, _ = w.Write(content)                               // a buffer takes everything
		_ = w.Close()
		return b.Bytes()
	})}
}

// ServeHTTP answers GET and HEAD, also for a part of the file. The two forms of the file have different ETags.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, tag, h := f.content, f.tag, w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Add("Vary", "Accept-Encoding")
	if AcceptsGzip(r) {
		content, tag = f.gzipped(), tag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", strconv.Quote(tag))
	h.Set("Content-Length", strconv.Itoa(len(content))) // ServeContent does not set that of encoded content
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// AcceptsGzip reports whether the client of a request takes an answer under gzip.
func AcceptsGzip(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept-Encoding") {
		for one := range strings.SplitSeq(strings.ToLower(strings.ReplaceAll(header, " ", "")), ",") {
			name, weight, isWeighed := strings.Cut(one, ";")
			if name == "gzip" && (!isWeighed || strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != "") {
				return true
			}
		}
	}
	return false
}

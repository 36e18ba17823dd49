package directory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/message"
)

const (
	maxResumptions   = 20       // per download
	progressInterval = 64 << 20 // bytes from one line of the log to the next
)

// downloadsFiles reports whether files of card ranges are fetched at all.
func (p *peer) downloadsFiles() bool { return len(p.FileHosts) > 0 && p.preqVersion() >= message.V231 }

// downloadFile fetches the file that a PRes names and applies it as a full set of ranges
// (docs/conformance.md, PR-19 to PR-22).
func (r *refresher) downloadFile(ctx context.Context, about message.Error, pres *ranges.Response,
	opts ranges.Options) outcome {
	f := &download{peer: r.peer, ctx: ctx, url: pres.FileURL, sum: sha256.New(), progress: func(n int64) {
		r.log.Info("card range file on its way", "scheme", r.peer.Scheme, "bytes", n)
	}}
	defer f.Close()
	start := time.Now()
	got, problems, err := f.read(pres, opts)
	_, syntax := errors.AsType[*message.SyntaxError](err)
	switch {
	case syntax:
		return r.reject(ctx, about, message.Problems{{Code: message.InvalidMessage, Note: unreadable}})
	case err != nil:
		return r.handleDownloadFailure(about, err)
	case len(problems) > 0:
		return r.reject(ctx, about, problems)
	}
	r.log.Info("card range file fetched", "scheme", r.peer.Scheme, "bytes", f.offset, "resumed", f.resumed,
		"sha256", hex.EncodeToString(f.sum.Sum(nil)), "took", time.Since(start))
	return r.applyPRes(ctx, about, got)
}

// handleDownloadFailure records that a file could not be fetched. The PReq was answered all the same, so the least
// interval holds.
func (r *refresher) handleDownloadFailure(about message.Error, err error) outcome {
	r.log.Warn("card range file not fetched", "scheme", r.peer.Scheme,
		"threeDSServerTransID", about.ServerTransID, "err", err)
	r.setFault("the card range file did not come")
	return refused
}

// A download reads a file. It resumes where the connection broke, and starts again from the beginning if the rest
// cannot be had. It returns the bytes as they are sent, which may be compressed.
type download struct {
	peer     *peer
	ctx      context.Context // it is a reader, and lives as long as one call
	url      string
	sum      hash.Hash
	progress func(int64)

	resp           *http.Response // the answer that is being read; nil before the first
	version        fileVersion    // of the file that is being fetched
	offset         int64          // bytes read so far
	progressOffset int64          // offset at the latest call of progress
	resumed        int            // how often the download was resumed
}

// A fileVersion tells one version of a file from another. Servers need not send all of it.
type fileVersion struct {
	etag, modified string
	size           int64 // negative if not known
}

func fileVersionOf(resp *http.Response) fileVersion {
	return fileVersion{resp.Header.Get("ETag"), resp.Header.Get("Last-Modified"), resp.ContentLength}
}

// ifRange returns the header If-Range, with which a server sends a part of this version only. It is "" if the version
// does not allow that.
func (v fileVersion) ifRange() string {
	if strings.HasPrefix(v.etag, "W/") { // a weak one must not be used for parts (RFC 9110, 13.1.5)
		return v.modified
	}
	return cmp.Or(v.etag, v.modified)
}

// matches reports whether a part can be of the same version, as far as both tell.
func (v fileVersion) matches(part fileVersion) bool {
	return part.etag == v.etag &&
		(part.modified == v.modified || part.modified == "" || v.modified == "") &&
		(part.size == v.size || part.size < 0 || v.size < 0)
}

// errChanged means that the bytes read so far are of no use: the file was replaced during the download, or its server
// does not send parts.
var errChanged = errors.New("the file changed while it was fetched, or is not sent in parts")

// read fetches the file and parses it. It starts again as often as a download may be resumed.
func (f *download) read(pres *ranges.Response, opts ranges.Options) (*ranges.Response, message.Problems, error) {
	for {
		body, err := f.open()
		if err != nil {
			return nil, nil, err
		}
		got, problems, err := ranges.ReadFile(body, pres, opts)
		_, syntax := errors.AsType[*message.SyntaxError](err)
		switch {
		case err == nil, syntax:
			return got, problems, err
		case !errors.Is(err, errChanged) || f.resumed >= maxResumptions:
			return nil, nil, f.peer.bodyError(f.ctx, err)
		}
		f.offset, f.progressOffset = 0, 0
		f.sum.Reset()
	}
}

// open makes the first request and returns the content, decompressed.
func (f *download) open() (io.Reader, error) {
	u, err := url.Parse(f.url)
	named := func(host string) bool { return strings.EqualFold(host, u.Hostname()) }
	if err != nil || u.Scheme != "https" || !slices.ContainsFunc(f.peer.FileHosts, named) {
		return nil, &Error{Scheme: f.peer.Scheme, Kind: Connect, Text: "Host of the card range file is not configured"}
	}
	if err := f.request(); err != nil {
		return nil, err
	}
	return f.peer.decompress(f.ctx, f.resp.Header, f)
}

// request requests the file from the offset on.
func (f *download) request() error {
	req, err := http.NewRequestWithContext(f.ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	req.Header["User-Agent"] = []string{""}
	want := http.StatusOK
	if f.offset > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(f.offset, 10)+"-")
		if condition := f.version.ifRange(); condition != "" {
			req.Header.Set("If-Range", condition)
		}
		want = http.StatusPartialContent
	}
	resp, err := f.peer.files.RoundTrip(req)
	if err != nil {
		return f.peer.failure(f.ctx, err, true)
	}
	got := fileVersionOf(resp)
	from := int64(0)
	if resp.StatusCode == http.StatusPartialContent {
		from, got.size = parseContentRange(resp.Header.Get("Content-Range"))
	}
	switch {
	case f.offset > 0 && (resp.StatusCode == http.StatusOK || resp.StatusCode == want && !f.version.matches(got)):
		err = errChanged
	case resp.StatusCode != want:
		err = statusError(f.peer.Scheme, resp.StatusCode)
	case from != f.offset:
		err = errors.New("the answer does not begin where it was asked to")
	}
	if err != nil {
		resp.Body.Close()
		return err
	}
	if f.resp = resp; f.offset == 0 {
		f.version = got
	}
	f.version.size = max(f.version.size, got.size) // a later answer may tell the size
	return nil
}

// parseContentRange returns where a part begins and how many bytes the whole file has, each -1 if the header does not
// tell.
func parseContentRange(contentRange string) (from, size int64) {
	var to int64
	var all string
	if n, err := fmt.Sscanf(contentRange, "bytes %d-%d/%s", &from, &to, &all); err != nil || n < 3 {
		return -1, -1
	}
	size, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		size = -1
	}
	return from, size
}

// Read requests the rest of the file when the connection breaks, or when a part ends before the file does: a server may
// send less than was requested.
func (f *download) Read(b []byte) (int, error) {
	for {
		n, err := f.resp.Body.Read(b)
		f.offset += int64(n)
		f.sum.Write(b[:n])
		if f.offset-f.progressOffset >= progressInterval {
			f.progressOffset = f.offset
			f.progress(f.offset)
		}
		switch over := errors.Is(err, io.EOF); {
		case over && f.offset >= f.version.size:
			return n, io.EOF
		case n > 0 || err == nil:
			return n, nil
		case over:
			err = io.ErrUnexpectedEOF
		}
		f.resp.Body.Close()
		if f.resumed++; f.resumed > maxResumptions || f.ctx.Err() != nil {
			return 0, err
		}
		if bad := f.request(); bad != nil {
			return 0, bad
		}
	}
}

// Close ends the download.
func (f *download) Close() error {
	if f.resp == nil {
		return nil
	}
	return f.resp.Body.Close()
}

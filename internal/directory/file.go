package directory

import (
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
	"time"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/message"
)

const (
	resumptions   = 20       // of one download; each has to bring something
	progressEvery = 64 << 20 // bytes between two lines of the log
)

// downloads says whether files of card ranges are fetched at all.
func (p *peer) downloads() bool { return len(p.FileHosts) > 0 && *p.PReqVersion >= message.V231 }

// download fetches the file that a PRes names and uses it as a full set
// (PR-19 to PR-22).
func (r *refresher) download(ctx context.Context, about message.Error, pres *ranges.Response, opts ranges.Options) verdict {
	f := &file{p: r.p, ctx: ctx, url: pres.FileURL, sum: sha256.New(), progress: func(n int64) {
		r.log.Info("card range file on its way", "scheme", r.p.Scheme, "bytes", n)
	}}
	defer f.Close()
	start := time.Now()
	body, err := f.open()
	if err != nil {
		return r.undelivered(about, err)
	}
	got, problems, err := ranges.ReadFile(body, pres, opts)
	_, syntax := errors.AsType[*message.SyntaxError](err)
	switch {
	case syntax:
		r.reject(about, message.Problems{{Code: message.InvalidMessage, Note: unreadable}})
		return refused
	case err != nil:
		return r.undelivered(about, r.p.broken(ctx, err))
	case len(problems) > 0:
		r.reject(about, problems)
		return refused
	}
	r.log.Info("card range file fetched", "scheme", r.p.Scheme, "bytes", f.at, "resumed", f.resumed,
		"sha256", hex.EncodeToString(f.sum.Sum(nil)), "took", time.Since(start))
	return r.use(ctx, about, got)
}

// undelivered notes a file that did not come. The PRes was answered, so the
// floor holds.
func (r *refresher) undelivered(about message.Error, err error) verdict {
	r.log.Warn("card range file not fetched", "scheme", r.p.Scheme, "threeDSServerTransID", about.ServerTransID, "error", err)
	r.fault("the card range file did not come")
	return refused
}

// A file is a download that goes on where it broke off. What it reads is what
// is on the wire, still compressed.
type file struct {
	p        *peer
	ctx      context.Context //nolint:containedctx // it is a reader, and lives as long as one call
	url      string
	sum      hash.Hash
	progress func(int64)

	resp    *http.Response
	etag    string
	at      int64 // bytes that came
	told    int64
	resumed int
}

// errChanged is a file that is another one in the middle of its download.
var errChanged = errors.New("the file changed while it was fetched")

// open makes the first request and returns the content, uncompressed.
func (f *file) open() (io.Reader, error) {
	u, err := url.Parse(f.url)
	if err != nil || u.Scheme != "https" || !slices.Contains(f.p.FileHosts, u.Hostname()) {
		return nil, &Error{f.p.Scheme, Connect, "Host of the card range file is not configured", 0, nil}
	}
	if err := f.request(); err != nil {
		return nil, err
	}
	return f.p.uncompressed(f.ctx, f.resp.Header, f)
}

// request asks for the file from where it is on.
func (f *file) request() error {
	req, err := http.NewRequestWithContext(f.ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	req.Header["User-Agent"] = []string{""}
	want := http.StatusOK
	if f.at > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(f.at, 10)+"-")
		if f.etag != "" {
			req.Header.Set("If-Range", f.etag)
		}
		want = http.StatusPartialContent
	}
	resp, err := f.p.files.RoundTrip(req)
	if err != nil {
		return f.p.failure(f.ctx, err, true)
	}
	switch {
	case f.at > 0 && (resp.StatusCode == http.StatusOK || resp.Header.Get("ETag") != f.etag):
		err = errChanged
	case resp.StatusCode != want:
		err = statusError(f.p.Scheme, resp.StatusCode)
	case f.at > 0 && !startsAt(resp.Header.Get("Content-Range"), f.at):
		err = fmt.Errorf("the answer does not begin where it was asked to")
	}
	if err != nil {
		resp.Body.Close()
		return err
	}
	f.resp, f.etag = resp, resp.Header.Get("ETag")
	return nil
}

func startsAt(contentRange string, at int64) bool {
	var from, to int64
	var size string
	n, err := fmt.Sscanf(contentRange, "bytes %d-%d/%s", &from, &to, &size)
	return err == nil && n == 3 && from == at
}

// Read reads on, and asks again for the rest when the connection breaks.
func (f *file) Read(b []byte) (int, error) {
	for {
		n, err := f.resp.Body.Read(b)
		f.at += int64(n)
		f.sum.Write(b[:n])
		if f.at-f.told >= progressEvery {
			f.told = f.at
			f.progress(f.at)
		}
		if n > 0 || err == nil || errors.Is(err, io.EOF) {
			if errors.Is(err, io.EOF) {
				return n, io.EOF
			}
			return n, nil
		}
		f.resp.Body.Close()
		if f.resumed++; f.resumed > resumptions || f.ctx.Err() != nil {
			return 0, err
		}
		if bad := f.request(); bad != nil {
			return 0, bad
		}
	}
}

// Close ends the download.
func (f *file) Close() error {
	if f.resp == nil {
		return nil
	}
	return f.resp.Body.Close()
}

package rangequery

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/inspect"
	"github.com/openthreeds/threeds/message"
)

// A File is a file of card ranges that somebody has, for the directory of a scheme.
type File struct {
	Name     string // for what is said of it
	In       io.Reader
	Versions []message.Version  // of the directory, in order
	Used     *ranges.Generation // the generation in use; nil: none
}

// Read makes a generation of a PRes in a file, or of a file of card ranges as directory servers let it be fetched,
// with the checks that one from the directory server has to pass. What such a file leaves to the PRes is that of the
// generation in use. It shows its progress, and all faults, at stderr.
func (f *File) Read(ctx context.Context, stderr io.Writer) (*ranges.Generation, error) {
	p := terminal.NewProgress(stderr, f.Name, f.In)
	in := &presReader{ctx: ctx, raw: f.In, progress: p}
	response, problems, err := ranges.ReadSet(in, f.beside(),
		ranges.Options{Context: message.Context{Versions: f.Versions}})
	p.End()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	if head := response.Head; !head.Has("messageType") && !head.Has("messageVersion") &&
		!slices.Contains(f.Versions, message.V231) {
		return nil, fmt.Errorf(
			"%s: is no PRes, so a card range file of 2.3.1, and the directory is not configured for that version", f.Name)
	}
	if len(problems) == 0 {
		switch response.Kind {
		case ranges.Unchanged:
			return nil, fmt.Errorf("%s: brings no card range", f.Name)
		case ranges.File:
			return nil, fmt.Errorf("%s: brings only the address of its card ranges", f.Name)
		}
		var g *ranges.Generation
		if g, problems = response.Next(nil); len(problems) == 0 {
			if n := response.Notes; n.Skipped > 0 || n.Withheld > 0 {
				fmt.Fprintf(stderr,
					"%s: %s left out, for their start and end differ in length; %s without threeDSMethodURL, for no browser may be sent there\n",
					f.Name, terminal.Count(n.Skipped, "range"), terminal.Count(n.Withheld, "set of range data"))
			}
			return g, nil
		}
	}
	if response.Overlap != nil {
		problems = response.Overlap.Problems(problems[0].Code) // which ranges, in every version
	}
	for _, p := range problems {
		fmt.Fprintf(stderr, "%s: %s: %s %s\n", f.Name, p.Path, p.Code, inspect.DescribeProblem(p))
	}
	return nil, fmt.Errorf("%s: %s", f.Name, terminal.Count(len(problems), "fault"))
}

// beside is what there would be in a PRes that names the file.
func (f *File) beside() *ranges.Response {
	if used := f.Used; used != nil {
		return &ranges.Response{Version: message.V231, DS: used.DS, DSURLs: used.DSURLs}
	}
	var versions []string
	for _, v := range f.Versions {
		versions = append(versions, v.String())
	}
	return &ranges.Response{
		Version: message.V231, DS: ranges.DS{Start: versions[0], End: versions[len(versions)-1], Versions: versions},
	}
}

// A presReader reads a PRes that may be compressed, and can begin again.
type presReader struct {
	ctx      context.Context
	raw      io.Reader
	in       io.Reader
	progress *terminal.Progress
}

func (r *presReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.in == nil {
		plain := bufio.NewReaderSize(io.TeeReader(r.raw, r.progress), 256<<10)
		r.in = plain
		if start, _ := plain.Peek(2); string(start) == "\x1f\x8b" {
			unzipped, err := gzip.NewReader(plain)
			if err != nil {
				return 0, err
			}
			r.in = unzipped
		}
	}
	return r.in.Read(b)
}

// Seek goes to where the reader is when it is new, and nowhere else.
func (r *presReader) Seek(offset int64, whence int) (int64, error) {
	seeker, ok := r.raw.(io.Seeker)
	if !ok || offset != 0 || whence != io.SeekStart && r.in != nil {
		return 0, errors.ErrUnsupported
	}
	if _, err := seeker.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	r.in = nil
	r.progress.Reset()
	return 0, nil
}

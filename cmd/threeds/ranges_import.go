package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/inspect"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// rangesImport reads a PRes or a file of card ranges, and makes it the newest generation of a scheme.
func rangesImport(ctx context.Context, cmd *invocation) error {
	file := cmd.configFlag()
	rest, err := cmd.parseScheme("FILE")
	if err != nil {
		return err
	}
	return openRanges(ctx, *file, true, func(s *rangeStore) error {
		d, err := s.directory(rest[0])
		if err != nil {
			return err
		}
		used, number, err := s.inUse(ctx, d.Scheme, cmd.stderr)
		if err != nil && !errors.Is(err, errNoneWhole) { // an import is the way out of that
			return err
		}
		before, err := s.refreshStatus(ctx, d.Scheme)
		if err != nil {
			return err
		}
		if number == before.Generation && before.From != "" && before.From != d.PReqURL {
			used = nil // its versions and addresses are those of another directory server
		}
		g, err := readSet(ctx, rest[1], d, used, cmd.stdin, cmd.stderr)
		if err != nil {
			return err
		}
		g.From = d.PReqURL // should that change, its serial number means nothing there
		number, before, err = s.acts().ImportRanges(ctx, commandActor(), d.Scheme, g)
		if errors.Is(err, store.ErrHeld) {
			return fmt.Errorf("%s: a node is asking the directory server just now; try again when it is done", d.Scheme)
		}
		if err != nil {
			return err
		}
		serial := ""
		if g.Serial != "" {
			serial = ", serial number " + oneLine(g.Serial)
		}
		place := ""
		if before.Generation > 0 {
			place = fmt.Sprintf(", in place of generation %d with %s", before.Generation, countOf(before.Ranges, "range"))
		}
		_, err = fmt.Fprintf(cmd.stdout, "%s: generation %d with %s%s%s; nodes that serve take it within seconds\n",
			d.Scheme, number, countOf(g.Len(), "range"), serial, place)
		return err
	})
}

// readSet makes a generation of a PRes in a file, or of a file of card ranges as
// directory servers let it be fetched, with the checks that one from the
// directory server has to pass. What such a file leaves to the PRes is that of
// the generation in use.
func readSet(ctx context.Context, name string, d config.Directory, used *ranges.Generation, stdin io.Reader, stderr io.Writer) (*ranges.Generation, error) {
	raw, closeInput, err := openInput(name, stdin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeInput() }() // only read
	if name == "-" {
		name = "standard input"
	}
	p := newProgress(stderr, name, raw)
	in := &presReader{ctx: ctx, raw: raw, progress: p}
	response, problems, err := ranges.ReadSet(in, besideFile(d, used), ranges.Options{Context: message.Context{Versions: d.MessageVersions()}})
	p.end()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if head := response.Head; !head.Has("messageType") && !head.Has("messageVersion") && !slices.Contains(d.MessageVersions(), message.V231) {
		return nil, fmt.Errorf("%s: is no PRes, so a card range file of 2.3.1, and the directory is not configured for that version", name)
	}
	if len(problems) == 0 {
		switch response.Kind {
		case ranges.Unchanged:
			return nil, fmt.Errorf("%s: brings no card range", name)
		case ranges.File:
			return nil, fmt.Errorf("%s: brings only the address of its card ranges", name)
		}
		var g *ranges.Generation
		if g, problems = response.Next(nil); len(problems) == 0 {
			if n := response.Notes; n.Skipped > 0 || n.Withheld > 0 {
				fmt.Fprintf(stderr, "%s: %s left out, for their start and end differ in length; %s without threeDSMethodURL, for no browser may be sent there\n",
					name, countOf(n.Skipped, "range"), countOf(n.Withheld, "set of range data"))
			}
			return g, nil
		}
	}
	if response.Overlap != nil {
		problems = response.Overlap.Problems(problems[0].Code) // which ranges, in every version
	}
	for _, p := range problems {
		fmt.Fprintf(stderr, "%s: %s: %s %s\n", name, p.Path, p.Code, inspect.DescribeProblem(p))
	}
	return nil, fmt.Errorf("%s: %s", name, countOf(len(problems), "fault"))
}

// besideFile is what there would be in a PRes that names a file.
func besideFile(d config.Directory, used *ranges.Generation) *ranges.Response {
	if used != nil {
		return &ranges.Response{Version: message.V231, DS: used.DS, DSURLs: used.DSURLs}
	}
	versions := slices.Sorted(slices.Values(d.Versions))
	return &ranges.Response{Version: message.V231, DS: ranges.DS{Start: versions[0], End: versions[len(versions)-1], Versions: versions}}
}

// A presReader reads a PRes that may be compressed, and can begin again.
type presReader struct {
	ctx      context.Context
	raw      io.Reader
	in       io.Reader
	progress *progress
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
	r.progress.reset()
	return 0, nil
}

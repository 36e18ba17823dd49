package directory

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/tunnel"
	"github.com/openthreeds/threeds/message"
)

// exchange makes one exchange of PReq and PRes and uses what it brings. If anything is
// wrong with that, the ranges in use stay as they are.
func (r *refresher) exchange(ctx context.Context, attempts int) verdict {
	p := r.p
	version, id := p.preqVersion(), newTransID()
	preq := message.MustCompose(message.PReq, version, r.members(version, id)...)
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.PReqTimeout)
	defer cancel()
	ctx, ended := r.hooks.begun(ctx, p.Scheme, message.PReq.String(), id)
	body, err := p.prepare(ctx, preq, requestID(version, id), attempts)
	var got verdict
	if err == nil {
		defer body.Close()
		got, err = r.receive(ctx, preq, body)
	}
	ended(err)
	if errors.Is(ctx.Err(), context.Canceled) {
		return unreachable
	}
	r.hooks.exchanged(p.Scheme, message.PReq.String(), start, err)
	defer r.cards.MarkTried(p.Scheme)
	if err != nil {
		return r.unanswered(ctx, id, err)
	}
	r.silent = false
	return got
}

// members are what a PReq says.
func (r *refresher) members(version message.Version, id string) []message.Member {
	all := []message.Member{
		{Name: "threeDSServerOperatorID", Text: r.p.OperatorID},
		{Name: "threeDSServerRefNumber", Text: r.p.RefNumber(version)},
		{Name: "threeDSServerTransID", Text: id},
		{Name: "serialNum", Text: r.serial()},
	}
	if version >= message.V231 && r.p.downloads() {
		all = append(all, message.Member{Name: "cardRangeDataDownloadInd", Text: "Y"})
	}
	return all
}

// prepare sends a PReq and returns the answer's body, uncompressed.
func (p *peer) prepare(ctx context.Context, preq []byte, header http.Header, attempts int) (io.ReadCloser, error) {
	header.Set("Accept-Encoding", "gzip")
	resp, err := p.post(ctx, []string{p.PReqURL}, preq, header, attempts)
	if err != nil {
		return nil, err
	}
	body, err := p.uncompressed(ctx, resp.Header, resp.Body)
	if err != nil {
		resp.Body.Close()
	}
	return body, err
}

// uncompressed returns body, or the content of body if the header says that it is
// compressed. Either reads and closes body.
func (p *peer) uncompressed(ctx context.Context, header http.Header, body io.ReadCloser) (io.ReadCloser, error) {
	switch encoding := strings.ToLower(header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		z := &unzipped{body: body, left: p.MaxPRes}
		plain, err := gzip.NewReader(z.raw())
		if err != nil {
			return nil, p.broken(ctx, z.judge(err))
		}
		z.plain = plain
		return z, nil
	default:
		return nil, p.badly(fmt.Errorf("content encoding %q", encoding))
	}
}

// unzipped is the content of a compressed body. When the content ends too early, it
// tells apart whether the directory server compressed badly (errShort) or the connection
// broke (io.ErrUnexpectedEOF).
type unzipped struct {
	body  io.ReadCloser
	plain *gzip.Reader // nil until its header is read
	whole bool         // the body came to its end
	left  int64        // how many more bytes of the body are allowed
}

var errShort = errors.New("compressed content ends too early")

func (z *unzipped) Read(b []byte) (int, error) {
	n, err := z.plain.Read(b)
	return n, z.judge(err)
}

func (z *unzipped) Close() error { return z.body.Close() }

// judge makes errShort of an error that says that the content ends, if the body did not
// break off.
func (z *unzipped) judge(err error) error {
	if z.whole && (err == io.ErrUnexpectedEOF || z.plain == nil && err == io.EOF) {
		return errShort
	}
	return err
}

// raw is the body as the decompressor reads it. It may be no longer than the content
// may: otherwise gzip members without content could follow each other without end.
func (z *unzipped) raw() io.Reader {
	return readerFunc(func(b []byte) (int, error) {
		n, err := z.body.Read(b)
		z.whole = z.whole || err == io.EOF
		if z.left -= int64(n); z.left < 0 {
			return n, ranges.ErrTooLarge
		}
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// badly makes the Error of content that is not compressed as it should be.
func (p *peer) badly(err error) error {
	return &Error{Scheme: p.Scheme, Kind: Encoding, Text: "Answer is not encoded as asked for", Err: err}
}

// broken makes an Error of what went wrong while a body was read.
func (p *peer) broken(ctx context.Context, err error) error {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	switch {
	case corrupt, errors.Is(err, errShort), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return p.badly(err)
	case errors.Is(err, ranges.ErrTooLarge):
		return &Error{Scheme: p.Scheme, Kind: TooLarge, Text: "Answer too large"}
	}
	return p.failure(ctx, err, true)
}

// unanswered judges a PReq that brought no readable answer. A directory server that
// answered all the same is not asked again before the floor, unless its status was 5xx.
// Several failures in a row are a warning only once.
func (r *refresher) unanswered(ctx context.Context, id string, err error) verdict {
	p := r.p
	level := slog.LevelWarn
	if r.silent {
		level = slog.LevelDebug
	}
	r.silent = true
	r.log.Log(ctx, level, "card ranges not refreshed", "scheme", p.Scheme, "threeDSServerTransID", id, "err", err)
	e, ok := errors.AsType[*Error](err)
	text := "no answer"
	if ok {
		text = e.Text
	}
	if through, ok := errors.AsType[*tunnel.Error](err); ok {
		text += " (" + through.Proxy + ")"
	}
	r.fault(text)
	switch {
	case ok && e.Kind == Encoding:
		r.reject(ctx, message.Error{ServerTransID: id}, message.Problems{{Code: message.InvalidMessage, Note: unreadable}})
		return refused
	case ok && (e.Kind == TooLarge || e.Kind == Status && e.Status < 500):
		return refused
	}
	return unreachable
}

// fault notes what was wrong with the latest exchange.
func (r *refresher) fault(text string) {
	r.standing.Fault, r.standing.FaultAt = text, time.Now().UTC()
}

// What errorDetail says with code 101.
const (
	unreadable  = "Invalid Formatted Message"
	unknownType = "Invalid Message Type"
	wrongType   = "Invalid Message for the receiving component"
)

// receive reads a PRes and uses it, or tells the directory server what is wrong with
// it. An error means that no whole PRes came.
func (r *refresher) receive(ctx context.Context, preq []byte, body io.Reader) (verdict, error) {
	request, err := message.Parse(preq, message.Limits{})
	if err != nil {
		panic(fmt.Sprintf("directory: a PReq of ours: %v", err))
	}
	about := message.Error{ServerTransID: request.Text("threeDSServerTransID")}
	opts := ranges.Options{
		Source:  ranges.Source{Lab: r.p.Lab},
		Context: message.Context{PReq: request, Versions: r.p.Versions},
		Bytes:   r.p.MaxPRes,
	}
	pres, problems, err := ranges.ReadPRes(body, opts)
	// A peer that sees us hang up at the deadline may end its answer properly.
	if ctx.Err() != nil {
		return unreachable, r.p.failure(ctx, ctx.Err(), true)
	}
	if _, bad := errors.AsType[*message.SyntaxError](err); bad {
		r.reject(ctx, about, message.Problems{{Code: message.InvalidMessage, Note: unreadable}})
		return refused, nil
	}
	if err != nil {
		return unreachable, r.p.broken(ctx, err)
	}
	return r.judge(ctx, about, pres, problems, opts), nil
}

// judge decides what to do with an answer that could be read.
func (r *refresher) judge(ctx context.Context, about message.Error, pres *ranges.Response, problems message.Problems, opts ranges.Options) verdict {
	head := pres.Head
	if id := head.Text("dsTransID"); message.IsUUID(id) {
		about.DSTransID = id
	}
	typ, known := head.Type()
	switch {
	case known && typ == message.Erro:
		return r.erro(about, message.ReadError(head))
	case known && typ != message.PRes:
		about.MessageType = typ.String()
		r.reject(ctx, about, message.Problems{{Code: message.InvalidMessage, Note: wrongType}})
		return refused
	case !known && head.Has("messageType"):
		r.reject(ctx, about, message.Problems{{Code: message.InvalidMessage, Note: unknownType}})
		return refused
	}
	if known {
		about.MessageType = message.PRes.String()
	}
	if len(problems) > 0 {
		r.rejectRanges(ctx, about, problems)
		return refused
	}
	if pres.Kind == ranges.File {
		return r.download(ctx, about, pres, opts)
	}
	return r.use(ctx, about, pres)
}

// erro heeds an Erro in answer to a PReq: code 307 asks for a full load next
// time (PR-06).
func (r *refresher) erro(about message.Error, bad message.Error) verdict {
	r.log.Warn("card ranges refused", "scheme", r.p.Scheme, "threeDSServerTransID", about.ServerTransID, "err", bad.Error())
	r.fault("the directory server answered with an Erro of code " + bad.Code.String())
	if bad.Code == message.SerialNumber {
		r.standing.Full = true
	}
	return refused
}

// use puts what a PRes or a file brings in place of the generation in use, if it is
// valid. It holds back one with less than half as many ranges.
func (r *refresher) use(ctx context.Context, about message.Error, pres *ranges.Response) verdict {
	base := r.cards.Generation(r.p.Scheme)
	since := base
	if base != nil && r.p.foreign(base) {
		since = nil
	}
	next, problems := pres.Next(since)
	if len(problems) > 0 {
		r.rejectRanges(ctx, about, problems)
		return refused
	}
	if n := pres.Notes; n.Skipped > 0 || n.Withheld > 0 {
		r.log.Warn("card ranges left out in part", "scheme", r.p.Scheme, "skipped", n.Skipped, "method URLs withheld", n.Withheld)
	}
	if next != nil {
		next.From = r.p.PReqURL
	}
	switch {
	case pres.Kind == ranges.Unchanged:
		r.unchanged(ctx, base, next)
		return fresh
	case next.Len() == 0 && base.Len() == 0:
		r.log.Warn("card ranges empty", "scheme", r.p.Scheme)
		r.fault("the directory server has no card ranges")
		return fresh
	case 2*next.Len() < base.Len():
		r.holdBack(ctx, next, base)
		return fresh
	}
	r.adopt(ctx, next)
	r.log.Info("card ranges refreshed", "scheme", r.p.Scheme, "ranges", next.Len(), "serial", next.Serial != "")
	return fresh
}

// unchanged uses a PRes without ranges: those in use still hold, but the versions and
// the addresses of the directory server may be others. If they are, or if the address
// that PReqs go to is, or if the store does not have what is in use, next is stored as a
// generation of its own, for all nodes; if not, only the time is noted.
func (r *refresher) unchanged(ctx context.Context, base, next *ranges.Generation) {
	r.log.Info("card ranges unchanged", "scheme", r.p.Scheme)
	if next == nil {
		r.fault("the directory server has no card ranges")
		return
	}
	same := reflect.DeepEqual(base.DS, next.DS) && slices.Equal(base.DSURLs, next.DSURLs) && base.From == next.From
	if !same || r.unkept || r.loaded != r.standing.Generation {
		r.adopt(ctx, next)
		return
	}
	next.Loaded = time.Now().UTC()
	r.standing.describe(next)
	r.put(next, r.loaded)
}

// holdBack keeps a generation out of use that has less than half of the ranges
// of the one before, until an operator says that it is right.
func (r *refresher) holdBack(ctx context.Context, next, base *ranges.Generation) {
	next.Scheme, next.Loaded = r.p.Scheme, time.Now().UTC()
	r.log.Error("card ranges held back: less than half of those in use", "scheme", r.p.Scheme,
		"ranges", next.Len(), "in use", base.Len())
	r.fault(fmt.Sprintf("held back: %d ranges after %d", next.Len(), base.Len()))
	number, err := keepGeneration(ctx, r.keeper, heldScheme(r.p.Scheme), next, r.lease, 1)
	if err != nil {
		r.complain(ctx, "held generation not kept", err)
		return
	}
	r.standing.Held, r.standing.HeldOf, r.standing.HeldFrom = number, next.Len(), r.p.PReqURL
}

// rejectRanges is reject for a PRes. If its ranges are what is not valid, the next PReq
// asks for all of them: the same serial number would bring the same updates, which would
// never be valid.
func (r *refresher) rejectRanges(ctx context.Context, about message.Error, problems message.Problems) {
	if slices.ContainsFunc(problems, func(p message.Problem) bool { return strings.HasPrefix(string(p.Path), "cardRangeData") }) {
		r.standing.Full = true
	}
	r.reject(ctx, about, problems)
}

// reject tells the directory server that its PRes is not valid. The log gets
// names of elements only: errorDetail may hold bounds of ranges.
func (r *refresher) reject(ctx context.Context, about message.Error, problems message.Problems) {
	about.Version = r.p.preqVersion()
	about.Code, about.Detail = problems.Pick(message.ForPeer)
	r.log.WarnContext(ctx, "PRes not valid", "scheme", r.p.Scheme, "threeDSServerTransID", about.ServerTransID,
		"code", about.Code.String(), "element", problems[0].Path.Name(), "faults", len(problems))
	r.fault("PRes not valid: code " + about.Code.String() + " " + problems[0].Path.Name())
	r.report(ctx, r.p, []string{r.p.PReqURL}, about.JSON())
}

// newTransID returns a random UUID of version 4.
func newTransID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

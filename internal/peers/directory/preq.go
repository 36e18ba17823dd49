package directory

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/peers/tunnel"
	"github.com/openthreeds/threeds/message"
)

// exchangePReq sends a PReq and applies the PRes. If the answer cannot be used, the ranges in use stay.
func (r *refresher) exchangePReq(ctx context.Context, attempts int) outcome {
	p := r.peer
	version, id := p.preqVersion(), newTransID()
	preq := message.MustCompose(message.PReq, version, r.preqMembers(version, id)...)
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.PReqTimeout)
	defer cancel()
	ctx, ended := r.hooks.beginMessage(ctx, p.Scheme, message.PReq.String(), id)
	body, err := p.sendPReq(ctx, preq, requestIDHeader(version, id), attempts)
	var got outcome
	if err == nil {
		defer body.Close()
		got, err = r.receivePRes(ctx, preq, body)
	}
	ended(err)
	if errors.Is(ctx.Err(), context.Canceled) {
		return unreachable
	}
	r.hooks.reportExchange(p.Scheme, message.PReq.String(), start, err)
	defer r.cards.MarkTried(p.Scheme)
	if err != nil {
		return r.handleFailure(ctx, id, err)
	}
	r.failureLogged = false
	return got
}

// preqMembers returns the members of a PReq.
func (r *refresher) preqMembers(version message.Version, id string) []message.Member {
	all := []message.Member{
		{Name: "threeDSServerOperatorID", Text: r.peer.OperatorID},
		{Name: "threeDSServerRefNumber", Text: r.peer.RefNumber(version)},
		{Name: "threeDSServerTransID", Text: id},
		{Name: "serialNum", Text: r.nextSerial()},
	}
	if version >= message.V231 && r.peer.downloadsFiles() {
		all = append(all, message.Member{Name: "cardRangeDataDownloadInd", Text: "Y"})
	}
	return all
}

// sendPReq sends a PReq and returns the body of the answer, decompressed.
func (p *peer) sendPReq(ctx context.Context, preq []byte, header http.Header, attempts int) (io.ReadCloser, error) {
	header.Set("Accept-Encoding", "gzip")
	resp, err := p.post(ctx, []string{p.PReqURL}, preq, header, attempts)
	if err != nil {
		return nil, err
	}
	body, err := p.decompress(ctx, resp.Header, resp.Body)
	if err != nil {
		resp.Body.Close()
	}
	return body, err
}

// decompress returns body, or its decompressed content if the header says that it is compressed. To read and close the
// result reads and closes body.
func (p *peer) decompress(ctx context.Context, header http.Header, body io.ReadCloser) (io.ReadCloser, error) {
	switch encoding := strings.ToLower(header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		z := &gzipBody{body: body, remaining: p.MaxPRes}
		plain, err := gzip.NewReader(z.compressed())
		if err != nil {
			return nil, p.bodyError(ctx, z.checkTruncation(err))
		}
		z.plain = plain
		return z, nil
	default:
		return nil, p.decompressionError(fmt.Errorf("content encoding %q", encoding))
	}
}

// gzipBody is the content of a compressed body. When the content ends too early, it
// is errTruncated if the body is complete: the directory server sent it so. If the connection broke, it is
// io.ErrUnexpectedEOF.
type gzipBody struct {
	body      io.ReadCloser
	plain     *gzip.Reader // nil until its header is read
	complete  bool         // the body was read to its end
	remaining int64        // bytes of the body that may still be read
}

var errTruncated = errors.New("compressed content ends too early")

func (z *gzipBody) Read(b []byte) (int, error) {
	n, err := z.plain.Read(b)
	return n, z.checkTruncation(err)
}

func (z *gzipBody) Close() error { return z.body.Close() }

// checkTruncation returns errTruncated if the error says that the content ended too early, although the body is
// complete.
func (z *gzipBody) checkTruncation(err error) error {
	if z.complete && (err == io.ErrUnexpectedEOF || z.plain == nil && err == io.EOF) {
		return errTruncated
	}
	return err
}

// compressed returns the body for the decompressor. It may not be longer than the content may be: otherwise empty gzip
// members could follow each other without end.
func (z *gzipBody) compressed() io.Reader {
	return readerFunc(func(b []byte) (int, error) {
		n, err := z.body.Read(b)
		z.complete = z.complete || err == io.EOF
		if z.remaining -= int64(n); z.remaining < 0 {
			return n, ranges.ErrTooLarge
		}
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// decompressionError wraps a failure to decompress an answer.
func (p *peer) decompressionError(err error) error {
	return &Error{Scheme: p.Scheme, Kind: Encoding, Text: "Answer is not encoded as asked for", Err: err}
}

// bodyError wraps an error of reading a body.
func (p *peer) bodyError(ctx context.Context, err error) error {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	switch {
	case corrupt, errors.Is(err, errTruncated), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return p.decompressionError(err)
	case errors.Is(err, ranges.ErrTooLarge):
		return &Error{Scheme: p.Scheme, Kind: TooLarge, Text: "Answer too large"}
	}
	return p.failure(ctx, err, true)
}

// handleFailure logs a PReq without a readable answer and returns its outcome. If the directory server did answer, the
// next PReq keeps the least interval, unless the status was 5xx. Several failures in a row are logged as a warning only
// once.
func (r *refresher) handleFailure(ctx context.Context, id string, err error) outcome {
	p := r.peer
	level := slog.LevelWarn
	if r.failureLogged {
		level = slog.LevelDebug
	}
	r.failureLogged = true
	r.log.Log(ctx, level, "card ranges not refreshed", "scheme", p.Scheme, "threeDSServerTransID", id, "err", err)
	e, ok := errors.AsType[*Error](err)
	text := "no answer"
	if ok {
		text = e.Text
	}
	if through, ok := errors.AsType[*tunnel.Error](err); ok {
		text += " (" + through.Proxy + ")"
	}
	r.setFault(text)
	switch {
	case ok && e.Kind == Encoding:
		return r.reject(ctx, message.Error{ServerTransID: id},
			message.Problems{{Code: message.InvalidMessage, Note: unreadable}})
	case ok && (e.Kind == TooLarge || e.Kind == Status && e.Status < 500):
		return refused
	}
	return unreachable
}

// setFault sets the fault of the latest exchange in the status.
func (r *refresher) setFault(text string) {
	r.status.Fault, r.status.FaultAt = text, time.Now().UTC()
}

// Texts of errorDetail with code 101.
const (
	unreadable  = "Invalid Formatted Message"
	unknownType = "Invalid Message Type"
	wrongType   = "Invalid Message for the receiving component"
)

// receivePRes reads a PRes and applies it, or reports to the directory server why it is not valid. An error means that
// no complete PRes came.
func (r *refresher) receivePRes(ctx context.Context, preq []byte, body io.Reader) (outcome, error) {
	request, err := message.Parse(preq, message.Limits{})
	if err != nil {
		panic(fmt.Sprintf("directory: our PReq cannot be parsed: %v", err))
	}
	about := message.Error{ServerTransID: request.Text("threeDSServerTransID")}
	opts := ranges.Options{
		Source:  ranges.Source{Lab: r.peer.Lab},
		Context: message.Context{PReq: request, Versions: r.peer.Versions},
		Bytes:   r.peer.MaxPRes,
	}
	pres, problems, err := ranges.ReadPRes(body, opts)
	// When our deadline closes the connection, the peer may end its answer properly.
	if ctx.Err() != nil {
		return unreachable, r.peer.failure(ctx, ctx.Err(), true)
	}
	if _, bad := errors.AsType[*message.SyntaxError](err); bad {
		return r.reject(ctx, about, message.Problems{{Code: message.InvalidMessage, Note: unreadable}}), nil
	}
	if err != nil {
		return unreachable, r.peer.bodyError(ctx, err)
	}
	return r.handlePRes(ctx, about, pres, problems, opts), nil
}

// handlePRes checks the type of an answer that could be parsed, and applies or rejects it.
func (r *refresher) handlePRes(ctx context.Context, about message.Error, pres *ranges.Response,
	problems message.Problems, opts ranges.Options) outcome {
	head := pres.Head
	if id := head.Text("dsTransID"); message.IsUUID(id) {
		about.DSTransID = id
	}
	typ, known := head.Type()
	switch {
	case known && typ == message.Erro:
		return r.handleErro(about, message.ReadError(head))
	case known && typ != message.PRes:
		about.MessageType = typ.String()
		return r.reject(ctx, about, message.Problems{{Code: message.InvalidMessage, Note: wrongType}})
	case !known && head.Has("messageType"):
		return r.reject(ctx, about, message.Problems{{Code: message.InvalidMessage, Note: unknownType}})
	}
	if known {
		about.MessageType = message.PRes.String()
	}
	if len(problems) > 0 {
		return r.rejectRanges(ctx, about, problems)
	}
	if pres.Kind == ranges.File {
		return r.downloadFile(ctx, about, pres, opts)
	}
	return r.applyPRes(ctx, about, pres)
}

// handleErro logs an Erro that answers a PReq. After code 307 the next PReq asks for all ranges
// (docs/conformance.md, PR-06).
func (r *refresher) handleErro(about message.Error, bad message.Error) outcome {
	r.log.Warn("card ranges refused", "scheme", r.peer.Scheme, "threeDSServerTransID", about.ServerTransID,
		"err", bad.Error())
	r.setFault("the directory server answered with an Erro of code " + bad.Code.String())
	if bad.Code == message.SerialNumber {
		r.status.Full = true
	}
	return refused
}

// applyPRes replaces the generation in use by that of a PRes or a file, if it is valid. A generation with less than
// half as many ranges is held back.
func (r *refresher) applyPRes(ctx context.Context, about message.Error, pres *ranges.Response) outcome {
	base := r.cards.Generation(r.peer.Scheme)
	since := base
	if base != nil && r.peer.isForeign(base) {
		since = nil
	}
	next, problems := pres.Next(since)
	if len(problems) > 0 {
		return r.rejectRanges(ctx, about, problems)
	}
	if n := pres.Notes; n.Skipped > 0 || n.Withheld > 0 {
		r.log.Warn("card ranges left out in part", "scheme", r.peer.Scheme, "skipped", n.Skipped,
			"method URLs withheld", n.Withheld)
	}
	if next != nil {
		next.From = r.peer.PReqURL
	}
	switch {
	case pres.Kind == ranges.Unchanged:
		r.confirmRanges(ctx, base, next)
		return fresh
	case next.Len() == 0 && base.Len() == 0:
		r.log.Warn("card ranges empty", "scheme", r.peer.Scheme)
		r.setFault("the directory server has no card ranges")
		return fresh
	case 2*next.Len() < base.Len():
		r.holdBack(ctx, next, base)
		return fresh
	}
	r.activate(ctx, next)
	r.log.Info("card ranges refreshed", "scheme", r.peer.Scheme, "ranges", next.Len(), "serial", next.Serial != "")
	return fresh
}

// confirmRanges applies a PRes without ranges: the ranges in use still hold. The versions and addresses of the
// directory server may have changed, and the address of PReqs too. If any has, or if the store lacks the ranges in use,
// next is stored as a new generation for all nodes. Otherwise only the time is updated.
func (r *refresher) confirmRanges(ctx context.Context, base, next *ranges.Generation) {
	r.log.Info("card ranges unchanged", "scheme", r.peer.Scheme)
	if next == nil {
		r.setFault("the directory server has no card ranges")
		return
	}
	same := reflect.DeepEqual(base.DS, next.DS) && slices.Equal(base.DSURLs, next.DSURLs) && base.From == next.From
	if !same || r.notStored || r.storedGeneration != r.status.Generation {
		r.activate(ctx, next)
		return
	}
	next.Loaded = time.Now().UTC()
	r.status.markCurrent(next)
	r.publish(next, r.storedGeneration)
}

// holdBack stores a generation with less than half of the ranges in use without using it. An operator has to accept it.
func (r *refresher) holdBack(ctx context.Context, next, base *ranges.Generation) {
	next.Scheme, next.Loaded = r.peer.Scheme, time.Now().UTC()
	r.log.Error("card ranges held back: less than half of those in use", "scheme", r.peer.Scheme,
		"ranges", next.Len(), "in use", base.Len())
	r.setFault(fmt.Sprintf("held back: %d ranges after %d", next.Len(), base.Len()))
	number, err := storeGeneration(ctx, r.keeper, heldScheme(r.peer.Scheme), next, r.lease, 1)
	if err != nil {
		r.logStoreError(ctx, "held generation not kept", err)
		return
	}
	r.status.Held, r.status.HeldRanges, r.status.HeldFrom = number, next.Len(), r.peer.PReqURL
}

// rejectRanges rejects a PRes. If the fault is in its ranges, the next PReq asks for all ranges: the same serial number
// would bring the same updates, which would never be valid.
func (r *refresher) rejectRanges(ctx context.Context, about message.Error, problems message.Problems) outcome {
	if slices.ContainsFunc(problems, func(p message.Problem) bool {
		return strings.HasPrefix(string(p.Path), "cardRangeData")
	}) {
		r.status.Full = true
	}
	return r.reject(ctx, about, problems)
}

// reject reports to the directory server that its PRes is not valid, and returns the outcome refused. The log gets
// names of elements only, since errorDetail may contain bounds of ranges.
func (r *refresher) reject(ctx context.Context, about message.Error, problems message.Problems) outcome {
	about.Version = r.peer.preqVersion()
	about.Code, about.Detail = problems.Pick(message.ForPeer)
	r.log.WarnContext(ctx, "PRes not valid", "scheme", r.peer.Scheme, "threeDSServerTransID", about.ServerTransID,
		"code", about.Code.String(), "element", problems[0].Path.Name(), "faults", len(problems))
	r.setFault("PRes not valid: code " + about.Code.String() + " " + problems[0].Path.Name())
	r.reportTo(ctx, r.peer, []string{r.peer.PReqURL}, about.JSON())
	return refused
}

// newTransID returns a new transaction id.
func newTransID() string { return uuid.New() }

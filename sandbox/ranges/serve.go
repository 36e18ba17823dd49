package ranges

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// A Service is how a directory server answers PReqs. The zero value is
// well-behaved.
type Service struct {
	// Fault is what is wrong with the answers: a line of scenarios/ranges.txt,
	// such as "erro 103". "" is nothing.
	Fault string `json:"fault,omitempty"`

	// Delay is how long an answer takes to begin.
	Delay time.Duration `json:"-"`

	// Times is how many answers have the fault and the delay. Zero means all.
	Times int `json:"times,omitempty"`

	// Pace is for how long after a PReq another one gets Erro 103; real
	// directory servers want an hour. Zero means no limit.
	Pace time.Duration `json:"-"`

	// ReadOrder is 01 or 02, 2.3.1: with 02 an array of changes stands the other
	// way round. "" means 01.
	ReadOrder string `json:"readOrder,omitempty"`

	// Steps sends a range's changes one by one. Without it only their result is sent. A change that happened twice is sent
	// twice, which 2.3.1 forbids.
	Steps bool `json:"steps,omitempty"`

	// Together is how many pairs of bounds share an entry in 2.3.1. Zero means
	// one, and 5000 for generated ranges.
	Together int `json:"together,omitempty"`

	// Bare leaves out actionInd where it is A, which it then means.
	Bare bool `json:"bare,omitempty"`

	// Plain sends nothing under gzip. Otherwise a server that accepts gzip gets
	// it.
	Plain bool `json:"plain,omitempty"`

	// URLs is dsUrlList, 2.3.1.
	URLs []DSURL `json:"urls,omitempty"`

	// Keep is the number of generations back to which changes are sent. Zero means 100.
	Keep int `json:"keep,omitempty"`

	// File is the file that a server may download in place of cardRangeData.
	File File `json:"file,omitzero"`
}

// A DSURL is an entry of dsUrlList.
type DSURL struct {
	URL     string `json:"threeDSServerToDsUrl"`
	Country string `json:"dsCountryCode,omitempty"`
}

// Serve sets how PReqs are answered from now on.
func (r *Set) Serve(s Service) error {
	if _, _, err := readFault(s.Fault); err != nil {
		return fmt.Errorf("sandbox: ranges of %s: %w", r.o.Scheme, err)
	}
	if !slices.Contains([]string{"", "01", "02"}, s.ReadOrder) {
		return fmt.Errorf("sandbox: ranges of %s: read order %q: want 01 or 02", r.o.Scheme, s.ReadOrder)
	}
	if s.File.Status != 0 && (s.File.Status < 200 || s.File.Status > 599) {
		return fmt.Errorf("sandbox: ranges of %s: file: status %d: want 200 to 599", r.o.Scheme, s.File.Status)
	}
	s.URLs = slices.Clone(s.URLs)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.service, r.fetched, r.edition = s, 0, 0
	r.dropOldGenerations()
	return nil
}

// Service is how PReqs are answered.
func (r *Set) Service() Service {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.service
}

// A pres is a PRes that is being made.
type pres struct {
	peer.Object // before cardRangeData
	tail        peer.Object
	content
	service Service
	fault   string
	file    string // the address
}

// nextService is how the answer that is due is given, and whether the PReq came too
// soon.
func (r *Set) nextService() (s Service, soon bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s = r.service
	if s.Times > 0 {
		if r.service.Times--; r.service.Times == 0 {
			r.service.Fault, r.service.Delay = "", 0
		}
	}
	now := r.o.Now()
	if soon = s.Pace > 0 && !r.asked.IsZero() && now.Sub(r.asked) < s.Pace; !soon {
		r.asked = now
	}
	return s, soon
}

// A PReq is what counts of a message PReq.
type PReq struct {
	Version     string
	TransID     string
	Serial      string                    // serialNum; empty asks for the whole set
	WantsFile   bool                      // cardRangeDataDownloadInd
	AnswerError func(code, detail string) // answers with an Erro
}

// ServePReq answers a PReq that is a good message.
func (r *Set) ServePReq(w http.ResponseWriter, req *http.Request, q PReq) {
	s, soon := r.nextService()
	select {
	case <-time.After(s.Delay):
	case <-req.Context().Done():
		panic(http.ErrAbortHandler)
	}
	fault, arg, _ := readFault(s.Fault) // Serve has read it
	switch {
	case fault == "silence":
		r.noteNoAnswer(q, fault)
		<-req.Context().Done()
		panic(http.ErrAbortHandler)
	case fault == "reset":
		r.noteNoAnswer(q, fault)
		resetConnection(w)
	case fault == "status":
		r.noteNoAnswer(q, s.Fault)
		status, _ := strconv.Atoi(arg)
		http.Error(w, http.StatusText(status), status)
	case fault == "erro":
		q.AnswerError(arg, "PReq: a fault that was asked for")
	case fault == "garbage":
		r.sendBody(w, req, q,
			singleChunk([]byte("<!DOCTYPE html>\n<title>Sign in</title>\n<h1>Welcome to the hotel's network</h1>\n")), s)
	case soon:
		q.AnswerError("103", "PReq: not more than one within "+s.Pace.String())
	default:
		p, isKnown := r.answer(q, s)
		if !isKnown {
			q.AnswerError("307", "serialNum: ask without one")
			return
		}
		parts := p.body(s, p.Members(), p.tail.Members())
		if fault == "truncated" {
			parts = cut(parts, bytesOf(arg, parts))
		}
		r.sendBody(w, req, q, parts, s)
	}
}

// noteNoAnswer writes down that no answer was given.
func (r *Set) noteNoAnswer(q PReq, fault string) {
	r.o.Log.Debug("no card ranges", "scheme", r.o.Scheme, "fault", fault)
	r.o.Note(q.TransID, Note{Type: "PRes", Text: fault})
}

// resetConnection ends a connection without the courtesies.
func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if plain, ok := conn.(*net.TCPConn); ok {
		_ = plain.SetLinger(0) // what fails here is closed all the same
	}
	_ = conn.Close()
}

// bytesOf returns the argument of a fault: a number of bytes, or half of all.
func bytesOf(arg string, parts body) int64 {
	if arg == "" {
		return size(parts) / 2
	}
	n, _ := strconv.ParseInt(arg, 10, 64) // readFault has read it
	return n
}

// answer makes the PRes. It is false when the serial number is not known.
func (r *Set) answer(q PReq, s Service) (*pres, bool) {
	p := &pres{service: s}
	p.fault, p.arg, _ = readFault(s.Fault)
	p.ranges, p.version = r, q.Version
	p.file = r.fileURL(q, s)

	r.mu.Lock()
	defer r.mu.Unlock()
	p.have, p.serial = r.snapshot(), r.serial
	download := q.Version == peer.V231 && q.Serial == "" && s.File.On && q.WantsFile
	if q.Serial == "" {
		p.full, p.some, p.items = true, true, p.have.items()
	} else {
		changes, ok := r.since(q.Serial, s.Steps)
		if !ok {
			return nil, false
		}
		if s.ReadOrder == "02" && q.Version == peer.V231 {
			slices.Reverse(changes)
		}
		p.some, p.items = len(changes) > 0, slices.Values(changes)
	}
	f := faults[p.fault]
	if f.data != nil {
		f.data(&p.content)
	}
	if download {
		p.some, p.serial = false, ""
	}
	p.members(q)
	if download {
		p.Put("cardRangeDataFileURL", p.file)
	}
	if f.members != nil {
		f.members(p)
	}
	return p, true
}

// members puts what stands around cardRangeData.
func (p *pres) members(q PReq) {
	p.Put("messageType", "PRes")
	p.Put("messageVersion", p.version)
	p.Put("threeDSServerTransID", q.TransID)
	p.Put("dsTransID", uuid.New())
	p.Put("serialNum", p.serial)
	if p.version != peer.V231 {
		p.Put("dsStartProtocolVersion", peer.V210)
		p.Put("dsEndProtocolVersion", peer.V231)
	} else {
		p.Put("dsProtocolVersions", peer.Versions())
		p.Put("readOrder", cmp.Or(p.service.ReadOrder, "01"))
		if p.service.URLs != nil {
			p.Put("dsUrlList", p.service.URLs)
		}
	}
	if !p.ranges.o.Nice {
		p.tail.Put("sandboxRemark", peer.UnknownMember())
		p.tail.PutUnknownNull()
	}
}

// body is an object with cardRangeData, and with the members that are given, in front of it and behind.
func (c *content) body(s Service, head, tail []byte) body {
	return func(yield func([]byte) bool) {
		w := &writer{version: c.version, together: s.Together, bare: s.Bare, yield: yield}
		w.buf = append(append(w.buf, '{'), head...)
		if c.some {
			w.buf = append(w.buf, `,"cardRangeData":`...)
			w.entries(c.all())
		}
		if len(tail) > 0 {
			w.buf = append(append(w.buf, ','), tail...)
		}
		w.buf = append(w.buf, '}')
		w.flush(1)
	}
}

// sendBody writes an answer that may be long.
func (r *Set) sendBody(w http.ResponseWriter, req *http.Request, q PReq, parts body, s Service) {
	if r.o.Alter != nil {
		parts = singleChunk(r.o.Alter("PRes", whole(parts)))
	}
	beginning := whole(cut(parts, int64(r.o.NoteBytes)+1)) // one byte more, so that Note sees that it is not all
	r.o.Note(q.TransID, Note{Type: "PRes", Body: string(beginning)})
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Vary", "Accept-Encoding")
	switch {
	case !s.Plain && compress.AcceptsGzip(req):
		w.Header().Set("Content-Encoding", "gzip")
		parts = zipped(parts)
	case len(beginning) <= r.o.NoteBytes:
		w.Header().Set("Content-Length", strconv.Itoa(len(beginning)))
	}
	fault, arg, _ := readFault(s.Fault)
	if fault == "broken" {
		parts = cut(parts, bytesOf(arg, parts))
	}
	for part := range parts {
		if req.Context().Err() != nil { // the client has gone
			r.o.Log.Info("an answer was not waited for", "scheme", r.o.Scheme, "type", "PRes")
			panic(http.ErrAbortHandler)
		}
		if _, err := w.Write(part); err != nil {
			r.o.Log.Warn("an answer did not leave", "scheme", r.o.Scheme, "type", "PRes", "err", err)
			panic(http.ErrAbortHandler)
		}
	}
	_ = http.NewResponseController(w).Flush() // a client that has gone gets no more
	if fault == "broken" {
		panic(http.ErrAbortHandler)
	}
}

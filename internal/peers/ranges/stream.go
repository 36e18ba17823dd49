package ranges

// This file has one idea: a PRes is read while it comes in. Its functions share the state of
// the stream.

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openthreeds/threeds/message"
)

// Options say how a PRes is read. The zero value is right for a PRes from disk.
type Options struct {
	Source
	// Context is what Check knows of the exchange. Without a PReq that held a
	// serialNum the PRes is a complete set.
	Context message.Context

	Bytes int64 // of the whole text, at most; 0: 4 GiB
	Entry int   // bytes of one entry, and of all that is not an entry; 0: 16 MiB
	Depth int   // of nesting, see message.Limits
	Infos int   // how many different things may be said of ranges; 0: half a million
	Said  int   // bytes of them all together; 0: 128 MiB

	// Yield is called every 64 KiB of text, so that other goroutines get the processor; nil
	// means runtime.Gosched.
	Yield func()

	window int // bytes that are held at first
}

func (o Options) orDefault() Options {
	o.Bytes, o.Entry, o.window = cmp.Or(o.Bytes, 4<<30), cmp.Or(o.Entry, 16<<20), cmp.Or(o.window, windowSize)
	o.Infos, o.Said = cmp.Or(o.Infos, 500_000), cmp.Or(o.Said, 128<<20)
	if o.Yield == nil {
		o.Yield = runtime.Gosched
	}
	return o
}

// ReadPRes reads a PRes of any size and holds no more of it than one entry of cardRangeData besides the ranges that it
// makes. What it says is what message.Parse and Check say of the same text, or else what is wrong with single ranges:
//
//   - the error is a *message.SyntaxError where Parse has one, ErrTooLarge, or
//     one of r;
//   - the problems are those of Check, or else those of single ranges. Overlaps
//     and impossible updates are found by Response.Next.
//
// With problems there still is a Response, of which only Head counts. An answer
// that is another message is not checked: the problem is 101 messageType.
//
// After 1,000 bad entries, or one entry with 1,000 problems, nothing more is read. Head then
// has the elements that came before, and the problems are those found so far.
//
// The entries are read by the version that came before them, or else that of
// the PReq. Should another version follow them, they are read again if r can
// seek; otherwise messageVersion is a problem.
func ReadPRes(r io.Reader, opts Options) (*Response, message.Problems, error) {
	return read(r, opts, (*stream).pres)
}

// ReadFile reads what the cardRangeDataFileURL of a PRes led to: an object with
// a complete cardRangeData. All else, the versions of the directory server and
// the URLs, is that of the PRes.
func ReadFile(r io.Reader, pres *Response, opts Options) (*Response, message.Problems, error) {
	s := newStream(opts)
	s.fixed, s.updates = &pres.Version, false
	m, err := s.object(r)
	if err != nil {
		return nil, nil, err
	}
	resp, problems := s.file(m, pres)
	return resp, problems, nil
}

// ReadSet reads a PRes as ReadPRes does, or a file as ReadFile does: an object that says of itself neither its type nor
// its version, with what is said besides it.
func ReadSet(r io.Reader, beside *Response, opts Options) (*Response, message.Problems, error) {
	return read(r, opts, func(s *stream, m *message.Message) (*Response, message.Problems) {
		if m.Has("messageType") || m.Has("messageVersion") {
			return s.pres(m)
		}
		s.actual, s.hasActual = beside.Version, true
		return s.file(m, beside)
	})
}

// read reads a text, and once more when its entries were read by a version that
// is not the one it turns out to have.
func read(r io.Reader, opts Options,
	judge func(*stream, *message.Message) (*Response, message.Problems)) (*Response, message.Problems, error) {
	s := newStream(opts)
	start := int64(-1)
	seeker, ok := r.(io.Seeker)
	if ok {
		if at, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			start = at
		}
	}
	s.canReread = start >= 0
	m, err := s.object(r)
	if err != nil {
		return nil, nil, err
	}
	resp, problems := judge(s, m)
	if s.wrongVersion() && start >= 0 {
		if _, err := seeker.Seek(start, io.SeekStart); err != nil {
			return nil, nil, err
		}
		version := s.actual
		s = newStream(opts)
		s.fixed = &version
		if m, err = s.object(r); err != nil {
			return nil, nil, err
		}
		resp, problems = judge(s, m)
	}
	return resp, problems, nil
}

// A stream reads one text.
type stream struct {
	opts   Options
	w      *window
	head   []byte           // the object without the content of cardRangeData
	fixed  *message.Version // the version, when it is certain from the start
	used   message.Version  // the one that the entries were read by; none before the first entry
	actual message.Version

	hasActual bool

	fast    fastReader
	entries entryReader
	text    bytes.Buffer
	mini    []byte // an entry in a message of its own
	known   map[string]meaning
	left    int // how many bytes of templates may still be kept

	updates bool // the PReq held a serialNum: actions and the order of entries count
	tapes   [laneCount]tape
	changes []change // in place of the tapes

	isBad     bool // a fault was found with the entry at hand
	bad       int  // entries with faults
	canReread bool // the text can be read again, by another version
	isCutOff  bool // reading has ended early, after too many faults

	turn     int64 // offset in the text where the reader yields again
	lists    int   // how often cardRangeData occurred
	count    int   // entries of the first
	ranges   int
	reversed int // the first entry with a range whose start is above its end, -1: none
	seeds    [2]maphash.Seed
	seen     map[raw]struct{}
	even     []byte           // an entry without white space
	faults   message.Problems // of entries
	equal    message.Problems // entries that equal an earlier one
	twice    message.Problems // members of entries that occur twice
}

// A meaning is what all entries with one template say besides their bounds.
type meaning struct {
	info   uint32
	action Action
}

// A raw stands for the text of an entry: its hashes by two seeds, so that a collision of one
// has no effect.
type raw [2]uint64

const (
	maxProblems   = 1000 // as in Check
	maxBadEntries = 1000 // a text with this many bad entries is not read any further
	maxTemplates  = 32 << 20
)

func newStream(opts Options) *stream {
	s := &stream{
		opts: opts.orDefault(), known: make(map[string]meaning), seen: make(map[raw]struct{}), left: maxTemplates,
		reversed: -1,
	}
	s.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	s.updates = opts.Context.PReq != nil && opts.Context.PReq.Has("serialNum")
	s.entries.source = opts.Source
	s.entries.dec = jsontext.NewDecoder(&s.text, jsontext.AllowDuplicateNames(true))
	return s
}

// object reads the text. The entries go into the tapes. Everything else goes into head, and becomes a message.
func (s *stream) object(r io.Reader) (*message.Message, error) {
	err := s.walk(r)
	if s.isCutOff = err == errTooManyFaults; s.isCutOff {
		s.head = append(s.head, '}')
	} else if err != nil {
		return nil, err
	}
	return message.Parse(s.head, message.Limits{Depth: s.opts.Depth, Members: -1})
}

// errTooManyFaults ends the reading of a text that has been refused already.
var errTooManyFaults = errors.New("too many faults")

func (s *stream) walk(r io.Reader) error {
	s.w = newWindow(r, s.opts)
	if err := s.w.readByte('{'); err != nil {
		return err
	}
	s.head = append(s.head, '{')
	c, err := s.w.next()
	if err != nil {
		return err
	}
	for more := c != '}'; more; {
		if err := s.member(); err != nil {
			return err
		}
		if c, err = s.w.next(); err != nil {
			return err
		}
		if more = c == ','; more {
			s.w.at++
			s.head = append(s.head, ',')
		}
		if len(s.head) > s.opts.Entry {
			return ErrTooLarge
		}
	}
	if err := s.w.readByte('}'); err != nil {
		return err
	}
	s.head = append(s.head, '}')
	if _, err := s.w.next(); err == nil {
		return s.w.syntax("more after the object")
	} else if s.w.err != io.EOF {
		return err
	}
	return nil
}

// member reads one member of the object.
func (s *stream) member() error {
	if c, err := s.w.next(); err != nil {
		return err
	} else if c != '"' {
		return s.w.syntax(illFormed)
	}
	text, err := s.value()
	if err != nil {
		return err
	}
	name, _ := jsontext.AppendUnquote(nil, text)
	s.head = append(s.head, ':')
	if err := s.w.readByte(':'); err != nil {
		return err
	}
	c, err := s.w.next()
	if err != nil {
		return err
	}
	if string(name) == "cardRangeData" {
		s.lists++
		if c == '[' {
			return s.list(s.lists == 1)
		}
	}
	if text, err = s.value(); err != nil {
		return err
	}
	if string(name) == "messageVersion" && s.fixed == nil && text[0] == '"' {
		text, _ = jsontext.AppendUnquote(nil, text)
		if v, ok := message.ParseVersion(string(text)); ok {
			s.fixed = &v
		}
	}
	return nil
}

// value reads a value into head.
func (s *stream) value() ([]byte, error) {
	at := s.w.offset()
	text, err := s.w.raw()
	if err != nil {
		return nil, err
	}
	if !jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, &message.SyntaxError{Offset: at, Reason: illFormed}
	}
	s.head = append(s.head, text...)
	return text, nil
}

const illFormed = "not well-formed JSON"

// list reads the array cardRangeData. Of one that is not the first only the
// members that occur twice count, as for Check.
func (s *stream) list(first bool) error {
	s.used = s.guessVersion()
	s.fast.version, s.entries.version = s.used, s.used
	s.w.at++ // the bracket
	c, err := s.w.next()
	if err != nil {
		return err
	}
	if c == ']' {
		s.w.at++
		s.head = append(s.head, "[]"...)
		return nil
	}
	s.head = append(s.head, "[{}]"...) // not empty is all that matters
	for at := 0; ; at++ {
		if _, err := s.w.next(); err != nil {
			return err
		}
		s.isBad = !first // the array itself is one too many
		if err := s.entry(at, first); err != nil {
			return err
		}
		if s.isBad {
			s.bad++
		}
		if s.hasTooManyFaults() {
			return errTooManyFaults
		}
		c, err := s.w.next()
		if err != nil {
			return err
		}
		if first {
			s.count++
		}
		if s.w.offset() >= s.turn {
			s.turn = s.w.offset() + yieldEvery
			s.opts.Yield()
		}
		if c == ']' {
			s.w.at++
			return nil
		}
		if err := s.w.readByte(','); err != nil {
			return err
		}
	}
}

// hasTooManyFaults reports whether enough faults were found to refuse the text unread. Entries that may have been
// read by a wrong version are no reason, as long as they can be read again.
func (s *stream) hasTooManyFaults() bool {
	if s.canReread && s.fixed == nil {
		return false
	}
	return s.bad >= maxBadEntries
}

// yieldEvery is after how many bytes the reader yields the processor: then it keeps it for a
// fraction of a millisecond instead of ten.
const yieldEvery = 64 << 10

// guessVersion returns the version to read entries by.
func (s *stream) guessVersion() message.Version {
	if s.fixed != nil {
		return *s.fixed
	}
	if s.opts.Context.PReq != nil {
		if v, ok := s.opts.Context.PReq.Version(); ok {
			return v
		}
	}
	if b := s.w.buf[s.w.at:s.w.end]; bytes.Contains(b[:min(len(b), 4096)], []byte(`"ranges"`)) {
		return message.V231
	}
	return message.V220
}

// entry reads one entry, which begins at the window.
func (s *stream) entry(at int, first bool) error {
	n := s.fast.readEntry(s.w.buf[s.w.at:s.w.end])
	if n > 0 && first {
		if known, ok := s.known[string(s.fast.template)]; ok {
			s.addEntry(at, s.w.read(n), known)
			return nil
		}
	}
	offset := s.w.offset()
	text, err := s.w.raw()
	if err != nil {
		return err
	}
	if n == 0 { // perhaps because the window ended
		n = s.fast.readEntry(text)
		if known, ok := s.known[string(s.fast.template)]; ok && first && n == len(text) {
			s.addEntry(at, text, known)
			return nil
		}
	}
	return s.checkEntry(at, text, first, n == len(text) && n > 0, offset)
}

// checkEntry asks the tables of the specification about an entry, and adds its ranges.
func (s *stream) checkEntry(at int, text []byte, first, isUsual bool, offset int64) error {
	before := miniHeads[s.used]
	s.mini = append(append(append(s.mini[:0], before...), text...), "]}"...)
	m, err := message.Parse(s.mini, message.Limits{Depth: s.opts.Depth, Members: -1})
	if bad, ok := errors.AsType[*message.SyntaxError](err); ok {
		bad.Offset = max(bad.Offset-int64(len(before)), 0) + offset
		return bad
	}
	if err == nil && len(text) == 0 {
		return &message.SyntaxError{Offset: offset, Reason: illFormed}
	}
	if err != nil {
		return err
	}
	problems := m.Check(message.Context{})
	s.isBad = s.isBad || len(problems) > 0
	if len(problems) >= maxProblems { // in this entry alone
		s.bad = maxBadEntries
	}
	for _, p := range problems {
		rest := strings.TrimPrefix(string(p.Path), "cardRangeData[0]")
		p.Path = message.Path(fmt.Sprintf("cardRangeData[%d]%s", at, rest))
		if p.Code == message.Duplicate && !strings.HasSuffix(rest, "]") {
			s.twice = capped(s.twice, p)
		} else if first {
			s.faults = capped(s.faults, p)
		}
	}
	if !first {
		return nil
	}
	s.compare(at, text)
	if len(problems) > 0 {
		return nil
	}
	if s.beyond(at) {
		s.learn(isUsual, meaning{})
		return nil
	}
	s.text = *bytes.NewBuffer(text)
	s.entries.dec.Reset(&s.text, jsontext.AllowDuplicateNames(true))
	info, err := s.entries.read()
	if err != nil { // a range the wrong way round
		s.reverse(at)
		return nil
	}
	// a range takes 20 bytes, what is said of it alone may take thousands
	if len(s.entries.infos) > s.opts.Infos || s.entries.said > s.opts.Said {
		return ErrTooLarge
	}
	known := meaning{info, s.entries.action}
	s.learn(isUsual && s.isSameBounds(), known)
	for _, r := range s.entries.bounds {
		s.add(at, r, known)
	}
	return nil
}

// learn records what the template of the entry at hand means, if that is sure.
func (s *stream) learn(sure bool, known meaning) {
	if sure && len(s.fast.template) <= s.left {
		s.left -= len(s.fast.template)
		s.known[string(s.fast.template)] = known
	}
}

// miniHeads begin a message around a single entry.
var miniHeads = [...]string{
	message.V210: `{"messageType":"PRes","messageVersion":"2.1.0",` + miniIDs +
		`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.1.0","cardRangeData":[`,
	message.V220: `{"messageType":"PRes","messageVersion":"2.2.0",` + miniIDs +
		`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0","cardRangeData":[`,
	message.V231: `{"messageType":"PRes","messageVersion":"2.3.1",` + miniIDs +
		`"dsProtocolVersions":["2.3.1"],"readOrder":"01","cardRangeData":[`,
}

const miniIDs = `"threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e","dsTransID":"f25084f0-5b16-4c0a-ae5d-b24808a95e4b",`

func capped(list message.Problems, p message.Problem) message.Problems {
	if len(list) == maxProblems {
		return list
	}
	return append(list, p)
}

// isSameBounds reports whether the fast path has read the bounds that the entry reader has read.
func (s *stream) isSameBounds() bool {
	n := 0
	for _, p := range s.fast.bounds {
		if p.startDigits != p.endDigits {
			continue
		}
		if n == len(s.entries.bounds) || (Range{p.start, p.end, int(p.startDigits)}) != s.entries.bounds[n] {
			return false
		}
		n++
	}
	return n == len(s.entries.bounds)
}

// addEntry adds the ranges of an entry whose template is known.
func (s *stream) addEntry(at int, text []byte, known meaning) {
	for _, p := range s.fast.bounds {
		switch {
		case p.startDigits != p.endDigits:
			s.entries.notes.Skipped++
		case p.start > p.end:
			s.reverse(at)
		default:
			s.add(at, Range{p.start, p.end, int(p.startDigits)}, known)
		}
	}
	s.compare(at, text)
}

func (s *stream) add(at int, r Range, known meaning) {
	if s.beyond(at) {
		return
	}
	s.ranges++
	if s.updates {
		s.changes = append(s.changes, change{r.Start, r.End, known.info, uint32(at), uint8(r.Digits), known.action})
	} else {
		s.tapes[r.Digits-minDigits].add(r.Start, r.End, known.info)
	}
}

// A change is an update while it is collected.
type change struct {
	start, end  uint64
	info, entry uint32
	digits      uint8
	action      Action
}

func (s *stream) reverse(at int) {
	s.isBad = true
	if s.reversed < 0 {
		s.reversed = at
	}
}

// compare notes an entry that equals an earlier one, as Check does: a fault from
// 2.3.1, whatever the white space and the escape sequences.
func (s *stream) compare(at int, text []byte) {
	if s.used < message.V231 || len(s.seen) > maxEntries {
		return
	}
	uneven := false
	for _, b := range []byte("\\ \n\t\r") { // one by one is the fastest
		uneven = uneven || bytes.IndexByte(text, b) >= 0
	}
	if uneven {
		s.even, _ = jsontext.AppendFormat(s.even[:0], text, jsontext.AllowDuplicateNames(true))
		text = s.even
	}
	key := raw{maphash.Bytes(s.seeds[0], text), maphash.Bytes(s.seeds[1], text)}
	if _, twice := s.seen[key]; twice {
		s.isBad = true
		s.equal = capped(s.equal, message.Problem{Code: message.Duplicate, Path: badEntry(at).Path})
	}
	s.seen[key] = struct{}{}
}

// beyond reports whether an entry is one too many for a PRes. It is checked like the
// others, but nothing of it is kept, since the PRes will be refused.
func (s *stream) beyond(at int) bool { return s.used >= message.V231 && at >= maxEntries }

// maxEntries is how many entries a PRes may have from 2.3.1.
var maxEntries = message.TableOf(message.PRes, message.V231).Field("cardRangeData").Max

// wrongVersion reports whether the entries were read by another version than
// that of the message.
func (s *stream) wrongVersion() bool { return s.count > 0 && s.hasActual && s.actual != s.used }

// pres judges a PRes.
func (s *stream) pres(m *message.Message) (*Response, message.Problems) {
	s.actual, s.hasActual = m.Version()
	resp := &Response{Head: m, Version: s.actual}
	typ, known := m.Type()
	if known && typ != message.PRes {
		return resp, notPRes
	}
	if s.isCutOff {
		return resp, s.problemsSoFar(m)
	}
	problems := slices.DeleteFunc(m.Check(s.opts.Context), func(p message.Problem) bool {
		return strings.HasPrefix(string(p.Path), "cardRangeData[") // of the stand-in
	})
	checked := known && s.hasActual // or else Check has no table
	if checked && s.actual >= message.V231 && m.Has("cardRangeDataFileURL") {
		resp.FileURL = m.Text("cardRangeDataFileURL")
		s.count = 0 // what is besides it is ignored
	}
	switch {
	case !checked:
		problems = append(problems, s.twice...)
	case s.count == 0:
		problems = append(s.twice, problems...)
	case s.wrongVersion():
		problems = append(s.twice, problems...)
		if len(problems) == 0 {
			problems = message.Problems{{Code: message.Format, Path: "messageVersion"}}
		}
	default:
		problems = append(s.problemsInOrder(), problems...)
	}
	if len(problems) > maxProblems {
		problems = problems[:maxProblems]
	}
	if len(problems) == 0 && s.count > 0 && s.reversed >= 0 {
		problems = message.Problems{badEntry(s.reversed)}
	}
	if len(problems) > 0 {
		return resp, problems
	}
	s.fill(resp)
	return resp, nil
}

// problemsInOrder returns the problems of cardRangeData, in the order of Check.
func (s *stream) problemsInOrder() message.Problems {
	all := s.faults
	if s.hasTooManyEntries() {
		all = append(all, message.Problem{Code: message.Format, Path: "cardRangeData"})
	}
	return append(append(all, s.equal...), s.twice...)
}

// problemsSoFar returns the problems of a text that was not read to its end. An element of m that is not there may have
// been about to come.
func (s *stream) problemsSoFar(m *message.Message) message.Problems {
	problems := append(s.problemsInOrder(), duplicatesOf(m)...)
	if len(problems) == 0 { // all bad entries have a range whose start is above its end
		return message.Problems{badEntry(s.reversed)}
	}
	return problems
}

// duplicatesOf returns the problems of members that occur twice outside cardRangeData.
func duplicatesOf(m *message.Message) message.Problems {
	return slices.DeleteFunc(m.Check(message.Context{}), func(p message.Problem) bool {
		return p.Code != message.Duplicate || strings.HasPrefix(string(p.Path), "cardRangeData[")
	})
}

// hasTooManyEntries reports whether cardRangeData is longer than its version allows.
func (s *stream) hasTooManyEntries() bool {
	if s.count == 0 { // and no version has been used
		return false
	}
	most := message.TableOf(message.PRes, s.used).Field("cardRangeData").Max
	return most > 0 && s.count > most
}

// fill takes over what a valid PRes says.
func (s *stream) fill(resp *Response) {
	m := resp.Head
	resp.Serial = m.Text("serialNum")
	resp.DS = dsOf(m, s.actual)
	for i := 0; s.actual >= message.V231; i++ {
		at := fmt.Sprintf("dsUrlList[%d].", i)
		url := m.Text(at + "threeDSServerToDsUrl")
		if url == "" {
			break
		}
		resp.DSURLs = append(resp.DSURLs, DSURL{url, m.Text(at + "dsCountryCode")})
	}
	resp.backward = m.Text("readOrder") == "02"
	switch {
	case resp.FileURL != "":
		resp.Kind, resp.Serial = File, ""
	case s.ranges == 0:
		resp.Kind = Unchanged
	case s.updates && resp.Serial != "":
		resp.Kind = Changes
	default:
		resp.Kind = Complete
	}
	if resp.Kind == File {
		return
	}
	s.deliver(resp)
}

// deliver hands over what was collected.
func (s *stream) deliver(resp *Response) {
	resp.Entries, resp.Ranges, resp.Notes = s.count, s.ranges, s.entries.notes
	for _, info := range s.entries.infos {
		resp.infos = append(resp.infos, info.under(resp.DS))
	}
	if resp.Kind == Complete {
		for _, c := range s.changes {
			s.tapes[c.digits-minDigits].add(c.start, c.end, c.info)
		}
		resp.tapes = s.tapes
		return
	}
	resp.changes = s.changes
}

// file judges a file of card ranges.
func (s *stream) file(m *message.Message, pres *Response) (*Response, message.Problems) {
	problems := append(s.problemsInOrder(), duplicatesOf(m)...)
	resp := &Response{Head: m, Version: pres.Version, Kind: Complete, DS: pres.DS, DSURLs: pres.DSURLs}
	if s.isCutOff {
		return resp, s.problemsSoFar(m)
	}
	switch {
	case !m.Has("cardRangeData"):
		problems = append(message.Problems{{Code: message.Missing, Path: "cardRangeData"}}, problems...)
	case s.count == 0:
		problems = append(message.Problems{{Code: message.Format, Path: "cardRangeData"}}, problems...)
	case s.wrongVersion():
		problems = message.Problems{{Code: message.Format, Path: "cardRangeData"}}
	case len(problems) == 0 && s.reversed >= 0:
		problems = message.Problems{badEntry(s.reversed)}
	}
	if len(problems) > 0 {
		return resp, problems
	}
	if s.ranges == 0 {
		resp.Kind = Unchanged
	}
	s.deliver(resp)
	return resp, nil
}

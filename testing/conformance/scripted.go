package conformance

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A scriptedDS is a directory server whose PReqs a check answers one at a time: each PReq
// waits until the check says what the answer is. So the check sees every PReq, and
// nothing depends on how fast either side is.
type scriptedDS struct {
	*ds
	lab     *lab
	version string // of its PReqs
	prefix  string // eight digits with which the cards of its ranges begin
	preqs   chan *heldPReq
	closed  chan struct{} // closed at the end
	pending *heldPReq     // a PReq that a step has received and not answered
}

// heldPReq is a PReq that waits for its answer.
type heldPReq struct {
	*request
	answer chan reply
}

// scriptDS scripts a directory server.
func scriptDS(l *lab, d *ds, version, prefix string) *scriptedDS {
	a := &scriptedDS{ds: d, lab: l, version: version, prefix: prefix, preqs: make(chan *heldPReq), closed: make(chan struct{})}
	d.setPReqAnswer(func(q *request) reply {
		waits := &heldPReq{q, make(chan reply, 1)}
		select {
		case a.preqs <- waits:
		case <-a.closed:
			return reply{cut: true}
		}
		select {
		case say := <-waits.answer:
			return say
		case <-a.closed:
			return reply{cut: true}
		}
	})
	return a
}

// scriptedDS starts a server for this check alone whose only directory server is a scripted one of
// Visa. The plan may have sections, and keys are those of the directory.
func (t *T) scriptedDS(version string, keys map[string]string, sections map[string]string) *scriptedDS {
	var a *scriptedDS
	t.ownLab(plan{
		unready: true, sections: sections, directories: []directory{scriptedDirectory("visa", version, keys)},
		prepare: func(l *lab) { a = scriptDS(l, l.ds["visa"], version, "47000000") },
	})
	t.cleanup(func() { close(a.closed) })
	return a
}

// scriptedSchemes are all schemes that a configuration may have, with the version of
// their PReqs. That is the highest version the directory is configured for.
var scriptedSchemes = []struct{ scheme, version string }{
	{"visa", v231}, {"mastercard", v231}, {"amex", v231}, {"jcb", v220}, {"upi", v220}, {"protectbuy", v220}, {"sbn", v210}, {"standin", v210},
}

func scriptedDirectory(scheme, version string, keys map[string]string) directory {
	d := directory{scheme: scheme, keys: map[string]string{"refresh": "1s", "versions": "[2.1.0, 2.2.0, 2.3.1]"}}
	switch version {
	case v220:
		d.keys["versions"] = "[2.1.0, 2.2.0]"
	case v210:
		d.keys["versions"] = "[2.1.0]"
	}
	maps.Copy(d.keys, keys)
	return d
}

// A scriptedPool is the scripted directory servers that checks share, each used by one check at a time. They
// belong to scriptedServers servers.
type scriptedPool struct {
	once sync.Once
	err  error
	labs []*lab
	all  []*scriptedDS
	free map[string]chan *scriptedDS // by version
}

const scriptedServers = 3

// onScripted calls do for a shared scripted directory server of each of the versions, at the same time.
func (t *T) onScripted(versions []string, do func(*scriptedDS)) {
	t.needsLab()
	p := &t.suite.scripted
	p.once.Do(func() { p.err = p.open(t.suite.Binary) })
	if p.err != nil {
		t.Fatalf("lab: %v", p.err)
	}
	var all []func()
	for _, v := range versions {
		all = append(all, func() {
			a := <-p.free[v]
			defer func() { p.free[v] <- a }()
			do(a)
		})
	}
	t.runTogether(all...)
}

// runTogether calls several functions at the same time. Fatalf in one does not end the
// others.
func (t *T) runTogether(all ...func()) {
	var group sync.WaitGroup
	for _, do := range all {
		group.Go(func() { t.recoverPanics(do) })
	}
	group.Wait()
}

func (p *scriptedPool) open(binary string) error {
	p.free = make(map[string]chan *scriptedDS)
	for _, v := range allVersions {
		p.free[v] = make(chan *scriptedDS, scriptedServers*len(scriptedSchemes))
	}
	start := plan{unready: true, prepare: func(l *lab) { p.all = append(p.all, scriptAll(l)...) }}
	for _, s := range scriptedSchemes {
		start.directories = append(start.directories, scriptedDirectory(s.scheme, s.version, nil))
	}
	for range scriptedServers {
		l, err := newLab(binary, start)
		if err != nil {
			return err
		}
		p.labs = append(p.labs, l)
	}
	for _, a := range p.all {
		p.free[a.version] <- a
	}
	return nil
}

func (p *scriptedPool) close() {
	for _, a := range p.all {
		close(a.closed)
	}
	for _, l := range p.labs {
		l.close()
	}
}

// scriptAll scripts all directory servers of a lab, each with cards of its own.
func scriptAll(l *lab) []*scriptedDS {
	var all []*scriptedDS
	for i, s := range scriptedSchemes {
		if d := l.ds[s.scheme]; d != nil {
			all = append(all, scriptDS(l, d, s.version, fmt.Sprintf("4%07d", 7000000+i)))
		}
	}
	return all
}

// stepTimeout is how long a step may take. The server waits for minRefresh before it
// sends the next PReq.
const stepTimeout = 2 * time.Minute

// minRefresh is the least time between two PReqs that the configuration of a lab sets
// (min_refresh).
const minRefresh = time.Second

// nextPReq returns the pending PReq, or waits for the next one.
func (a *scriptedDS) nextPReq(t *T) *heldPReq {
	if q := a.pending; q != nil {
		a.pending = nil
		return q
	}
	select {
	case q := <-a.preqs:
		return q
	case <-time.After(stepTimeout):
		t.Fatalf("no PReq of version %s came in %v", a.version, stepTimeout)
		return nil
	}
}

// wantNoPReq wants no PReq to come for a while.
func (a *scriptedDS) wantNoPReq(t *T, d time.Duration) {
	select {
	case q := <-a.preqs:
		a.pending = q
		t.Errorf("%s: a PReq came, want none within %v: %s", a.version, d, q.body)
	case <-time.After(d):
	}
}

// An answerTo makes the body of the answer to a PReq.
type answerTo func(preq object) []byte

// answerWith answers the next PReq, and waits until the server has dealt with the answer:
// until an Erro comes, which is returned, or the PReq after it, which becomes pending.
func (a *scriptedDS) answerWith(t *T, say answerTo) (sent *heldPReq, erro object) {
	return a.answerNext(t, func(preq object) reply { return reply{body: say(preq)} })
}

func (a *scriptedDS) answerNext(t *T, say func(preq object) reply) (sent *heldPReq, erro object) {
	q := a.nextPReq(t)
	t.note("server > directory", q.body)
	r := say(q.o)
	t.note("directory > server", r.body)
	q.answer <- r
	return q, a.awaitOutcome(t, q)
}

// awaitOutcome waits until an Erro or another PReq follows the answer to q, and returns the
// Erro.
func (a *scriptedDS) awaitOutcome(t *T, q *heldPReq) object {
	var erro object
	ok := waitUntil(stepTimeout, func() bool {
		if got := a.requests("Erro", q.id); len(got) > 0 {
			erro = got[0].o
			t.note("server > directory", got[0].body)
			return true
		}
		select {
		case a.pending = <-a.preqs:
			return true
		default:
			return false
		}
	})
	if !ok {
		t.Fatalf("%s: neither an Erro nor another PReq came in %v", a.version, stepTimeout)
	}
	return erro
}

// rangeBounds is the n-th range of its cards.
func (a *scriptedDS) rangeBounds(n int) (low, high string) {
	return fmt.Sprintf("%s%02d000000", a.prefix, n), fmt.Sprintf("%s%02d999999", a.prefix, n)
}

// card is a card in the n-th range.
func (a *scriptedDS) card(n int) string { return fmt.Sprintf("%s%02d500000", a.prefix, n) }

// entry is the n-th range as cardRangeData has it, changed.
func (a *scriptedDS) entry(n int, changes ...overrides) object {
	low, high := a.rangeBounds(n)
	return a.between(low, high, changes...)
}

// between is a range of any bounds as cardRangeData has it, changed.
func (a *scriptedDS) between(low, high string, changes ...overrides) object {
	o := object{"startRange": low, "endRange": high, "acsStartProtocolVersion": v210, "acsEndProtocolVersion": v220}
	if a.version == v231 {
		o = object{
			"ranges":              []object{{"start": low, "end": high}},
			"acsProtocolVersions": []object{{"version": v220}, {"version": v231}},
		}
	}
	o = plain(o).(object)
	for _, change := range changes {
		change.apply(o)
	}
	return o
}

// entries are several of the n-th ranges.
func (a *scriptedDS) entries(which ...int) []object {
	all := make([]object, len(which))
	for i, n := range which {
		all[i] = a.entry(n)
	}
	return all
}

// pres is a PRes with these ranges, edited; no ranges for nil, no serial number
// for an empty one.
func (a *scriptedDS) pres(serial string, ranges []object, edits ...edit) answerTo {
	return func(preq object) []byte {
		o := presOf(preq, nil)
		delete(o, "serialNum")
		delete(o, "cardRangeData")
		if serial != "" {
			o["serialNum"] = serial
		}
		if ranges != nil {
			o["cardRangeData"] = ranges
		}
		return o.bytes(edits...)
	}
}

// erro is an Erro of the directory server.
func (a *scriptedDS) erro(code string) answerTo {
	return func(preq object) []byte {
		return object{
			"messageType": "Erro", "messageVersion": preq["messageVersion"], "threeDSServerTransID": preq["threeDSServerTransID"],
			"errorCode": code, "errorComponent": "D", "errorDescription": "no", "errorDetail": "not now", "errorMessageType": "PReq",
		}.bytes()
	}
}

// loadUsual gives the directory server its ranges 0 to 3 as a complete set, whatever it had.
func (a *scriptedDS) loadUsual(t *T, serial string) { a.loadSet(t, serial, a.entries(0, 1, 2, 3)) }

// loadSet gives the directory server a complete set. Where the server asks for changes only, Erro
// 307 makes it ask for everything.
func (a *scriptedDS) loadSet(t *T, serial string, ranges []object, edits ...edit) {
	if a.pending = a.nextPReq(t); a.pending.o.has("serialNum") {
		a.answerWith(t, a.erro("307"))
	}
	if a.pending = a.nextPReq(t); a.pending.o.has("serialNum") {
		t.Fatalf("%s: after Erro 307 the PReq has a serialNum", a.version)
	}
	a.wantAccepted(t, a.pres(serial, ranges, edits...))
}

// wantRefused answers with a bad PRes. It wants an Erro with the code and the element in
// want ("201 dsTransID"), and the ranges in use to stay as they are.
func (a *scriptedDS) wantRefused(t *T, want string, say answerTo) *heldPReq {
	was := a.rangesInUse(t)
	q, erro := a.answerWith(t, say)
	code, element, _ := strings.Cut(want, " ")
	switch {
	case erro == nil:
		t.Errorf("%s: a bad PRes was not answered with an Erro, want %s", a.version, want)
	case erro.text("errorCode") != code || erro.text("errorComponent") != "S" || erro.text("messageVersion") != a.version,
		element != "" && erro.text("errorDetail") != element && !slices.Contains(strings.Split(erro.text("errorDetail"), ","), element):
		t.Errorf("%s: the directory got %s, want an Erro with code %s naming %q", a.version, erro.bytes(), code, element)
	}
	if is := a.rangesInUse(t); is != was {
		t.Errorf("%s: the ranges in use have changed: %s, before it %s", a.version, is, was)
	}
	return q
}

// wantAccepted answers with a good message, and wants no Erro.
func (a *scriptedDS) wantAccepted(t *T, say answerTo) *heldPReq {
	q, erro := a.answerWith(t, say)
	if erro != nil {
		t.Errorf("%s: a legal answer was refused: %s", a.version, erro.bytes())
	}
	return q
}

// rangesInUse returns the numbers of those of its first eight ranges that are in
// use: "[0 1 3]".
func (a *scriptedDS) rangesInUse(t *T) string {
	var in []int
	for n := range 8 {
		if a.crd(t, a.card(n)) != nil {
			in = append(in, n)
		}
	}
	return fmt.Sprint(in)
}

// wantRanges wants just these of its ranges to be in use.
func (a *scriptedDS) wantRanges(t *T, want ...int) {
	if got := a.rangesInUse(t); got != fmt.Sprint(want) {
		t.Errorf("%s: the ranges in use are %s, want %v", a.version, got, want)
	}
}

// crd is the CRD that /preauth has for a card, nil if the card is in no range.
func (a *scriptedDS) crd(t *T, pan string, more ...edit) object {
	got, err := a.lab.callAPI("/preauth", a.lab.key, object{"acctNumber": pan}.bytes(more...))
	switch {
	case err != nil:
		t.Fatalf("/preauth: %v", err)
	case got.status == 200 && got.o.text("messageType") == "CRD":
		return got.o
	case got.status == 400 && got.o.text("errorCode") == "305" && got.o.text("errorDescription") == "Unknown BIN":
		return nil
	case got.status == 400 && got.o.text("errorCode") == "403": // no ranges have been loaded since the start
		return nil
	}
	t.Fatalf("/preauth: %d %s", got.status, got.body)
	return nil
}

// gzipped is data compressed.
func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	panicOnError(w.Close())
	return b.Bytes()
}

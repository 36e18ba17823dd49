package conformance

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// A flow is one authentication, legal but for what a check changes. Use it in this
// order: card, answers or replies; then auth, or one of the methods that send the
// request and judge what comes of it (accepted, refused, rejected, challenged); then
// rreq; then result.
type flow struct {
	t        *T
	l        *lab
	d        *ds
	version  string
	channel  string
	category string
	id       string               // threeDSServerTransID, "" before preauth
	key      string               // API key of the requestor
	req      object               // the requestor's request, before the edits
	edits    []edit               // of req
	say      func(*request) reply // how the directory server answers the AReq
	ares     object               // what it answered, if that was a JSON object
	answer   *answer              // of /auth
}

// flow begins an authentication on the shared lab. Kind is the channel, APP,
// BRW or 3RI, and NPA unless it is a payment; 3RI of 2.1.0 is always NPA. The
// edits are of the requestor's request.
func (t *T) flow(version, kind string, edits ...edit) *flow {
	return t.flowIn(t.anyLab(), version, kind, edits...)
}

// flowIn begins an authentication on a lab.
func (t *T) flowIn(l *lab, version, kind string, edits ...edit) *flow {
	x := &flow{t: t, l: l, version: version, category: "PA", key: l.key, edits: edits}
	x.channel, _, _ = strings.Cut(kind, " ")
	if strings.HasSuffix(kind, " NPA") || kind == "3RI" && version == v210 {
		x.category = "NPA"
	}
	x.req = sample("AReq", version, x.channel, x.category)
	x.req["deviceChannel"], x.req["messageCategory"] = channelCodes[x.channel], categoryCodes[x.category]
	if t.remote() {
		x.req["acctNumber"] = t.suite.Card
		return x
	}
	return x.card("visa", x.req.text("acctNumber"))
}

// card pays with a card of a directory.
func (x *flow) card(scheme, pan string) *flow {
	x.t.needsLab()
	x.d, x.req["acctNumber"] = x.l.ds[scheme], pan
	return x.setARes("Y")
}

// setARes makes the directory server answer with an ARes of that transStatus,
// edited.
func (x *flow) setARes(status string, edits ...edit) *flow {
	return x.setAnswer(func(q *request) reply { return reply{body: aresTo(q.o, status).bytes(edits...)} })
}

// setAnswer makes f answer the AReq. Other messages get an empty answer.
func (x *flow) setAnswer(f func(*request) reply) *flow {
	x.t.needsLab()
	x.say = f
	return x
}

// preauth fetches the id of the transaction, and returns the CRD. It is called once.
func (x *flow) preauth() object {
	got := x.call("/preauth", object{"acctNumber": x.req["acctNumber"]}.bytes())
	x.id = got.o.text("threeDSServerTransID")
	if got.status != 200 || x.id == "" {
		x.t.Fatalf("/preauth: %d %s", got.status, got.body)
	}
	if !x.t.remote() {
		x.scriptDS()
	}
	return got.o
}

// scriptDS makes the directory server answer the messages of the flow, whose id is known.
func (x *flow) scriptDS() {
	x.d.script(x.id, x.t.notingExchanges(func(q *request) reply { return x.say(q) }))
}

// notingExchanges makes of an answer to the AReq an answer to all messages of a transaction, and
// notes them for the report.
func (t *T) notingExchanges(say func(*request) reply) func(*request) reply {
	return func(q *request) reply {
		t.note("server > directory", q.body)
		if q.typ != "AReq" {
			return reply{}
		}
		r := say(q)
		t.note("directory > server", r.body)
		return r
	}
}

// call posts to the API as the requestor.
func (x *flow) call(path string, body []byte) *answer {
	x.t.note("requestor > server "+path, body)
	got, err := x.l.callAPI(path, x.key, body)
	for tries := 0; err == nil && got.status == http.StatusTooManyRequests && x.t.remote() && tries < 30; tries++ {
		time.Sleep(time.Second) // the limits of a remote server are not ours to set
		got, err = x.l.callAPI(path, x.key, body)
	}
	if err != nil {
		x.t.Fatalf("%s: %v", path, err)
	}
	x.t.noteAnswer("server > requestor", got)
	return got
}

// auth sends the request to /auth.
func (x *flow) auth() *answer {
	x.t.needsLab() // what a remote server's directory server answers is not known
	return x.ask()
}

// ask is auth for requests that are to be refused before a directory server is asked.
func (x *flow) ask() *answer {
	if x.id == "" {
		x.preauth()
	}
	x.req["threeDSServerTransID"] = x.id
	say := x.say
	x.say = func(q *request) reply {
		r := say(q)
		x.ares = read(r.body)
		return r
	}
	x.answer = x.call("/auth", x.req.bytes(x.edits...))
	return x.answer
}

// sent are the AReqs that reached the directory server.
func (x *flow) sent() []*request {
	x.t.needsLab()
	return x.d.requests("AReq", x.id)
}

// areq sends the request and returns the one AReq that reached the directory server.
func (x *flow) areq() object {
	x.t.needsLab()
	x.auth()
	sent := x.sent()
	if len(sent) != 1 || sent[0].o == nil {
		x.t.Fatalf("%s: %d AReqs came, want 1: %d %s", x, len(sent), x.answer.status, x.answer.body)
	}
	return sent[0].o
}

// receivedErro is the Erro that the directory server got; nil if none comes in time.
func (x *flow) receivedErro() *request {
	x.t.needsLab()
	var got []*request
	waitUntil(stepTimeout/4, func() bool {
		got = x.d.requests("Erro", x.id)
		return len(got) > 0
	})
	if len(got) == 0 {
		return nil
	}
	return got[0]
}

// wantAccepted wants the request to go through and the ARes to come back.
func (x *flow) wantAccepted() *answer {
	x.t.needsLab()
	got := x.auth()
	if got.status != 200 || got.o.text("messageType") != "ARes" {
		x.t.Errorf("%s: %d %s, want the ARes", x, got.status, got.body)
	}
	return got
}

// wantRefused wants an Erro with one of the codes, separated by |, that names the
// element, and no AReq at the directory server.
func (x *flow) wantRefused(codes, element string) {
	if x.t.remote() {
		if crd := x.preauth(); x.version < crd.text("acsStartProtocolVersion") || x.version > crd.text("acsEndProtocolVersion") {
			return // the remote server refuses the version for this card, whatever else is wrong
		}
	}
	got := x.ask()
	x.t.countJudged()
	x.wantErro("requestor", got.o, codes, element)
	if got.status != 400 {
		x.t.Errorf("%s: status %d, want 400", x, got.status)
	}
	if x.t.remote() {
		return
	}
	if n := len(x.sent()); n != 0 {
		x.t.Errorf("%s: %d AReqs left, want none", x, n)
	}
}

// wantRejected wants the ARes to be refused: an Erro with one of the codes to the
// directory server and one to the requestor, both naming the element.
func (x *flow) wantRejected(codes, element string) {
	x.t.needsLab()
	got := x.auth()
	if len(x.sent()) != 1 {
		x.t.Fatalf("%s: %d AReqs came, want 1: %d %s", x, len(x.sent()), got.status, got.body)
	}
	told := element
	if codes == "202" && element != "" {
		told = "messageExtension" // only the directory server is told the id of an extension
	}
	x.wantErro("requestor", got.o, codes, told)
	erro := x.receivedErro()
	if erro == nil {
		x.t.Errorf("%s: no Erro came to the directory server", x)
		return
	}
	x.wantErro("directory", erro.o, codes, element)
}

// wantErro wants o, which somebody got, to be an Erro of the server with one of the codes,
// separated by |, that names the element, or any if that is empty.
func (x *flow) wantErro(whose string, o object, codes, element string) {
	if o.text("messageType") != "Erro" || o.text("errorComponent") != "S" ||
		!slices.Contains(strings.Split(codes, "|"), o.text("errorCode")) ||
		element != "" && !slices.Contains(strings.Split(o.text("errorDetail"), ","), element) {
		x.t.Errorf("%s: %s got %s, want an Erro with code %s naming %q", x, whose, encode(o), codes, element)
	}
}

// startChallenge brings the authentication to an ARes that asks for a challenge.
func (x *flow) startChallenge() *flow { return x.reachWaiting("C") }

// reachWaiting brings the authentication to an ARes of a transStatus after which an RReq is
// due.
func (x *flow) reachWaiting(status string) *flow {
	x.t.needsLab()
	x.setARes(status)
	if got := x.auth(); got.status != 200 || got.o.text("transStatus") != status {
		x.t.Fatalf("%s: %d %s, want an ARes with %s", x, got.status, got.body, status)
	}
	return x
}

// rreq posts an RReq of that transStatus, edited, and returns the server's answer.
func (x *flow) rreq(status string, edits ...edit) *answer {
	return x.post(x.rreqOf(status).bytes(edits...))
}

// rreqOf is a legal RReq of that transStatus.
func (x *flow) rreqOf(status string) object {
	o := sample("RReq", x.version, x.channel, x.category, status)
	for _, name := range []string{"threeDSServerTransID", "acsTransID", "dsTransID"} {
		o[name] = x.ares[name]
	}
	o["messageCategory"], o["transStatus"] = categoryCodes[x.category], status
	if x.ares.text("acsDecConInd") == "Y" {
		delete(o, "interactionCounter")
		delete(o, "acsRenderingType")
		if x.version == v220 {
			o["authenticationType"] = "04"
		}
	}
	if x.channel == "APP" && x.version != v210 {
		o["sdkTransID"] = x.req["sdkTransID"]
	}
	return o
}

// post sends a message to the results listener as the flow's directory server.
func (x *flow) post(body []byte) *answer {
	x.t.note("directory > server", body)
	got, err := x.d.post(x.l.results, body)
	if err != nil {
		x.t.Fatalf("%s: results: %v", x, err)
	}
	x.t.noteAnswer("server > directory", got)
	return got
}

// wantRRes wants an RReq to be answered with an RRes of that resultsStatus.
func (x *flow) wantRRes(got *answer, resultsStatus string) {
	if got.status != 200 || got.o.text("messageType") != "RRes" || got.o.text("resultsStatus") != resultsStatus {
		x.t.Errorf("%s: %d %s, want an RRes with %s", x, got.status, got.body, resultsStatus)
	}
}

// wantRReqRefused wants an RReq to be answered with an Erro; see isErro.
func (x *flow) wantRReqRefused(got *answer, codes, element string) {
	if got.status != 200 {
		x.t.Errorf("%s: the RReq was answered with status %d, want 200", x, got.status)
	}
	x.wantErro("directory", got.o, codes, element)
}

// result asks for the result as the requestor.
func (x *flow) result() *answer {
	return x.call("/postauth", object{"threeDSServerTransID": x.id}.bytes())
}

// String names the flow in faults.
func (x *flow) String() string { return x.version + " " + x.channel + " " + x.category }

// reserved stands for the error code of a value that EMVCo reserves: 207 in 2.3.1,
// 203 before.
const reserved = "reserved"

// codesIn puts the code of the version in place of reserved.
func codesIn(version, codes string) string {
	switch {
	case codes != reserved:
		return codes
	case version == v231:
		return "207"
	}
	return "203"
}

// wantRefused wants the edited request to be refused in each version.
func (t *T) wantRefused(versions []string, kind, codes, element string, edits ...edit) {
	for _, v := range versions {
		t.flow(v, kind, edits...).wantRefused(codesIn(v, codes), element)
	}
}

// wantSent wants the AReq that comes of the edited request to have that value at a
// path, in each version; nil: nothing there.
func (t *T) wantSent(versions []string, kind, path string, value any, edits ...edit) {
	if t.remote() {
		return
	}
	for _, v := range versions {
		x := t.flow(v, kind, edits...)
		t.want(x.String()+" AReq", x.areq(), path, value)
	}
}

// wantRejected wants the edited ARes of that transStatus to be refused in each
// version.
func (t *T) wantRejected(versions []string, kind, status, codes, element string, edits ...edit) {
	if t.remote() {
		return
	}
	for _, v := range versions {
		t.flow(v, kind).setARes(status, edits...).wantRejected(codesIn(v, codes), element)
	}
}

// wantAccepted wants the edited ARes of that transStatus to reach the requestor in
// each version.
func (t *T) wantAccepted(versions []string, kind, status string, edits ...edit) {
	if t.remote() {
		return
	}
	for _, v := range versions {
		t.flow(v, kind).setARes(status, edits...).wantAccepted()
	}
}

// want wants a value at a path of a message, or nothing there if value is nil.
func (t *T) want(what string, o object, path string, value any) {
	switch {
	case value == nil:
		if o.has(path) {
			t.Errorf("%s: %s = %s, want none", what, path, encode(o.at(path)))
		}
	case !o.has(path):
		t.Errorf("%s: no %s, want %s", what, path, encode(value))
	case string(encode(plain(value))) != string(encode(o.at(path))):
		t.Errorf("%s: %s = %.200s, want %.200s", what, path, encode(o.at(path)), encode(value))
	}
}

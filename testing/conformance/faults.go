package conformance

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A fault is one change to a legal ARes or RReq, and what is to come of it. The message
// may still be legal after the change.
type fault struct {
	row  string    // the row that it shows
	name string    // what is changed, in words
	in   string    // versions, "2.2.0 2.3.1"; all if empty
	on   string    // channel, BRW if empty
	npa  bool      // no payment
	card string    // a card of mastercard; visa's if empty
	ask  overrides // changes the requestor's request
	ares string    // transStatus of the ARes; if empty Y, or C before an RReq
	rreq string    // transStatus of the RReq, Y if empty
	set  overrides // changes the message in question
	want string    // code and element of the Erro, "203 eci"; empty: the message is legal
}

// overrides sets members of a message by their paths; nil removes one.
type overrides map[string]any

func (b overrides) edits() []edit {
	var all []edit
	for _, path := range slices.Sorted(maps.Keys(b)) { // an object comes before its members
		if b[path] == nil {
			all = append(all, drop(path))
		} else {
			all = append(all, set(path, b[path]))
		}
	}
	return all
}

func (b overrides) apply(o object) {
	for _, e := range b.edits() {
		e.object(o)
	}
}

// versions are those in which a fault is tried.
func (f fault) versions() []string {
	if f.in == "" {
		return allVersions
	}
	return strings.Fields(f.in)
}

// flow begins the authentication for a fault, itself legal.
func (f fault) flow(t *T, version string) *flow {
	kind := f.on
	if kind == "" {
		kind = "BRW"
	}
	if f.npa {
		kind += " NPA"
	}
	ask := maps.Clone(f.ask)
	if wish, ok := ask["threeDSRequestorChallengeInd"].(string); ok && version == v231 {
		ask["threeDSRequestorChallengeInd"] = []string{wish}
	}
	x := t.flow(version, kind, ask.edits()...)
	if ask["threeDSRequestorSpcSupport"] != nil {
		x.card("visa", cardSPC) // the offer only goes to an issuer that supports SPC
	}
	if f.card != "" {
		x.card("mastercard", f.card)
	}
	return x
}

// byRow makes one check of the faults of each row, adds the other checks, and sorts all.
func byRow(faults []fault, run func(*T, fault, string), others ...check) []check {
	cases := make(map[string][]fault)
	for _, f := range faults {
		cases[f.row] = append(cases[f.row], f)
	}
	all := others
	for row, list := range cases {
		all = append(all, check{id: row, do: func(t *T) {
			for _, f := range list {
				for _, version := range f.versions() {
					run(t, f, version)
				}
			}
		}})
	}
	slices.SortFunc(all, func(a, b check) int { return strings.Compare(a.id, b.id) })
	return all
}

// checkARes puts a fault into an ARes.
func checkARes(t *T, f fault, version string) {
	edits := f.set.edits()
	status := f.ares
	switch status {
	case "":
		status = "Y"
	case "S":
		edits = append(confirmation.edits(), edits...)
	}
	x := f.flow(t, version).setARes(status, edits...)
	defer t.nameCase(fmt.Sprintf("%s %s, %s", f.row, f.name, x))()
	if f.want != "" {
		code, element, _ := strings.Cut(f.want, " ")
		x.wantRejected(code, element)
	} else {
		x.wantPassedOn()
	}
}

// nameCase returns a function to be called at the end of a case. If the case has added
// faults to the check, it says after them which case they are of.
func (t *T) nameCase(name string) (end func()) {
	before := t.countFaults()
	return func() {
		if t.countFaults() > before {
			t.Errorf("the case above: %s", name)
		}
	}
}

// wantPassedOn wants the ARes to reach the requestor byte for byte, and no Erro to
// reach the directory server.
func (x *flow) wantPassedOn() *answer {
	var sent []byte
	say := x.say
	x.say = func(q *request) reply {
		r := say(q)
		sent = r.body
		return r
	}
	got := x.wantAccepted()
	if !bytes.Equal(got.body, sent) {
		x.t.Errorf("%s: the requestor got %s, want the bytes of the directory server, %s", x, got.body, sent)
	}
	if erros := x.d.requests("Erro", x.id); len(erros) > 0 {
		x.t.Errorf("%s: a legal ARes was answered with %s, want no Erro", x, erros[0].body)
	}
	return got
}

// checkRReq puts a fault into an RReq. A bad one leaves the challenge as it was.
func checkRReq(t *T, f fault, version string) {
	waits, status := f.ares, f.rreq
	if waits == "" {
		waits = "C"
	}
	if status == "" {
		status = "Y"
	}
	x := f.flow(t, version)
	defer t.nameCase(fmt.Sprintf("%s %s, %s", f.row, f.name, x))()
	x.reachWaiting(waits)
	body := x.rreqOf(status).bytes(f.set.edits()...)
	got := x.post(body)
	if f.want != "" {
		code, element, _ := strings.Cut(f.want, " ")
		x.wantRReqRefused(got, code, element)
		x.wantPending()
	} else {
		results := "01"
		if status == "D" {
			results = "04"
		}
		x.wantRRes(got, results)
		if got := x.result(); !bytes.Equal(got.body, body) {
			t.Errorf("%s: /postauth: %s, want the RReq as it came, %s", x, got.body, body)
		}
	}
}

// wantPending wants /postauth to say that no result has come yet.
func (x *flow) wantPending() {
	if got := x.result(); got.status != 400 || got.o.text("errorCode") != "305" {
		x.t.Errorf("%s: /postauth: %d %s, want Erro 305", x, got.status, got.body)
	}
}

// countFaults is how many faults the check has found so far.
func (t *T) countFaults() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.faults)
}

// Overrides of requests and answers that several checks use.
var (
	wantDecoupled = decoupledAs("Y")
	informed      = overrides{"threeDSRequestorChallengeInd": "05"}
	wantSPC       = overrides{"threeDSRequestorSpcSupport": "Y", "payeeOrigin": "https://shop.example"}

	confirmation = overrides{
		"webAuthnCredList": credentials(1, 26),
		"spcTransData": object{
			"challenge": strings.Repeat("Y2hhbGxlbmdl", 4), "payeeName": "Shop", "payeeOrigin": "https://shop.example",
			"currency": "EUR", "value": "10.99", "displayName": "Card", "icon": "https://acs.example/i.png", "timeout": "60000",
		},
	}

	dsTransID = newID()
)

const (
	authValue = "AAABBCJZUwAAAAAAUFlTAAAAAAA="
	jws       = "eyJhbGciOiJQUzI1NiJ9.e30."
)

// decoupledAs asks for decoupled authentication: Y, or from 2.3.1 as a fallback, F or B.
func decoupledAs(how string) overrides {
	return overrides{"threeDSRequestorDecReqInd": how, "threeDSRequestorDecMaxTime": "00010"}
}

// long is start, filled up with the letter a to n characters.
func long(start string, n int) string { return start + strings.Repeat("a", n-len(start)) }

// credentials are n entries of a webAuthnCredList whose credentialIds has size
// characters.
func credentials(n, size int) []object {
	var all []object
	for i := range n {
		id := []byte(strings.Repeat("Y", size))
		id[0] = byte('A' + i)
		all = append(all, object{"rpID": "acs.example", "credentialIds": string(id)})
	}
	return all
}

// broadcast is a legal broadInfo.
func broadcast() object {
	return object{"category": "01", "severity": "01", "recipients": []string{"02"}, "source": "02", "expDate": "20301231", "description": "x"}
}

// challengeError is a legal challengeErrorReporting.
func challengeError() object {
	return object{
		"messageType": "Erro", "messageVersion": v231, "errorCode": "203", "errorComponent": "C",
		"errorDescription": "no", "errorDetail": "challengeInfoText", "errorMessageType": "CRes",
	}
}

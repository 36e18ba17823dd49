package conformance

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// A fault is one change to a legal ARes or RReq, and what is to come of it.
type fault struct {
	row  string // that it shows
	name string // what is changed
	in   string // versions, all if empty
	on   string // channel, BRW if empty
	npa  bool   // no payment
	card string // of mastercard; visa's if empty
	ask  bend   // of the request of the requestor
	ares string // transStatus of the answer: Y, or C where a result follows
	rreq string // transStatus of the result: Y
	set  bend   // of the message in question
	want string // code and element of the Erro; empty: the message is legal
}

// A bend changes members of a message by their paths; nil takes one away.
type bend map[string]any

func (b bend) edits() []edit {
	var all []edit
	for _, path := range slices.Sorted(maps.Keys(b)) { // what holds a member comes before it
		if b[path] == nil {
			all = append(all, drop(path))
		} else {
			all = append(all, set(path, b[path]))
		}
	}
	return all
}

func (b bend) apply(o object) {
	for _, e := range b.edits() {
		e.object(o)
	}
}

// versions are those that a fault is about.
func (f fault) versions() []string {
	if f.in == "" {
		return allVersions
	}
	return strings.Fields(f.in)
}

// flow is a legal authentication in which the fault will be.
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
		x.card("visa", cardSPC) // asked of an issuer that knows it
	}
	if f.card != "" {
		x.card("mastercard", f.card)
	}
	return x
}

// byRow makes one check of the faults of each row, and adds the checks that are
// no such faults.
func byRow(faults []fault, run func(*T, fault, string), others ...check) []check {
	cases := make(map[string][]fault)
	for _, f := range faults {
		cases[f.row] = append(cases[f.row], f)
	}
	all := others
	for row, list := range cases {
		all = append(all, check{row, func(t *T) {
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

// inARes puts a fault into an ARes.
func inARes(t *T, f fault, version string) {
	edits := f.set.edits()
	status := f.ares
	switch status {
	case "":
		status = "Y"
	case "S":
		edits = append(confirmation.edits(), edits...)
	}
	x := f.flow(t, version).answers(status, edits...)
	faults := t.count()
	if f.want != "" {
		code, element, _ := strings.Cut(f.want, " ")
		x.rejected(code, element)
	} else {
		x.passed()
	}
	if t.count() > faults {
		t.Errorf("the case above: %s %s, %s", f.row, f.name, x)
	}
}

// passed wants the ARes to reach the requestor byte for byte, and no Erro to
// reach the directory server.
func (x *flow) passed() *answer {
	var sent []byte
	say := x.say
	x.say = func(q *request) reply {
		r := say(q)
		sent = r.body
		return r
	}
	got := x.accepted()
	if !bytes.Equal(got.body, sent) {
		x.t.Errorf("%s: the requestor got %s, the directory server had sent %s", x, got.body, sent)
	}
	if erros := x.d.requests("Erro", x.id); len(erros) > 0 {
		x.t.Errorf("%s: a legal ARes was answered with %s", x, erros[0].body)
	}
	return got
}

// inRReq puts a fault into an RReq. A bad one leaves the challenge as it was.
func inRReq(t *T, f fault, version string) {
	waits, status := f.ares, f.rreq
	if waits == "" {
		waits = "C"
	}
	if status == "" {
		status = "Y"
	}
	faults := t.count()
	x := f.flow(t, version).waiting(waits)
	body := x.rreqOf(status).bytes(f.set.edits()...)
	got := x.post(body)
	if f.want != "" {
		code, element, _ := strings.Cut(f.want, " ")
		x.refusedRReq(got, code, element)
		x.pending()
	} else {
		results := "01"
		if status == "D" {
			results = "04"
		}
		x.taken(got, results)
		if !bytes.Equal(x.result().body, body) {
			x.t.Errorf("%s: /postauth does not give the RReq as it came", x)
		}
	}
	if t.count() > faults {
		t.Errorf("the case above: %s %s, %s", f.row, f.name, x)
	}
}

// pending wants the requestor to hear that no result has come.
func (x *flow) pending() {
	if got := x.result(); got.status != 400 || got.o.text("errorCode") != "305" {
		x.t.Errorf("%s: /postauth: %d %s, want Erro 305", x, got.status, got.body)
	}
}

// count is how many faults there are.
func (t *T) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.faults)
}

// What requests ask for, and answers hold.
var (
	wantDecoupled = decoupledAs("Y")
	informed      = bend{"threeDSRequestorChallengeInd": "05"}
	wantSPC       = bend{"threeDSRequestorSpcSupport": "Y", "payeeOrigin": "https://shop.example"}

	confirmation = bend{
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

func decoupledAs(how string) bend {
	return bend{"threeDSRequestorDecReqInd": how, "threeDSRequestorDecMaxTime": "00010"}
}

// long is start, made so many characters long.
func long(start string, n int) string { return start + strings.Repeat("a", n-len(start)) }

// credentials are n of SPC's, with an id of so many characters each.
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

package conformance

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// otherMessageChecks is the construction of messages other than the AReq.
var otherMessageChecks = []check{
	{id: "MX-01", do: func(t *T) {
		l := t.ownLab(plan{directories: versionedDirectories})
		for scheme, v := range versionOf {
			sent := l.ds[scheme].requests("PReq", "")
			if len(sent) == 0 {
				t.Fatalf("no PReq of %s", v)
			}
			x := &flow{t: t, version: v, channel: "BRW", category: "PA"}
			x.wantAllRequired(sent[0].o)
			t.want("PReq", sent[0].o, "messageVersion", v)
		}
	}},
	{id: "MX-02", waits: true, do: func(t *T) {
		l := t.ownLab(plan{directories: withKey(versionedDirectories, "refresh", "1s"), prepare: func(l *lab) {
			for _, d := range l.ds {
				d.setPReqAnswer(func(q *request) reply {
					if q.o.has("serialNum") {
						return reply{body: unchanged(q.o, "10").bytes()}
					}
					return reply{body: d.pres(q.o).bytes(set("serialNum", "10"))}
				})
			}
		}})
		for scheme, v := range versionOf {
			sent := l.ds[scheme].preqs(t, 3)
			t.want(v+" first PReq", sent[0].o, "serialNum", nil)
			t.want(v+" second PReq", sent[1].o, "serialNum", "10")
			t.want(v+" third PReq", sent[2].o, "serialNum", "10")
		}
	}},
	{id: "MX-03", do: func(t *T) {
		files := withKey(versionedDirectories, "file_hosts", "[files.example]")
		for want, directories := range map[string][]directory{"Y": files, "": versionedDirectories} {
			l := t.ownLab(plan{directories: directories})
			for scheme, v := range versionOf {
				got := l.ds[scheme].requests("PReq", "")[0].o.text("cardRangeDataDownloadInd")
				if v == v231 && got != want || v != v231 && got != "" {
					t.Errorf("%s: cardRangeDataDownloadInd %q, want %q", v, got, want)
				}
			}
		}
	}},
	{id: "MX-04", waits: true, do: func(t *T) {
		l := t.ownLab(plan{directories: withKey(versionedDirectories, "refresh", "1s")})
		seen := make(map[string]bool)
		for scheme := range versionOf {
			for _, q := range l.ds[scheme].preqs(t, 2) {
				if id := q.id; seen[id] || !uuid.MatchString(id) {
					t.Errorf("PReq: id %q, want a UUID that no PReq had before", id)
				} else {
					seen[id] = true
				}
			}
		}
	}},
	{id: "MX-05", do: func(t *T) {
		for _, v := range allVersions {
			for _, kind := range []string{"BRW", "APP", "BRW NPA"} {
				x := t.flow(v, kind).startChallenge()
				got := x.rreq("Y")
				x.wantRRes(got, "01")
				x.wantAllRequired(got.o)
				for _, name := range []string{"threeDSServerTransID", "acsTransID", "dsTransID"} {
					t.want("RRes", got.o, name, x.ares[name])
				}
				if kind == "APP" && v != v210 {
					t.want("RRes", got.o, "sdkTransID", x.req["sdkTransID"])
				}
			}
			x := t.flow(v, "BRW").setARes("C", set("dsTransID", strings.ToUpper(newID())))
			x.auth()
			t.want("RRes", x.rreq("Y").o, "dsTransID", x.ares["dsTransID"])
		}
	}},
	{id: "MX-06", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			x.wantRRes(x.rreq("N", set("challengeCancel", "01")), "01")
			y := t.flow(v, "BRW").startChallenge()
			y.wantRRes(y.rreq("N", set("transStatusReason", "14"), set("challengeCancel", "04")), "01")
			z := t.flow(v, "BRW").startChallenge()
			z.wantRRes(z.rreq("U"), "01")
		}
	}},
	{id: "MX-08", do: func(t *T) {
		for _, v := range allVersions {
			gone := make(chan struct{})
			x := t.flow(v, "BRW")
			x.preauth()
			var sent object
			asking, giveUp := context.WithCancel(context.Background())
			x.d.script(x.id, func(q *request) reply {
				giveUp() // The server has read the request, for it has asked the directory server.
				<-gone
				letConnectionEnd()
				x.t.mu.Lock()
				defer x.t.mu.Unlock()
				sent = aresTo(q.o, "C")
				return reply{body: sent.bytes()}
			})
			x.req["threeDSServerTransID"] = x.id
			impatient := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			_, err := sendFor(asking, impatient, http.MethodPost, x.l.api+"/auth", http.Header{"Apikey": {x.key}}, x.req.bytes())
			if err == nil {
				t.Fatalf("%s: an answer before there was one", x)
			}
			close(gone)
			var got *answer
			if !waitUntil(stepTimeout, func() bool { // until the ARes is there
				if len(x.sent()) == 0 {
					return false
				}
				x.t.mu.Lock()
				x.ares = sent
				x.t.mu.Unlock()
				if x.ares == nil {
					return false
				}
				got = x.rreq("N", set("transStatusReason", "14"), set("challengeCancel", "05"))
				return got.o.text("errorCode") != "301"
			}) {
				t.Fatalf("%s: no answer to the RReq", x)
			}
			x.wantRRes(got, "03")
		}
	}},
	{id: "MX-09", do: func(t *T) {
		for _, wish := range []string{"F", "B"} {
			x := t.flow(v231, "BRW", decoupledAs(wish).edits()...).startChallenge()
			x.wantRRes(x.rreq("D", set("transStatusReason", "29")), "04")
		}
		for _, wish := range []string{"Y", "N"} {
			x := t.flow(v231, "BRW", decoupledAs(wish).edits()...).startChallenge()
			x.wantRReqRefused(x.rreq("D", set("transStatusReason", "29")), "203", "transStatus")
		}
	}},
	{id: "MX-10", do: func(t *T) {
		x := t.flow(v231, "BRW").startChallenge()
		got, err := post(x.d.client, x.l.results, map[string][]string{"X-Request-Id": {newID()}}, x.rreqOf("Y").bytes())
		if err != nil {
			t.Fatalf("%v", err)
		}
		x.wantRRes(got, "01")
		if id := got.header.Get("X-Request-ID"); id != x.ares.text("dsTransID") {
			t.Errorf("X-Request-ID is %q, want %q", id, x.ares.text("dsTransID"))
		}
		if id := got.header.Get("X-Response-ID"); id != x.id {
			t.Errorf("X-Response-ID is %q, want %q", id, x.id)
		}
	}},
	{id: "MX-15", do: func(t *T) {
		for _, v := range allVersions {
			for _, kind := range []string{"BRW", "APP"} {
				x := t.flow(v, kind).setARes("Y", drop("acsReferenceNumber"))
				x.wantRejected("201", "acsReferenceNumber")
				if erro := x.receivedErro(); erro != nil {
					x.wantCompleteErro(erro.o, "ARes")
				}
				y := t.flow(v, kind).startChallenge()
				y.wantCompleteErro(y.rreq("Y", drop("transStatus")).o, "RReq")
			}
		}
	}},
	{id: "MX-16", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").setARes("Y", drop("threeDSServerTransID"))
			x.wantRejected("201", "threeDSServerTransID") // which finds the Erro by the id
			y := t.flow(v, "BRW")
			y.setAnswer(func(*request) reply { return reply{body: []byte("garbage")} })
			y.wantRejected("101", "")
		}
	}},
	{id: "MX-17", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "APP")
			x.preauth()
			for name := range memberInclusions(v, "AReq", "APP", "PA") {
				if !strings.HasPrefix(name, "message") && name != "deviceChannel" && name != "threeDSServerTransID" {
					x.req[name] = 7
				}
			}
			got := x.auth()
			x.wantErro("requestor", got.o, "203|304", "")
			texts(t, got.o)
			var many []object
			for n := range mostExtensions(v) {
				many = append(many, object{"name": "n", "id": strings.Repeat("x", 60) + itoa(n), "criticalityIndicator": true, "data": object{"a": "b"}})
			}
			y := t.flow(v, "BRW").setARes("Y", set("messageExtension", many))
			y.wantRejected("202", "")
			if erro := y.receivedErro(); erro != nil {
				texts(t, erro.o)
			}
			z := t.flow(v, "BRW")
			z.setAnswer(func(*request) reply {
				return reply{body: erroFor(z, "404").bytes(set("errorDescription", ""), set("errorDetail", strings.Repeat("é", 3000)))}
			})
			texts(t, z.auth().o) // the texts of a relayed Erro are brought within the limits
		}
	}},
	{id: "MX-18", do: func(t *T) {
		for _, v := range allVersions {
			for _, bad := range []string{"9.9.9", "", "two"} {
				x := t.flow(v, "BRW").setARes("Y", set("messageVersion", bad))
				x.auth()
				erro := x.receivedErro()
				if erro == nil {
					t.Fatalf("%s: no Erro", x)
				}
				t.want("Erro", erro.o, "messageVersion", v)
			}
		}
	}},
}

// versionedDirectories are three directories, one for each version of PReqs: a PReq has
// the highest version that its directory is configured for. versionOf tells which.
var versionedDirectories = []directory{
	{scheme: "visa", keys: map[string]string{"versions": "[2.1.0]"}},
	{scheme: "mastercard", keys: map[string]string{"versions": "[2.1.0, 2.2.0]"}},
	{scheme: "standin", keys: map[string]string{"versions": "[2.1.0, 2.2.0, 2.3.1]"}, ranges: []cardRange{{prefix: "300000", from: v210, to: v231}}},
}

var versionOf = map[string]string{"visa": v210, "mastercard": v220, "standin": v231}

// withKey are the same directories with one more key in their configuration.
func withKey(directories []directory, name, value string) []directory {
	directories = slices.Clone(directories)
	for i, d := range directories {
		directories[i].keys = maps.Clone(d.keys)
		directories[i].keys[name] = value
	}
	return directories
}

// unchanged is a PRes that says that nothing is new.
func unchanged(preq object, serial string) object {
	o := presOf(preq, nil)
	delete(o, "cardRangeData")
	o["serialNum"] = serial
	return o
}

// letConnectionEnd gives the server time to see that its client has gone. From outside nothing tells when it has.
func letConnectionEnd() { time.Sleep(100 * time.Millisecond) }

// preqs waits until so many PReqs have come.
func (d *ds) preqs(t *T, n int) []*request {
	var sent []*request
	if !waitUntil(time.Duration(n)*stepTimeout, func() bool {
		sent = d.requests("PReq", "")
		return len(sent) >= n
	}) {
		t.Fatalf("%s: %d PReqs in time, want %d", d.scheme, len(sent), n)
	}
	return sent
}

// wantCompleteErro wants an Erro of the server to a directory to be complete.
func (x *flow) wantCompleteErro(o object, messageType string) {
	x.wantAllRequired(o)
	for name, want := range map[string]any{
		"messageType": "Erro", "messageVersion": x.version, "errorComponent": "S", "errorMessageType": messageType,
		"threeDSServerTransID": x.id, "dsTransID": x.ares["dsTransID"], "acsTransID": x.ares["acsTransID"],
	} {
		x.t.want(x.String()+" Erro", o, name, want)
	}
	if x.channel == "APP" {
		x.t.want(x.String()+" Erro", o, "sdkTransID", x.req["sdkTransID"])
	}
	texts(x.t, o)
}

// texts wants both texts of an Erro to be there and not too long.
func texts(t *T, o object) {
	for _, name := range []string{"errorDescription", "errorDetail"} {
		if n := len([]rune(o.text(name))); n < 1 || n > 2048 {
			t.Errorf("%s has %d characters, want 1 to 2048", name, n)
		}
	}
}

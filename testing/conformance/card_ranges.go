package conformance

// This file is one idea: the checks of the rows PR, and what they need to play a
// directory server that tells of its card ranges, which no other rows do.

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// cardRangeChecks is the protocol of card ranges.
var cardRangeChecks = []check{
	{id: "PR-01", waits: true, do: func(t *T) { // all ranges are asked for twice a day at most
		a := t.scriptedDS(v231, map[string]string{"min_refresh": ""}, nil)
		q := a.nextPReq(t)
		q.answer <- reply{body: a.pres("", a.entries(0, 1))(q.o)} // without a serial number the next one is for all again
		a.wantPReqAfter(t, 12*time.Hour)
		if a.pending.o.has("serialNum") {
			t.Errorf("after a PRes without a serial number the PReq has serialNum %q", a.pending.o.text("serialNum"))
		}
	}},
	{id: "PR-02", waits: true, do: func(t *T) { // changes are asked for once an hour at most, or as often as min_refresh lets
		leastTimeHolds(t, func(a *scriptedDS) answerTo { return a.pres("1", a.entries(0, 1)) })
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			for serial := range 3 {
				before := a.wantAccepted(t, a.pres(fmt.Sprint(serial+2), a.entries(4+serial))).at
				a.pending = a.nextPReq(t)
				if gap := a.pending.at.Sub(before); gap < minRefresh {
					t.Errorf("%s: the next PReq came after %v, the minRefresh is %v", a.version, gap, minRefresh)
				}
			}
		})
	}},
	{id: "PR-03", waits: true, do: func(t *T) { // nor sooner after bad data
		leastTimeHolds(t, func(a *scriptedDS) answerTo { return a.pres("1", a.entries(0, 1), drop("dsTransID")) })
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			for _, bad := range []struct {
				edit edit
				want string
			}{{drop("dsTransID"), "201 dsTransID"}, {raw("{"), "101"}, {set("messageType", "XRes"), "101"}} {
				before := a.wantRefused(t, bad.want, a.pres("2", a.entries(4), bad.edit)).at
				a.pending = a.nextPReq(t)
				if gap := a.pending.at.Sub(before); gap < minRefresh {
					t.Errorf("%s: the next PReq came after %v, the minRefresh is %v", a.version, gap, minRefresh)
				}
			}
		})
	}},
	{id: "PR-04", waits: true, do: func(t *T) { // every 24 hours at the latest
		l := t.ownLab(plan{unready: true, directories: []directory{scriptedDirectory("visa", v220, map[string]string{"refresh": "24h"})}})
		text, err := os.ReadFile(l.config)
		panicOnError(err)
		panicOnError(os.WriteFile(l.config, bytes.Replace(text, []byte("refresh: 24h"), []byte("refresh: 25h"), 1), 0o600))
		if _, err := l.newKey("Shop"); err == nil || !strings.Contains(err.Error(), "refresh") {
			t.Errorf("a configuration with refresh: 25h: %v, want it refused", err)
		}
		var all []*scriptedDS
		p := plan{unready: true, prepare: func(l *lab) { all = scriptAll(l) }}
		for scheme, version := range map[string]string{"jcb": v220, "sbn": v210} {
			p.directories = append(p.directories, scriptedDirectory(scheme, version, map[string]string{"refresh": "24h"}))
		}
		t.ownLab(p)
		var waits []func()
		for _, a := range all {
			t.cleanup(func() { close(a.closed) })
			waits = append(waits, func() {
				q := a.nextPReq(t)
				q.answer <- reply{body: a.pres("1", a.entries(0, 1))(q.o)}
				a.lab.turnClock(t, a.scheme, 21*time.Hour, 21*time.Hour)
				a.wantNoPReq(t, statusPoll+500*time.Millisecond)
				a.lab.turnClock(t, a.scheme, 3*time.Hour, 0)
				a.nextPReq(t)
			})
		}
		t.runTogether(waits...)
	}},
	{id: "PR-05", waits: true, do: func(t *T) { // 103: hold off
		leastTimeHolds(t, func(a *scriptedDS) answerTo { return a.erro("103") })
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			before := a.wantAccepted(t, a.erro("103")).at
			a.pending = a.nextPReq(t)
			if gap := a.pending.at.Sub(before); gap < minRefresh {
				t.Errorf("%s: after Erro 103 the next PReq came in %v, the minRefresh is %v", a.version, gap, minRefresh)
			}
			a.wantRanges(t, 0, 1, 2, 3)
		})
	}},
	{id: "PR-06", waits: true, do: func(t *T) { // 307: a full load, and the old ranges meanwhile
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			if q := a.wantAccepted(t, a.erro("307")); q.o.text("serialNum") != "1" {
				t.Errorf("%s: serialNum %q, want 1", a.version, q.o.text("serialNum"))
			}
			a.wantRanges(t, 0, 1, 2, 3)
			if q := a.wantAccepted(t, a.pres("9", a.entries(1, 2, 5))); q.o.has("serialNum") {
				t.Errorf("%s: after Erro 307 the PReq has serialNum %q", a.version, q.o.text("serialNum"))
			}
			a.wantRanges(t, 1, 2, 5)
			if a.pending = a.nextPReq(t); a.pending.o.text("serialNum") != "9" {
				t.Errorf("%s: after the full load the PReq has serialNum %q, want 9", a.version, a.pending.o.text("serialNum"))
			}
		})
	}},
	{id: "PR-07", waits: true, do: func(t *T) { // bad data: an Erro, and no PReq before the least time is over, in every version
		leastTimeHolds(t, func(a *scriptedDS) answerTo { return a.pres("1", []object{a.entry(0, overrides{"actionInd": "X"})}) })
		leastTimeHolds(t, func(a *scriptedDS) answerTo { return a.erro("307") })
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			before := a.wantRefused(t, "203 cardRangeData.actionInd", a.pres("2", []object{a.entry(5, overrides{"actionInd": "X"})})).at
			a.pending = a.nextPReq(t)
			if gap := a.pending.at.Sub(before); gap < minRefresh {
				t.Errorf("%s: the PReq was repeated after %v, the minRefresh is %v", a.version, gap, minRefresh)
			}
		})
	}},
	{id: "PR-08", waits: true, do: func(t *T) { // A, D and M; no action is A
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "10")
			a.wantAccepted(t, a.pres("11", []object{
				a.entry(0, overrides{"actionInd": "D"}), a.entry(4, overrides{"actionInd": "A"}), a.entry(5),
				a.entry(1, overrides{"actionInd": "M"}, a.method("https://acs.example/changed")),
			}))
			a.wantRanges(t, 1, 2, 3, 4, 5)
			if got := a.crd(t, a.card(1)).text("threeDSMethodURL"); got != "https://acs.example/changed" {
				t.Errorf("%s: threeDSMethodURL %q after M, want https://acs.example/changed", a.version, got)
			}
		})
	}},
	{id: "PR-09", waits: true, do: func(t *T) { // M changes no bounds
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			want := "203 cardRangeData"
			if a.version == v231 {
				want = "206"
			}
			low, high := a.rangeBounds(1)
			a.wantRefused(t, want, a.pres("2", []object{a.between(low, high[:15]+"8", overrides{"actionInd": "M"})}))
		})
	}},
	{id: "PR-10", waits: true, do: func(t *T) { // a complete set takes the place of the one before
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			a.wantAccepted(t, a.pres("", []object{a.entry(2), a.entry(4), a.entry(5, overrides{"actionInd": "D"})}))
			a.wantRanges(t, 2, 4, 5)
			if q := a.wantAccepted(t, a.pres("5", []object{a.entry(6, overrides{"actionInd": "D"}), a.entry(4)})); q.o.has("serialNum") {
				t.Errorf("%s: serialNum %q after a set without one, want none", a.version, q.o.text("serialNum"))
			}
			a.wantRanges(t, 4, 6)
			if a.version != v231 { // nothing at all never empties the ranges
				a.wantAccepted(t, a.pres("", nil))
				a.wantRanges(t, 4, 6)
			}
		})
	}},
	{id: "PR-11", waits: true, do: func(t *T) { // readOrder
		t.onScripted([]string{v231}, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			again := []object{a.entry(1, overrides{"actionInd": "D"}), a.entry(1)}
			a.wantAccepted(t, a.pres("2", again))
			a.wantRanges(t, 0, 1, 2, 3)
			a.wantRefused(t, "206", a.pres("3", again, set("readOrder", "02")))
			a.loadUsual(t, "2") // it may ask for everything after that
			slices.Reverse(again)
			a.wantAccepted(t, a.pres("3", again, set("readOrder", "02")))
			a.wantRanges(t, 0, 1, 2, 3)
		})
	}},
	{id: "PR-12", waits: true, do: func(t *T) { // an overlap is judged after each entry
		t.onScripted([]string{v231}, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			_, high := a.rangeBounds(1)
			moved := []object{a.entry(1, overrides{"actionInd": "D"}), a.between(a.card(1), high)}
			a.wantRefused(t, "205", a.pres("2", moved, set("readOrder", "02")))
			a.loadUsual(t, "1")
			a.wantAccepted(t, a.pres("2", moved))
			low, _ := a.rangeBounds(1)
			if a.crd(t, low) != nil || a.crd(t, a.card(1)) == nil {
				t.Errorf("the range that was moved begins elsewhere than at %s", a.card(1))
			}
		})
	}},
	{id: "PR-13", waits: true, do: func(t *T) { // readers see one set or the other
		t.onScripted(allVersions, func(a *scriptedDS) {
			set := func(n int) []object {
				var all []object
				for i := range 4 {
					all = append(all, a.entry(i, a.method(fmt.Sprintf("https://acs.example/%d", n)), a.info([]string{"01", "02"}[n:])))
				}
				return all
			}
			a.loadSet(t, "", set(0))
			over := make(chan struct{})
			var readers sync.WaitGroup
			for i := range 4 {
				readers.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-over:
							return
						default:
						}
						got, err := a.lab.callAPI("/preauth", a.lab.key, object{"acctNumber": a.card(i)}.bytes())
						if err != nil || got.status != 200 {
							t.Errorf("%s: while ranges were replaced: %v %v", a.version, got, err)
							return
						}
						url, info := got.o.text("threeDSMethodURL"), got.o.has("acsInfoInd[1]")
						if a.version != v210 && (url == "https://acs.example/0") != info {
							t.Errorf("%s: neither the set before nor the set after: %s", a.version, got.body)
							return
						}
					}
				})
			}
			for n := range 3 {
				a.wantAccepted(t, a.pres("", set((n+1)%2)))
			}
			close(over)
			readers.Wait()
		})
	}},
	{id: "PR-14", waits: true, long: true, do: prCrash},
	{id: "PR-15", waits: true, do: func(t *T) { // the same serial number and no ranges: no change
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "1")
			a.wantAccepted(t, a.pres("1", nil))
			a.wantRanges(t, 0, 1, 2, 3)
			if a.pending = a.nextPReq(t); a.pending.o.text("serialNum") != "1" {
				t.Errorf("%s: serialNum %q, want 1", a.version, a.pending.o.text("serialNum"))
			}
		})
	}},
	{id: "PR-16", waits: true, do: func(t *T) { prShared(t, false) }},
	{id: "PR-17", waits: true, do: func(t *T) { prShared(t, true) }},
	{id: "PR-18", waits: true, do: func(t *T) { // gzip is offered, and both forms are taken
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "")
			q, erro := a.answerNext(t, func(preq object) reply {
				return reply{body: gzipped(a.pres("", a.entries(1, 2, 4))(preq)), header: http.Header{"Content-Encoding": {"gzip"}}}
			})
			if erro != nil {
				t.Errorf("%s: a compressed PRes was refused: %s", a.version, erro.bytes())
			}
			if got := q.header.Get("Accept-Encoding"); a.version == v231 && got != "gzip" {
				t.Errorf("Accept-Encoding %q, want gzip", got)
			}
			a.wantRanges(t, 1, 2, 4)
			a.wantAccepted(t, a.pres("", a.entries(1, 2, 5)))
			a.wantRanges(t, 1, 2, 5)
		})
	}},
	{id: "PR-19", waits: true, do: func(t *T) { prFile(t, prFileBeside) }},
	{id: "PR-20", waits: true, do: func(t *T) { prFile(t, prFileCut) }},
	{id: "PR-21", waits: true, do: func(t *T) { prFile(t, prFileSerial) }},
	{id: "PR-22", waits: true, do: prLarge},
	{id: "PR-23", waits: true, do: prList},
	{id: "PR-24", waits: true, do: prCountry},
	{id: "PR-25", waits: true, do: func(t *T) { // a range's versions of the directory server override those of the PRes
		t.onScripted(since220, func(a *scriptedDS) {
			own := overrides{"dsStartProtocolVersion": v210, "dsEndProtocolVersion": v210}
			general := []edit{set("dsStartProtocolVersion", v210), set("dsEndProtocolVersion", v220)}
			wantOwn, want := v210+" "+v210, v210+" "+v220
			if a.version == v231 {
				own = overrides{"dsProtocolVersions": []string{v220}}
				general = []edit{set("dsProtocolVersions", []string{v220, v231})}
				wantOwn, want = v220+" "+v220, v220+" "+v231
			}
			a.loadSet(t, "", []object{a.entry(0), a.entry(1, own), a.entry(2), a.entry(3)}, general...)
			for n, want := range []string{want, wantOwn} {
				crd := a.crd(t, a.card(n))
				if got := crd.text("dsStartProtocolVersion") + " " + crd.text("dsEndProtocolVersion"); got != want {
					t.Errorf("%s: range %d: versions of the directory server %s, want %s", a.version, n, got, want)
				}
			}
		})
	}},
	{id: "PR-26", waits: true, do: func(t *T) { // bounds belong to the range, padded to the length of the card
		t.onScripted(allVersions, func(a *scriptedDS) {
			low, high := a.rangeBounds(5)
			a.loadSet(t, "", append(a.entries(0, 1), a.between(low, high), a.between(a.prefix+"60000", a.prefix+"60999")))
			for pan, in := range map[string]bool{
				low: true, high: true, a.card(5): true, low + "0": true, low[:15]: false, high + "999": true,
				a.prefix + "60000": true, a.prefix + "60999": true, a.prefix + "61000": false, a.prefix + "59999": false,
				a.prefix + "600000": true, a.prefix + "60999999999": true, a.prefix + "61000000000": false,
			} {
				if got := a.crd(t, pan) != nil; got != in {
					t.Errorf("%s: a card of %d digits: enrolled %t, want %t", a.version, len(pan), got, in)
				}
			}
			for _, pan := range []string{shiftPAN(low, -1), shiftPAN(high, 1), shiftPAN(low, -1) + "999", shiftPAN(high, 1) + "000"} {
				if a.crd(t, pan) != nil {
					t.Errorf("%s: %s, just outside of %s to %s, is enrolled", a.version, pan, low, high)
				}
			}
		})
	}},
	{id: "PR-27", waits: true, do: func(t *T) { // a card in no range
		x := t.flow(v220, "BRW")
		card := cardUnknown
		if t.remote() { // a number for national use: no scheme has it, and the sandbox does not either
			card = "9000100111111111"
		}
		t.countJudged()
		got := x.call("/preauth", object{"acctNumber": card}.bytes())
		if got.status != 400 || got.o.text("errorCode") != "305" || got.o.text("errorComponent") != "S" || got.o.text("errorDescription") != "Unknown BIN" {
			t.Errorf("/preauth: %d %s, want Erro 305 Unknown BIN", got.status, got.body)
		}
	}},
	{id: "PR-28", waits: true, do: func(t *T) { // before there are ranges: not now, and when no directory server has any, not enrolled
		var a, b *scriptedDS
		directories := []directory{scriptedDirectory("visa", v220, nil), scriptedDirectory("mastercard", v220, nil)}
		l := t.ownLab(plan{unready: true, directories: directories, prepare: func(l *lab) {
			a, b = scriptDS(l, l.ds["visa"], v220, "47000000"), scriptDS(l, l.ds["mastercard"], v220, "57000000")
		}})
		t.cleanup(func() { close(a.closed); close(b.closed) })
		says := func(preauth, auth string) {
			x := t.flowIn(l, v220, "APP")
			for path, want := range map[string]string{"/preauth": preauth, "/auth": auth} {
				body := object{"acctNumber": cardNoMethod}
				if path == "/auth" {
					body = x.req
				}
				if got := x.call(path, body.bytes()); got.status != 400 || got.o.text("errorCode") != want || got.o.text("errorComponent") != "S" {
					t.Errorf("%s: %d %s, want Erro %s", path, got.status, got.body, want)
				}
			}
			if areqs := a.requests("AReq", ""); len(areqs) > 0 {
				t.Errorf("an AReq left for a card without a range, want none: %s", areqs[0].body)
			}
		}
		a.pending, b.pending = a.nextPReq(t), b.nextPReq(t)
		says("403", "403")
		b.wantAccepted(t, b.erro("404"))
		says("403", "403") // nothing is known yet about the other one
		a.wantAccepted(t, a.erro("404"))
		says("305", "305")
	}},
	{id: "PR-29", waits: true, do: func(t *T) { // no connection: once more at once, and then every minute
		var d *ds
		l := t.ownLab(plan{unready: true, directories: []directory{{scheme: "visa"}}, prepare: func(l *lab) {
			d = l.ds["visa"]
			d.cut = 1000
		}})
		if !waitUntil(stepTimeout, func() bool { return len(d.connections()) >= 2 }) {
			t.Fatalf("%d connections, want two at once", len(d.connections()))
		}
		first := d.connections()
		if gap := first[1].Sub(first[0]); gap > time.Second {
			t.Errorf("the second attempt came after %v, want it at once", gap)
		}
		for want := 2; want < 4; want++ {
			l.turnClock(t, "visa", 45*time.Second, 30*time.Second)
			if waitUntil(statusPoll+500*time.Millisecond, func() bool { return len(d.connections()) > want }) {
				t.Fatalf("%d attempts within a minute, want %d", len(d.connections()), want)
			}
			l.turnClock(t, "visa", 15*time.Second, 0)
			if !waitUntil(stepTimeout, func() bool { return len(d.connections()) > want }) {
				t.Fatalf("%d attempts after a minute, want one more", want)
			}
		}
		if got, err := l.callAPI("/preauth", l.key, object{"acctNumber": cardNoMethod}.bytes()); err != nil || got.o.text("messageType") != "Erro" {
			t.Errorf("/preauth without any ranges: %v %v, want an Erro", got, err)
		}
	}},
	{id: "PR-30", waits: true, do: func(t *T) { // the same mutual TLS as for AReq
		d := t.sharedLab().ds["visa"]
		preqs := d.requests("PReq", "")
		x := t.flow(v220, "BRW")
		x.areq()
		if len(preqs) == 0 {
			t.Fatalf("no PReq came")
		}
		if len(preqs[0].tls.PeerCertificates) == 0 {
			t.Fatalf("the PReq came without a certificate")
		}
		areq := x.sent()[0]
		if !bytes.Equal(preqs[0].tls.PeerCertificates[0].Raw, areq.tls.PeerCertificates[0].Raw) {
			t.Errorf("the PReq came with another certificate than the AReq")
		}
	}},
	{id: "PR-31", waits: true, do: func(t *T) { // a bad PRes is answered with an Erro, in a request of its own
		t.onScripted(allVersions, func(a *scriptedDS) {
			a.loadUsual(t, "")
			q := a.wantRefused(t, "201 dsTransID", a.pres("", a.entries(0, 1, 2, 3), drop("dsTransID")))
			erro := a.requests("Erro", q.id)[0]
			for name, want := range map[string]string{
				"messageType": "Erro", "errorMessageType": "PRes", "errorComponent": "S", "messageVersion": a.version,
				"threeDSServerTransID": q.id,
			} {
				if got := erro.o.text(name); got != want {
					t.Errorf("%s: %s = %q, want %q", a.version, name, got, want)
				}
			}
			if erro.method != http.MethodPost || erro.o.text("errorDescription") == "" {
				t.Errorf("%s: the Erro came as %s %s, want a POST and an errorDescription", a.version, erro.method, erro.body)
			}
			if n := len(a.requests("Erro", q.id)); n != 1 {
				t.Errorf("%s: %d Erros, want 1", a.version, n)
			}
		})
	}},
	{id: "PR-32", waits: true, do: func(t *T) { // the ranges outlive the process, and so does the time of the latest PReq
		l := t.ownLab(plan{directories: []directory{{scheme: "visa", keys: map[string]string{"min_refresh": "", "refresh": "1s"}}}})
		d := l.ds["visa"]
		for range 2 {
			l.kill()
			if err := l.start(true); err != nil {
				t.Fatalf("%v", err)
			}
			got, err := l.callAPI("/preauth", l.key, object{"acctNumber": cardNoMethod}.bytes())
			if err != nil || got.status != 200 {
				t.Errorf("/preauth after a restart: %v %v, want the CRD", got, err)
			}
		}
		if waitUntil(2*time.Second, func() bool { return len(d.requests("PReq", "")) > 1 }) {
			t.Errorf("%d PReqs after restarts, want one within the protocol's minRefresh", len(d.requests("PReq", "")))
		}
	}},
}

// leastTimeHolds wants the next PReq to follow an answer after an hour and no sooner, where min_refresh is not
// configured: then the least time between two is the protocol's, whatever refresh says.
func leastTimeHolds(t *T, say func(*scriptedDS) answerTo) {
	var all []*scriptedDS
	p := plan{unready: true, prepare: func(l *lab) { all = scriptAll(l) }}
	for _, s := range scriptedSchemes {
		if s.scheme == "visa" || s.scheme == "jcb" || s.scheme == "sbn" { // one of each version
			p.directories = append(p.directories, scriptedDirectory(s.scheme, s.version, map[string]string{"min_refresh": ""}))
		}
	}
	t.ownLab(p)
	var waits []func()
	for _, a := range all {
		t.cleanup(func() { close(a.closed) })
		waits = append(waits, func() {
			q := a.nextPReq(t)
			q.answer <- reply{body: say(a)(q.o)}
			a.wantPReqAfter(t, time.Hour)
		})
	}
	t.runTogether(waits...)
}

// method changes the address of a range's 3DS Method.
func (a *scriptedDS) method(url string) overrides {
	if a.version == v231 {
		return overrides{"acsProtocolVersions[0].threeDSMethodURL": url, "acsProtocolVersions[1].threeDSMethodURL": url}
	}
	return overrides{"threeDSMethodURL": url}
}

// info changes a range's acsInfoInd.
func (a *scriptedDS) info(codes []string) overrides {
	switch a.version {
	case v231:
		return overrides{"acsProtocolVersions[0].acsInfoInd": codes, "acsProtocolVersions[1].acsInfoInd": codes}
	case v220:
		return overrides{"acsInfoInd": codes}
	}
	return nil
}

// shiftPAN adds to a card number.
func shiftPAN(pan string, by int64) string {
	var n int64
	_, _ = fmt.Sscan(pan, &n)
	return fmt.Sprint(n + by)
}

// prCrash kills servers while they take over an update. Afterwards the serial number
// that a server goes on with must be that of the ranges that it has. There are so many
// ranges that an update takes a while: one server is killed when it begins to write, the
// others after a part of the time that the update before took.
func prCrash(t *T) {
	var kills []func()
	for _, part := range []float64{0, 0.5, 0.75} {
		a := t.scriptedDS(v231, nil, nil)
		kills = append(kills, func() { a.killDuringUpdate(t, part) })
	}
	t.runTogether(kills...)
}

func (a *scriptedDS) killDuringUpdate(t *T, part float64) {
	a.wantAccepted(t, a.presWithManyRanges("1", 20_000))
	a.update(t, "2", 4)
	start := time.Now()
	if !waitUntil(stepTimeout, func() bool { return a.crd(t, a.card(4)) != nil }) {
		t.Fatalf("one range more was not there after %v", stepTimeout)
	}
	took := time.Since(start)
	a.update(t, "3", 5)
	time.Sleep(time.Duration(part * float64(took)))
	a.lab.kill()
	a.dropPReqs()
	if err := a.lab.start(false); err != nil {
		t.Fatalf("%v", err)
	}
	a.pending = a.nextPReq(t) // the lease of a process that was killed has to run out first
	got, has := a.pending.o.text("serialNum"), a.crd(t, a.card(5)) != nil
	if got != "2" && got != "3" || has != (got == "3") {
		t.Errorf("after a crash the PReq has serialNum %q, and the ranges of 3 are there: %t; want 3 with them, or 2 without", got, has)
	}
	if a.crd(t, a.card(4)) == nil || a.crd(t, crowded) == nil {
		t.Errorf("after a crash the ranges before it are gone")
	}
}

// update answers with the n-th range, to be added, and waits until something of it is
// written to the store.
func (a *scriptedDS) update(t *T, serial string, n int) {
	q := a.nextPReq(t)
	before := a.lab.storeState()
	q.answer <- reply{body: a.pres(serial, a.entries(n))(q.o)}
	if !waitUntil(stepTimeout, func() bool { return a.lab.storeState() != before }) {
		t.Fatalf("one range more was not stored after %v", stepTimeout)
	}
}

// storeState is the state of the store's files: it changes whenever something is written.
func (l *lab) storeState() string {
	var all strings.Builder
	files, err := os.ReadDir(filepath.Join(l.dir, "data"))
	panicOnError(err)
	for _, file := range files {
		if info, err := file.Info(); err == nil { // else it has just gone
			fmt.Fprintln(&all, info.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return all.String()
}

// presWithManyRanges is a PRes with the first four ranges of the directory server and many others, each with a
// threeDSMethodURL of its own.
func (a *scriptedDS) presWithManyRanges(serial string, many int) answerTo {
	return func(preq object) []byte {
		const list = `"cardRangeData":[`
		head, tail, _ := strings.Cut(string(a.pres(serial, a.entries(0, 1, 2, 3))(preq)), list)
		body := bytes.NewBufferString(head + list)
		for n := range many {
			fmt.Fprintf(body,
				`{"ranges":[{"start":"46%06d00000000","end":"46%06d99999999"}],"acsProtocolVersions":[{"version":"2.3.1","threeDSMethodURL":"https://acs.example/%0200d"}]},`,
				n, n, n)
		}
		body.WriteString(tail)
		return body.Bytes()
	}
}

// crowded is a card in the first range of a crowd.
const crowded = "4600000012345678"

// prShared has two directories that enroll the same card, in the same range or, with
// partly, in ranges that overlap.
func prShared(t *T, partly bool) {
	var all []*scriptedDS
	l := t.ownLab(plan{
		unready: true, directories: []directory{scriptedDirectory("visa", v231, nil), scriptedDirectory("mastercard", v220, nil)},
		prepare: func(l *lab) {
			all = []*scriptedDS{scriptDS(l, l.ds["visa"], v231, "47000000"), scriptDS(l, l.ds["mastercard"], v220, "47000000")}
		},
	})
	t.cleanup(func() { close(all[0].closed); close(all[1].closed) })
	for n, a := range all {
		low, high := a.rangeBounds(1)
		if partly && n == 1 {
			low, _ = a.rangeBounds(0)
			high = a.card(1)
		}
		a.loadSet(t, fmt.Sprint(n+1), []object{a.between(low, high)})
	}
	for _, a := range all {
		crd := all[0].crd(t, a.card(1), set("ds", a.scheme))
		if crd.text("scheme") != a.scheme {
			t.Errorf("a card that two schemes hold, %s wished for: %s", a.scheme, crd.bytes())
		}
		x := t.flowIn(l, v220, "BRW").card(a.scheme, a.card(1))
		x.id = crd.text("threeDSServerTransID")
		x.scriptDS()
		x.wantAccepted()
		if n := len(x.sent()); n != 1 {
			t.Errorf("%s was wished for and got %d AReqs, want 1", a.scheme, n)
		}
	}
	if got := all[0].crd(t, all[0].card(1)).text("scheme"); got != "visa" {
		t.Errorf("a card that two schemes hold, no wish: %q, want the first that is configured", got)
	}
	for n, a := range all {
		if a.pending = a.nextPReq(t); a.pending.o.text("serialNum") != fmt.Sprint(n+1) {
			t.Errorf("%s is asked with serialNum %q, want its own", a.scheme, a.pending.o.text("serialNum"))
		}
	}
}

// A fileServer serves a card range file.
type fileServer struct {
	content []byte
	cutAt   int // the connection breaks after so many bytes of an answer; 0: never

	mu   sync.Mutex
	gets []http.Header
}

func (f *fileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.gets = append(f.gets, r.Header.Clone())
	f.mu.Unlock()
	from := 0
	status := http.StatusOK
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil && from > 0 && from < len(f.content) {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(f.content)-1, len(f.content)))
		status = http.StatusPartialContent
	}
	w.Header().Set("ETag", `"1"`)
	w.Header().Set("Content-Length", fmt.Sprint(len(f.content)-from))
	w.WriteHeader(status)
	rest := f.content[from:]
	if f.cutAt > 0 && len(rest) > f.cutAt {
		_, _ = w.Write(rest[:f.cutAt])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(rest)
}

func (f *fileServer) asked() []http.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.gets)
}

// prFile runs a scenario with a directory whose ranges come in a file, at url.
func prFile(t *T, scenario func(t *T, a *scriptedDS, files *fileServer, url string)) {
	a := t.scriptedDS(v231, map[string]string{"file_hosts": "[127.0.0.1]"}, nil)
	files := &fileServer{content: encode(object{"cardRangeData": a.entries(4, 5)})}
	server := httptest.NewUnstartedServer(files)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{a.ca.issue("files.example")}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.cleanup(server.Close)
	scenario(t, a, files, server.URL+"/ranges.json")
}

// prFileBeside: a PRes that has cardRangeDataFileURL counts for nothing else. The file is
// a complete set, checked as any other.
func prFileBeside(t *T, a *scriptedDS, files *fileServer, url string) {
	a.loadUsual(t, "")
	a.wantAccepted(t, a.pres("", nil, set("cardRangeDataFileURL", url)))
	a.wantRanges(t, 4, 5)
	files.content = encode(object{"cardRangeData": append(a.entries(4), a.between(a.card(4), a.card(5)))})
	a.wantRefused(t, "205", a.pres("", nil, set("cardRangeDataFileURL", url)))
	files.content = encode(object{"cardRangeData": a.entries(6, 7)})
	a.wantAccepted(t, a.pres("9", a.entries(1), set("cardRangeDataFileURL", url)))
	a.wantRanges(t, 6, 7)
	files.content = encode(object{"cardRangeData": a.entries(5, 6)})
	a.wantAccepted(t, a.pres("9", []object{{"ranges": "none"}}, set("cardRangeDataFileURL", url)))
	a.wantAccepted(t, a.pres("", []object{}, set("cardRangeDataFileURL", url)))
	a.wantRanges(t, 5, 6)
	if a.pending = a.nextPReq(t); a.pending.o.has("serialNum") {
		t.Errorf("serialNum %q, which came beside the address of a file; want none", a.pending.o.text("serialNum"))
	}
}

// prFileCut: where the connection broke, the server asks for the rest of the file.
func prFileCut(t *T, a *scriptedDS, files *fileServer, url string) {
	files.cutAt = 100
	a.wantAccepted(t, a.pres("", nil, set("cardRangeDataFileURL", url)))
	a.wantRanges(t, 4, 5)
	asked := files.asked()
	if len(asked) < 2 {
		t.Fatalf("the file was asked for %d times, want once for each %d of its %d bytes", len(asked), files.cutAt, len(files.content))
	}
	for n, h := range asked {
		want := ""
		if n > 0 {
			want = fmt.Sprintf("bytes=%d-", n*files.cutAt)
		}
		if h.Get("Range") != want {
			t.Errorf("request %d: Range %q, want %q", n+1, h.Get("Range"), want)
		}
	}
}

// prFileSerial: with files there are no serial numbers.
func prFileSerial(t *T, a *scriptedDS, files *fileServer, url string) {
	for n, say := range []answerTo{a.pres("5", a.entries(0, 1)), a.pres("", nil, set("cardRangeDataFileURL", url)), a.pres("6", a.entries(0, 1))} {
		q := a.wantAccepted(t, say)
		if q.o.has("serialNum") || q.o.text("cardRangeDataDownloadInd") != "Y" {
			t.Errorf("PReq %d: %s, want cardRangeDataDownloadInd and no serialNum", n+1, q.body)
		}
	}
}

// wantURLByCountry gives the directory server a dsUrlList that has an address for India, the country of range
// 0, and one for Switzerland.
func wantURLByCountry(t *T, a *scriptedDS) {
	a.loadSet(t, "", []object{a.entry(0, overrides{"issuerCountryCode": "356"}), a.entry(1, overrides{"issuerCountryCode": "208"}), a.entry(2), a.entry(3)},
		set("dsUrlList", []object{{"threeDSServerToDsUrl": a.url + "india", "dsCountryCode": "356"},
			{"threeDSServerToDsUrl": a.url + "switzerland", "dsCountryCode": "756"}}))
}

// wantAReqAt wants the AReq of a card in the n-th range to arrive at a path.
func (a *scriptedDS) wantAReqAt(t *T, n int, path string) {
	x := t.flowIn(a.lab, v231, "BRW").card(a.scheme, a.card(n))
	x.wantAccepted()
	if sent := x.sent(); len(sent) != 1 || sent[0].path != path {
		var paths []string
		for _, q := range sent {
			paths = append(paths, q.path)
		}
		t.Errorf("range %d: AReqs came to %q, want one to %s", n, paths, path)
	}
}

func prCountry(t *T) { // PR-24: the country of a range decides where its AReqs go
	t.onScripted([]string{v231}, func(a *scriptedDS) {
		wantURLByCountry(t, a)
		a.wantAReqAt(t, 0, "/india")
		a.wantAReqAt(t, 1, "/")
		a.wantAReqAt(t, 2, "/")
	})
}

func prList(t *T) { // PR-23: a list takes the place of the one before, and so does none
	t.onScripted([]string{v231}, func(a *scriptedDS) {
		wantURLByCountry(t, a)
		a.wantAReqAt(t, 0, "/india")
		ranges := []object{a.entry(0, overrides{"issuerCountryCode": "356"}), a.entry(1)}
		a.wantAccepted(t, a.pres("", ranges, set("dsUrlList", []object{{"threeDSServerToDsUrl": a.url + "elsewhere", "dsCountryCode": "356"}})))
		a.wantAReqAt(t, 0, "/elsewhere")
		a.wantAccepted(t, a.pres("", ranges))
		a.wantAReqAt(t, 0, "/")
	})
}

// prLarge sends a complete set of 200000 entries in 200 MB, compressed: it is in use after a minute at the most. Most
// of it is text that the server has no use for, so that a server which holds the whole of it takes too much memory.
func prLarge(t *T) {
	a := t.scriptedDS(v231, nil, nil)
	a.loadUsual(t, "")
	const many = 200_000
	before := a.lab.memory(t)
	size := 0 // of the entries, before compression
	unused := strings.Repeat("x", 900)
	q := a.nextPReq(t)
	var body bytes.Buffer
	pack, err := gzip.NewWriterLevel(&body, gzip.BestSpeed)
	panicOnError(err)
	whole := string(a.pres("", []object{{"x": "y"}})(q.o))
	head, tail, _ := strings.Cut(whole, `{"x":"y"}`)
	_, _ = io.WriteString(pack, head)
	for n := range many {
		comma := ","
		if n == 0 {
			comma = ""
		}
		got, _ := fmt.Fprintf(pack,
			`%s{"ranges":[{"start":"46%06d00000000","end":"46%06d99999999"}],"acsProtocolVersions":[{"version":"2.2.0","threeDSMethodURL":"https://acs%d.example/method","acsInfoInd":["01","02"]},{"version":"2.3.1","acsInfoInd":["01"]}],"unused":"%s"}`,
			comma, n, n, n%500, unused)
		size += got
	}
	_, _ = io.WriteString(pack, tail)
	panicOnError(pack.Close())
	q.answer <- reply{body: body.Bytes(), header: http.Header{"Content-Encoding": {"gzip"}}}
	if !waitUntil(5*stepTimeout, func() bool { return a.crd(t, fmt.Sprintf("46%06d12345678", many-1)) != nil }) {
		t.Fatalf("%d ranges in %d bytes were not there after %v", many, size, 5*stepTimeout)
	}
	if grown := a.lab.memory(t) - before; grown > size/2 {
		t.Errorf("a PRes of %d bytes took %d bytes of memory, want at most half as many", size, grown)
	}
	if a.crd(t, crowded) == nil || a.crd(t, a.card(0)) != nil {
		t.Errorf("the set is not the one that was sent")
	}
}

// memory is the peak resident memory of the server so far, in bytes; 0 where the system
// does not tell.
func (l *lab) memory(t *T) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.process.Process.Pid))
	if err != nil {
		return 0 // not this system
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	kilobytes := 0
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		t.Fatalf("VmHWM: %v", err)
	}
	return kilobytes << 10
}

// dropPReqs forgets PReqs that a process left behind which is gone.
func (a *scriptedDS) dropPReqs() {
	a.pending = nil
	for {
		select {
		case <-a.preqs:
		case <-time.After(20 * time.Millisecond):
			return
		}
	}
}

package conformance

// retryChecks is retries and failures.
var retryChecks = []check{
	{id: "RT-01", do: func(t *T) {
		l := t.ownLab(plan{directories: []directory{{scheme: "visa"}}, prepare: disableKeepAlive})
		for _, v := range allVersions {
			dead := t.flowIn(l, v, "BRW")
			dead.preauth()
			before := len(dead.d.connections())
			dead.d.cutNext(2)
			got := dead.auth()
			dead.wantErro("requestor", got.o, "405", "")
			if n := len(dead.d.connections()) - before; n != 2 {
				t.Errorf("%s: %d connections were tried, want 2", dead, n)
			}
			once := t.flowIn(l, v, "BRW")
			once.preauth()
			once.d.cutNext(1)
			once.wantAccepted()
			if n := len(once.sent()); n != 1 {
				t.Errorf("%s: %d AReqs after one connection failed, want 1", once, n)
			}
		}
	}},
	{id: "RT-02", waits: true, do: func(t *T) {
		for _, v := range allVersions {
			for _, say := range []reply{{cut: true}, {status: 503}, {body: []byte("{")}} {
				x := t.flow(v, "BRW")
				x.setAnswer(func(*request) reply { return say })
				x.wantErro("requestor", x.auth().o, "101|402|403|405", "")
				if n := len(x.sent()); n != 1 {
					t.Errorf("%s: %d AReqs, want 1", x, n)
				}
			}
		}
		silent := t.flow(v220, "BRW")
		silent.setAnswer(func(*request) reply { return reply{silent: true} })
		silent.wantErro("requestor", silent.auth().o, "402|405", "")
		if n := len(silent.sent()); n != 1 {
			t.Errorf("%d AReqs to a silent directory, want 1", n)
		}
	}},
	{id: "RT-03", do: func(t *T) {
		l := t.ownLab(plan{})
		x := t.flowIn(l, v220, "BRW")
		stopped := make(chan struct{})
		x.setAnswer(func(q *request) reply {
			go func() {
				l.stop()
				close(stopped)
			}()
			waitUntil(stepTimeout, func() bool { // until new requests are refused
				got, err := l.callAPI("/preauth", l.key, object{"acctNumber": "4000001234567899"}.bytes())
				return err != nil || got.status == 503 && got.o.text("errorCode") == "403"
			})
			return reply{body: aresTo(q.o, "Y").bytes()}
		})
		x.wantAccepted() // a request under way is finished
		<-stopped
		if got, err := l.callAPI("/preauth", l.key, object{"acctNumber": "4000001234567899"}.bytes()); err == nil {
			t.Errorf("/preauth after the server has stopped: %d %s, want no answer", got.status, got.body)
		}
	}},
	{id: "RT-04", waits: true, do: func(t *T) { // another address of the directory server takes the place of one that is dead
		dead := freeAddresses(1)[0]
		a := t.scriptedDS(v231, map[string]string{"areq_url": "https://" + dead + "/"}, nil)
		a.loadSet(t, "", a.entries(0, 1, 2, 3), set("dsUrlList", []object{{"threeDSServerToDsUrl": a.url + "spare"}}))
		a.wantAReqAt(t, 0, "/spare")
		a.wantAccepted(t, a.pres("", a.entries(0, 1, 2, 3)))
		x := t.flowIn(a.lab, v231, "BRW").card(a.scheme, a.card(0))
		x.wantErro("requestor", x.auth().o, "405", "")
	}},
	{id: "RT-05", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			sent := x.rreqOf("Y").bytes()
			x.wantRRes(x.post(sent), "01")
			before := x.result()
			x.wantRReqRefused(x.post(sent), stateCode(v, "312"), "")
			if after := x.result(); string(after.body) != string(before.body) {
				t.Errorf("%s: the result has become %s, want the first, %s", x, after.body, before.body)
			}
		}
	}},
	{id: "RT-06", do: func(t *T) {
		for _, v := range allVersions {
			for _, status := range []int{201, 302, 400, 404, 413, 429, 500, 503} {
				x := t.flow(v, "BRW")
				x.setAnswer(func(q *request) reply {
					return reply{status: status, header: map[string][]string{"Location": {x.d.url}}, body: aresTo(q.o, "Y").bytes()}
				})
				x.wantErro("requestor", x.auth().o, "403|405", "")
				if n := len(x.sent()); n != 1 {
					t.Errorf("%s: %d AReqs after status %d, want 1", x, n, status)
				}
			}
		}
	}},
}

// disableKeepAlive turns off keep-alive, so that each request to a directory server comes over a
// connection of its own.
func disableKeepAlive(l *lab) {
	for _, d := range l.ds {
		d.server.SetKeepAlivesEnabled(false)
	}
}

// cutNext cuts the next connections before their handshake.
func (d *ds) cutNext(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = n
}

package conformance

import (
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// httpChecks is HTTP.
var httpChecks = []check{
	{id: "HT-01", do: func(t *T) {
		l := t.sharedLab()
		d := l.ds["visa"]
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodHead} {
			got, err := send(d.client, method, l.results, nil, nil)
			if err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			if got.status != 405 || got.header.Get("Allow") != "POST" {
				t.Errorf("results: %s: %d, Allow: %q, want 405 and POST", method, got.status, got.header.Get("Allow"))
			}
			for _, path := range []string{"/preauth", "/auth", "/postauth"} {
				got, err := send(l.client, method, l.api+path, http.Header{"Apikey": {l.key}}, nil)
				if err != nil {
					t.Fatalf("%s: %v", method, err)
				}
				if got.status != 405 || got.header.Get("Allow") != "POST" {
					t.Errorf("%s: %s: %d, Allow: %q, want 405 and POST", path, method, got.status, got.header.Get("Allow"))
				}
			}
		}
	}},
	{id: "HT-02", do: func(t *T) {
		for _, q := range t.everyMessage() {
			if q.proto != "HTTP/1.1" && q.proto != "HTTP/2.0" {
				t.Errorf("%s came by %s, want HTTP/1.1 or HTTP/2.0", q.typ, q.proto)
			}
		}
		x := t.flow(v220, "BRW").startChallenge()
		if got := x.rreq("Y"); got.proto != "HTTP/1.1" && got.proto != "HTTP/2.0" {
			t.Errorf("the results listener speaks %s, want HTTP/1.1 or HTTP/2.0", got.proto)
		}
	}},
	{id: "HT-03", do: func(t *T) {
		for _, q := range t.everyMessage() {
			if q.length != int64(len(q.body)) && !q.chunked {
				t.Errorf("%s: %d bytes, announced as %d and not chunked", q.typ, len(q.body), q.length)
			}
		}
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			for _, got := range []*answer{x.answer, x.rreq("Y", drop("transStatus")), x.rreq("Y"), x.result(), x.post(erroFor(x, "203").bytes())} {
				if !got.framed {
					t.Errorf("%s: an answer without Content-Length that is not chunked: %s", x, got.body)
				}
			}
		}
	}},
	{id: "HT-04", do: func(t *T) {
		for _, q := range t.everyMessage() {
			isJSON(t, q.typ, q.header)
		}
		for _, v := range allVersions {
			x := t.flow(v, "BRW")
			x.setAnswer(func(q *request) reply {
				return reply{header: http.Header{"Content-Type": {"Application/JSON;Charset=UTF-8"}}, body: aresTo(q.o, "C").bytes()}
			})
			x.wantAccepted()
			isJSON(t, "Erro", x.rreq("Y", drop("transStatus")).header)
			got, err := post(x.d.client, x.l.results, http.Header{"Content-Type": {"application/JSON; charset=Utf-8"}}, x.rreqOf("Y").bytes())
			if err != nil {
				t.Fatalf("%v", err)
			}
			x.wantRRes(got, "01")
			isJSON(t, "RRes", got.header)
		}
	}},
	{id: "HT-05", do: func(t *T) {
		for _, kind := range []string{"text/plain", "application/json", "application/octet-stream"} {
			x := t.flow(v220, "BRW").startChallenge()
			got, err := post(x.d.client, x.l.results, http.Header{"Content-Type": {kind}}, x.rreqOf("Y").bytes())
			if err != nil {
				t.Fatalf("%v", err)
			}
			if got.status != 415 {
				x.wantRRes(got, "01")
			}
		}
	}},
	{id: "HT-06", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			x.wantRRes(x.rreq("Y"), "01") // as the answer to the RReq
			if n := len(x.d.requests("RRes", x.id)); n > 0 {
				t.Errorf("%s: %d RRes came as requests, want none", x, n)
			}
		}
	}},
	{id: "HT-07", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			for _, bad := range [][]edit{
				{drop("transStatus")}, {set("transStatus", "C")}, {set("messageVersion", "9.9.9")}, {set("messageType", "XReq")}, {twice("eci", "05")},
				{set("threeDSServerTransID", newID())},
			} {
				if got := x.rreq("Y", bad...); got.status != 200 || got.o.text("messageType") != "Erro" {
					t.Errorf("%s: %d %s, want 200 and an Erro", x, got.status, got.body)
				}
			}
			if got := x.rreq("Y"); got.status != 200 {
				t.Errorf("%s: RRes with status %d, want 200", x, got.status)
			}
		}
	}},
	{id: "HT-08", do: func(t *T) {
		l := t.ownLab(plan{sections: map[string]string{"limits": "{in_flight: 4}"}})
		d := l.ds["visa"]
		for _, size := range []int{257 << 10, 10 << 20} {
			got, err := d.post(l.results, []byte(`{"messageType":"RReq","x":"`+strings.Repeat("a", size)+`"}`))
			if err != nil && size > 1<<20 {
				continue // the connection may be closed while so large a body is on its way
			}
			if err != nil || got.status != 413 {
				t.Errorf("results: %d bytes: %+v %v, want 413", size, got, err)
			}
		}
		large, err := l.callAPI("/preauth", l.other, []byte(`{"acctNumber":"4000001234567899","x":"`+strings.Repeat("a", 70<<10)+`"}`))
		if err != nil || large.status != 413 {
			t.Errorf("/preauth: 70 KiB: %+v %v, want 413", large, err)
		}
		l.wantOverload(t)

		l = t.ownLab(plan{sections: map[string]string{"limits": "{per_key: 1/h}"}})
		for _, want := range []int{200, 429} {
			got, err := l.callAPI("/preauth", l.key, object{"acctNumber": "4000001234567899"}.bytes())
			if err != nil || got.status != want || (want == 429) != (got.header.Get("Retry-After") != "") {
				t.Errorf("one request in an hour: %+v %v, want %d", got, err, want)
			}
		}
	}},
	{id: "HT-09", do: func(t *T) {
		for _, kind := range []string{"APP", "BRW", "3RI"} {
			x := t.flow(v231, kind)
			x.areq()
			if got := x.sent()[0].header.Get("X-Request-ID"); got != x.id {
				t.Errorf("%s: X-Request-ID %q, want %q", x, got, x.id)
			}
		}
		for _, d := range t.sharedLab().ds {
			for _, q := range d.requests("PReq", "") {
				if got := q.header.Get("X-Request-ID"); got != q.id {
					t.Errorf("PReq: X-Request-ID %q, want %q", got, q.id)
				}
			}
		}
	}},
	{id: "HT-10", do: func(t *T) {
		for _, kind := range []string{"APP", "BRW"} {
			x := t.flow(v231, kind).startChallenge()
			got := x.rreq("Y")
			if a, b := got.header.Get("X-Request-ID"), got.header.Get("X-Response-ID"); a != x.ares.text("dsTransID") || b != x.id {
				t.Errorf("%s: X-Request-ID %q and X-Response-ID %q, want %q and %q", x, a, b, x.ares.text("dsTransID"), x.id)
			}
		}
	}},
	{id: "HT-11", do: func(t *T) {
		needed := []string{"Accept", "Accept-Encoding", "Content-Length", "Content-Type", "User-Agent", "X-Request-Id"}
		for _, q := range t.everyMessage() {
			for name := range q.header {
				if !slices.Contains(needed, name) {
					t.Errorf("%s has the header %s, want only those that are needed", q.typ, name)
				}
			}
		}
		odd := http.Header{"X-Odd": {"1"}, "Cookie": {"a=b"}, "X-Request-Id": {"no uuid"}, "Expect-Ct": {"x"}}
		x := t.flow(v231, "BRW")
		x.setAnswer(func(q *request) reply { return reply{header: odd, body: aresTo(q.o, "C").bytes()} })
		x.wantAccepted()
		got, err := post(x.d.client, x.l.results, odd, x.rreqOf("Y").bytes())
		if err != nil {
			t.Fatalf("%v", err)
		}
		x.wantRRes(got, "01")
	}},
	{id: "HT-12", do: func(t *T) {
		for _, v := range allVersions {
			for _, say := range []reply{{}, {status: 500}, {status: 404, body: []byte("no")}, {body: []byte(`{"messageType":"Erro"}`)}, {cut: true}} {
				x := t.flow(v, "BRW")
				x.preauth()
				x.d.script(x.id, func(q *request) reply {
					if q.typ == "Erro" {
						return say
					}
					return reply{body: aresTo(q.o, "Y").bytes(drop("dsTransID"))}
				})
				x.wantRejected("201", "dsTransID")
				erro := x.receivedErro()
				if erro == nil {
					return // rejected has noted that; waiting for each of the others would take long
				}
				if areq := x.sent()[0]; erro.method != "POST" || erro.path != areq.path {
					t.Errorf("%s: the Erro came as %s %s, the AReq as POST %s", x, erro.method, erro.path, areq.path)
				}
				if n := len(x.d.requests("Erro", x.id)); n > 1 && !say.cut {
					t.Errorf("%s: %d Erros for one ARes, want 1", x, n)
				}
			}
		}
	}},
}

// everyMessage makes the server send an AReq and an Erro of each version, and returns
// these and the PReqs that came to the directory server.
func (t *T) everyMessage() []*request {
	d := t.sharedLab().ds["visa"]
	sent := d.requests("PReq", "")
	for _, v := range allVersions {
		x := t.flow(v, "BRW").setARes("Y", drop("dsTransID"))
		x.auth()
		sent = append(sent, x.sent()...)
		if erro := x.receivedErro(); erro != nil {
			sent = append(sent, erro)
		} else {
			t.Errorf("%s: no Erro came", x)
		}
	}
	return sent
}

// wantOverload wants 503 for one request more than may be in work at a time, which is 4 in this lab, and not before.
func (l *lab) wantOverload(t *T) {
	release := make(chan struct{})
	var held []func()
	var waiting sync.WaitGroup
	for range 4 {
		x := t.flowIn(l, v220, "BRW")
		x.preauth()
		waiting.Add(1)
		once := sync.OnceFunc(waiting.Done)
		x.setAnswer(func(q *request) reply {
			once()
			<-release
			return reply{body: aresTo(q.o, "Y").bytes()}
		})
		held = append(held, func() {
			if got := x.auth(); got.status == 503 {
				once()
			}
		})
	}
	held = append(held, func() {
		defer close(release)
		waiting.Wait()
		got, err := l.callAPI("/preauth", l.key, object{"acctNumber": "4000001234567899"}.bytes())
		if err != nil || got.status != 503 || got.o.text("errorCode") != "403" || got.header.Get("Retry-After") == "" {
			t.Errorf("one request more than may be in work: %+v %v, want 503 with Erro 403 and Retry-After", got, err)
		}
	})
	t.runTogether(held...)
}

// isJSON wants the content type to be application/json in UTF-8.
func isJSON(t *T, what string, header http.Header) {
	kind, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || kind != "application/json" || !strings.EqualFold(params["charset"], "utf-8") {
		t.Errorf("%s has the content type %q, want application/json; charset=utf-8", what, header.Get("Content-Type"))
	}
}

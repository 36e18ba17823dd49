package journal

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/protocol/v1/v1test"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// requestLines are the lines of the log that stand for one request each.
func requestLines(t *testing.T, log string) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for text := range strings.Lines(log) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("a line of the log is not JSON: %s", text)
		}
		if line["msg"] == "request" && line["suppressed"] == nil {
			lines = append(lines, line)
		}
	}
	return lines
}

// A day is a script of requests to one server. It holds the log and the metrics against
// what was sent.
type day struct {
	*rig.LegacySite
	lines   int            // of requests so far
	kinds   map[string]int // steps by name
	ids     map[string]bool
	counted map[string]float64 // series of threeds_operations_total that the script expects
}

func newDay(s *rig.LegacySite) *day {
	return &day{LegacySite: s, kinds: map[string]int{}, ids: map[string]bool{}, counted: map[string]float64{}}
}

// A line is what a request's line has to hold. Absent members are nil. The series is
// operation, scheme and outcome of the request's metric.
type line struct {
	series  [3]string
	members facts
}

// facts are members of a line, by name.
type facts map[string]any

// and returns m with others, which count where both have a name.
func (m facts) and(others facts) facts {
	m = maps.Clone(m)
	maps.Copy(m, others)
	return m
}

// step makes do send one request, and checks that it has exactly one line, with these
// members.
func (d *day) step(name string, want line, do func()) {
	d.T.Helper()
	do()
	d.kinds[name]++
	d.lines++
	var all []map[string]any
	waittest.Until(d.T, name+": the line of the request", func() bool {
		all = requestLines(d.T, d.Log.String())
		return len(all) >= d.lines
	})
	if len(all) != d.lines {
		d.T.Fatalf("%s: %d lines, want %d: %v", name, len(all), d.lines, all[d.lines-1:])
	}
	got := all[d.lines-1]
	component, _ := got["component"].(string)
	series := fmt.Sprintf(`threeds_operations_total{component=%q,operation=%q,outcome=%q,scheme=%q}`, component, want.series[0], want.series[2], want.series[1])
	d.counted[series]++
	for member, value := range want.members {
		if !reflect.DeepEqual(got[member], value) {
			d.T.Errorf("%s: %s is %v, want %v\n%v", name, member, got[member], value, got)
		}
	}
	id, _ := got["request"].(string)
	if !isUUID(id) || d.ids[id] {
		d.T.Errorf("%s: request is %q, want a UUID of its own", name, id)
	}
	d.ids[id] = true
	if got["from"] != "127.0.0.1" || got["ms"] == nil {
		d.T.Errorf("%s: from %v, ms %v", name, got["from"], got["ms"])
	}
	if status, _ := got["http"].(float64); (status >= 500) != (got["level"] == "ERROR") {
		d.T.Errorf("%s: level %v at HTTP status %v", name, got["level"], status)
	}
}

// isUUID reports whether s has the form of a UUID in lower case.
func isUUID(s string) bool {
	return len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' && strings.Trim(s, "0123456789abcdef-") == ""
}

// card are the members of a line about EnrolledPAN.
func card() facts { return facts{"scheme": "visa", "bin": "40000012", "last4": "7890"} }

// newID is a fresh threeDSServerTransID for EnrolledPAN.
func (d *day) newID() (id string) {
	d.T.Helper()
	d.step("preauth", line{[3]string{"preauth", "visa", "ok"},
		card().and(facts{"operation": "/preauth", "http": 200.0, "merchant": "Shop", "code": nil})}, func() {
		id = d.Preauth(rig.EnrolledPAN).Text("threeDSServerTransID")
	})
	if got := requestLines(d.T, d.Log.String())[d.lines-1]; got["id"] != id {
		d.T.Errorf("/preauth: id is %v, want %s", got["id"], id)
	}
	return id
}

// auth is one /auth as a step.
func (d *day) auth(name string, areq rig.Object, want line) (answer rig.Object) {
	d.T.Helper()
	want.members = facts{"operation": "/auth", "merchant": "Shop"}.and(want.members)
	d.step(name, want, func() { _, answer = d.Post("/auth", areq) })
	return answer
}

// TestG11EveryRequestIsOneLine: whatever is asked, and whatever is answered, each request
// is one line of the log, with merchant, ids, code and elements, and one count of the
// metrics.
func TestG11EveryRequestIsOneLine(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t)
	revoked := s.CreateKey("Shop")
	s.RevokeKey(revoked)
	d := newDay(s)
	d.preauths()
	d.auths()
	d.directoryFaults()
	d.results()
	d.strangers(revoked)
	d.former()
	if len(d.kinds) < 40 {
		t.Errorf("%d kinds of request, want 40", len(d.kinds))
	}
	d.wantMetrics()
}

// wantMetrics checks that the metrics count the requests of the script, and no others.
func (d *day) wantMetrics() {
	d.T.Helper()
	got := map[string]float64{}
	for series, value := range d.Metrics() {
		if strings.HasPrefix(series, "threeds_operations_total{") && value != 0 {
			got[series] = value
		}
	}
	if !maps.Equal(got, d.counted) {
		d.T.Errorf("the metrics are\n%s\nwant\n%s", sortedSeries(got), sortedSeries(d.counted))
	}
}

func sortedSeries(series map[string]float64) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(series)) {
		fmt.Fprintf(&b, "%s %v\n", name, series[name])
	}
	return b.String()
}

func (d *day) preauths() {
	ask := func(name string, body any, want line) {
		want.members = facts{"operation": "/preauth", "merchant": "Shop"}.and(want.members)
		d.step(name, want, func() { d.Post("/preauth", body) })
	}
	d.newID()
	ask("preauth of a card that is not enrolled", rig.Object{"acctNumber": "9000100111111111"},
		line{[3]string{"preauth", "", "305"}, facts{"http": 400.0, "code": "305", "bin": "90001001", "last4": "1111", "scheme": nil}})
	ask("preauth without a card", rig.Object{}, line{[3]string{"preauth", "", "201"},
		facts{"http": 400.0, "code": "201", "elements": []any{"acctNumber"}, "bin": nil}})
	ask("preauth with too short a card number", rig.Object{"acctNumber": "123"},
		line{[3]string{"preauth", "", "203"}, facts{"code": "203", "elements": []any{"acctNumber"}, "last4": nil}})
	ask("preauth with an unknown ds", rig.Object{"acctNumber": rig.EnrolledPAN, "ds": "nobody"},
		line{[3]string{"preauth", "", "203"}, facts{"code": "203", "elements": []any{"ds"}}})
	ask("preauth that is not JSON", "hello", line{[3]string{"preauth", "", "203"}, facts{"http": 400.0, "code": "203", "elements": nil}})
}

func (d *day) auths() {
	good := func(status, version string) line {
		return line{[3]string{"auth", "visa", status}, card().and(facts{
			"http": 200.0, "status": status, "version": version, "channel": "02", "category": "01", "code": nil,
		})}
	}
	with := func(want line, more facts) line {
		want.members = want.members.and(more)
		return want
	}
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		answer := d.auth("auth Y "+version, rig.BrowserRequest(version, rig.EnrolledPAN, d.newID(), "U"), with(good("Y", version), facts{"eci": "05"}))
		got := requestLines(d.T, d.Log.String())[d.lines-1]
		for logged, element := range map[string]string{"id": "threeDSServerTransID", "acsTransID": "acsTransID", "dsTransID": "dsTransID"} {
			if got[logged] != answer.Text(element) {
				d.T.Errorf("auth Y: %s is %v, want %s", logged, got[logged], answer.Text(element))
			}
		}
		if ms, _ := got["directoryMs"].(float64); ms <= 0 {
			d.T.Errorf("auth Y: directoryMs is %v", got["directoryMs"])
		}
	}
	for _, status := range []string{"N", "U", "R"} {
		d.Directory.SetAnswer(rig.AnswerStatus(status))
		d.auth("auth "+status, rig.BrowserRequest("2.2.0", rig.EnrolledPAN, d.newID(), "U"), with(good(status, "2.2.0"), facts{"reason": "01", "eci": nil}))
	}
	d.Directory.SetAnswer(nil)
	d.auth("auth of an app", rig.AppRequest("2.2.0", rig.EnrolledPAN, d.newID()), with(good("Y", "2.2.0"), facts{"channel": "01"}))
	d.auth("auth without the cardholder", rig.ThreeRIRequest("2.2.0", rig.EnrolledPAN, d.newID()), with(good("Y", "2.2.0"), facts{"channel": "03"}))

	bad := func(code string, more facts) line {
		return line{[3]string{"auth", "visa", code}, facts{"http": 400.0, "code": code, "component": "S", "status": nil, "directoryMs": nil}.and(more)}
	}
	refuse := func(name string, change rig.Object, want line) {
		areq := rig.BrowserRequest("2.2.0", rig.EnrolledPAN, d.newID(), "U")
		want.members = want.members.and(facts{"id": areq["threeDSServerTransID"]})
		for member, value := range change {
			if areq[member] = value; value == nil {
				delete(areq, member)
			}
		}
		d.auth(name, areq, want)
	}
	id := d.newID()
	d.step("auth with a reference", with(good("Y", "2.2.0"), facts{"reference": "order 7 of ***"}), func() {
		d.Call(http.MethodPost, "/auth", d.APIKey, rig.BrowserRequest("2.2.0", rig.EnrolledPAN, id, "U"), "X-Reference", "order 7 of 4000001234567890")
	})
	d.step("postauth of an auth with a reference", line{[3]string{"postauth", "visa", "203"}, facts{"reference": "order 7 of ***"}}, func() {
		d.Post("/postauth", rig.Object{"threeDSServerTransID": id})
	})
	refuse("auth without two elements", rig.Object{"mcc": nil, "merchantName": nil}, bad("201", card().and(facts{"elements": []any{"mcc", "merchantName"}})))
	refuse("auth with a bad element", rig.Object{"mcc": "grocer"}, bad("203", facts{"elements": []any{"mcc"}, "version": "2.2.0"}))
	refuse("auth with an unknown version", rig.Object{"messageVersion": "2.9.0"}, bad("102", facts{"version": nil, "elements": nil}))
	refuse("auth with another card", rig.Object{"acctNumber": "4000001234567809"}, bad("305", facts{"elements": []any{"acctNumber"}, "last4": "7809"}))
	d.auth("auth with an unknown id", rig.BrowserRequest("2.2.0", rig.EnrolledPAN, rig.NewUUID(), "U"), bad("301", facts{"id": nil, "elements": nil}))
	areq := rig.BrowserRequest("2.2.0", rig.EnrolledPAN, d.newID(), "U")
	d.auth("auth Y 2.2.0", areq, good("Y", "2.2.0"))
	d.auth("auth with a used id", areq, bad("301", facts{"id": areq["threeDSServerTransID"], "detail": "The threeDSServerTransID has been used"}))
	d.step("auth that is not JSON", line{[3]string{"auth", "", "203"}, facts{"code": "203", "scheme": nil, "id": nil}}, func() { d.Post("/auth", "{") })
}

func (d *day) directoryFaults() {
	play := func(name, code, outcome string, more facts, answer func(w http.ResponseWriter, areq rig.Object)) {
		d.Directory.Play(answer)
		defer d.Directory.Play(nil)
		id := d.newID()
		d.auth(name, rig.BrowserRequest("2.2.0", rig.EnrolledPAN, id, "U"),
			line{[3]string{"auth", "visa", outcome}, facts{"http": 400.0, "code": code, "id": id}.and(more)})
	}
	play("auth that the directory refuses", "305", "305", facts{"component": "D", "elements": nil, "detail": nil}, func(w http.ResponseWriter, areq rig.Object) {
		_, _ = w.Write(rig.Marshal(rig.Object{
			"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "305", "errorComponent": "D", "errorDescription": "text of the directory's own",
			"errorDetail": "acctNumber", "errorMessageType": "AReq", "threeDSServerTransID": areq["threeDSServerTransID"],
		}))
	})
	play("auth answered without JSON", "101", "101",
		facts{"component": "S", "status": nil}, func(w http.ResponseWriter, _ rig.Object) { _, _ = w.Write([]byte("<html>")) })
	play("auth answered with a bad ARes", "203", "203", facts{"elements": []any{"eci"}}, func(w http.ResponseWriter, areq rig.Object) {
		_, _ = w.Write(rig.Marshal(rig.ARes(areq, "Y").With(rig.Object{"eci": "5"})))
	})
	play("auth not answered", "405", "405", facts{"component": "S"}, func(http.ResponseWriter, rig.Object) { panic(http.ErrAbortHandler) })
}

func (d *day) results() {
	fetch := func(name, key, id string, want line) {
		want.members = facts{"operation": "/postauth"}.and(want.members)
		d.step(name, want, func() { d.Call(http.MethodPost, "/postauth", key, rig.Object{"threeDSServerTransID": id}) })
	}
	post := func(name string, body []byte, want line) {
		want.members = facts{"operation": "results", "key": nil}.and(want.members)
		d.step(name, want, func() { d.Result(body) })
	}
	d.Directory.SetAnswer(rig.AnswerStatus("C"))
	id := d.newID()
	answer := d.auth("auth C", rig.BrowserRequest("2.2.0", rig.EnrolledPAN, id, "U"), line{[3]string{"auth", "visa", "C"}, facts{"status": "C", "id": id}})
	d.Directory.SetAnswer(nil)
	good := rig.Marshal(rig.RReq(d.Directory.Sent(id)[0], answer, "Y"))
	about := card().and(
		facts{"id": id, "version": "2.2.0", "channel": "02", "category": "01", "acsTransID": answer["acsTransID"], "dsTransID": answer["dsTransID"]})

	fetch("postauth before the result", d.APIKey, id,
		line{[3]string{"postauth", "visa", "305"}, about.and(facts{"merchant": "Shop", "code": "305", "status": nil})})
	d.step("postauth that waits", line{[3]string{"postauth", "visa", "305"}, about.and(facts{"operation": "/postauth", "code": "305"})}, func() {
		d.Post("/postauth?wait=1", rig.Object{"threeDSServerTransID": id})
	})
	if ms, _ := requestLines(d.T, d.Log.String())[d.lines-1]["waitMs"].(float64); ms < 1000 {
		d.T.Errorf("postauth that waits: waitMs is %v, want 1000 or more", ms)
	}
	post("a result with a bad element", rig.Marshal(rig.RReq(d.Directory.Sent(id)[0], answer, "Y").With(rig.Object{"eci": "5"})),
		line{[3]string{"rreq", "visa", "203"}, about.and(facts{"http": 200.0, "code": "203", "elements": []any{"eci"}, "message": "RReq", "status": nil})})
	post("a result", good, line{[3]string{"rreq", "visa", "Y"}, about.and(facts{
		"http": 200.0, "merchant": "Shop", "status": "Y", "eci": "05", "resultsStatus": "01", "code": nil, "message": "RReq",
	})})
	post("a second result", rig.Marshal(rig.RReq(d.Directory.Sent(id)[0], answer, "N")),
		line{[3]string{"rreq", "visa", "301"}, facts{"code": "301", "id": id, "status": nil}})
	fetch("postauth", d.APIKey, id, line{[3]string{"postauth", "visa", "Y"},
		about.and(facts{"http": 200.0, "merchant": "Shop", "status": "Y", "eci": "05", "code": nil})})
	fetch("postauth of another merchant", d.OtherAPIKey, id, line{[3]string{"postauth", "", "203"},
		facts{"merchant": "Other", "code": "203", "scheme": nil, "id": id, "last4": nil}})
	fetch("postauth of an unknown id", d.APIKey, rig.NewUUID(), line{[3]string{"postauth", "", "203"}, facts{"code": "203"}})
	d.step("postauth without an id", line{[3]string{"postauth", "", "201"}, facts{"code": "201", "elements": []any{"threeDSServerTransID"}}},
		func() { d.Post("/postauth", rig.Object{}) })

	stranger := rig.RReq(d.Directory.Sent(id)[0], answer, "Y").With(rig.Object{"threeDSServerTransID": rig.NewUUID()})
	post("a result of an unknown transaction", rig.Marshal(stranger),
		line{[3]string{"rreq", "", "301"}, facts{"code": "301", "merchant": nil, "id": stranger["threeDSServerTransID"]}})
	post("a result that is not JSON", []byte("hello"), line{[3]string{"rreq", "", "101"}, facts{"code": "101", "message": nil}})
	d.step("an Erro of the directory", line{[3]string{"rreq", "", "erro"}, facts{"message": "Erro", "code": "405", "component": "D", "http": 200.0}}, func() {
		_, _, err := d.Directory.Post(d.Site.ResultsURL, rig.Marshal(rig.Object{
			"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "405", "errorComponent": "D", "errorDescription": "x", "errorDetail": "x",
			"threeDSServerTransID": rig.NewUUID(),
		}))
		if err != nil {
			d.T.Fatal(err)
		}
	})
	d.step("an operation message", line{[3]string{"oreq", "visa", "01"}, facts{"message": "OReq", "http": 200.0}}, func() {
		d.Result(rig.Marshal(rig.Object{
			"messageType": "OReq", "messageVersion": "2.3.1", "dsReferenceNumber": "DS", "dsTransID": rig.NewUUID(), "opCategory": "02", "opSeverity": "03",
			"opDescription": "Maintenance on Sunday", "opExpDate": "20261231", "opSeq": rig.Object{"seqId": rig.NewUUID(), "seqNum": "01", "seqTotal": "01"},
		}))
	})
	d.step("a GET at the results listener", line{[3]string{"results", "", "method"}, facts{"http": 405.0, "operation": "results"}}, func() {
		res, err := d.Directory.Client.Get(d.Site.ResultsURL)
		if err != nil {
			d.T.Fatal(err)
		}
		_ = res.Body.Close()
	})
	d.step("a result that is too long", line{[3]string{"results", "", "too_large"}, facts{"http": 413.0}}, func() {
		_, _, _ = d.Directory.Post(d.Site.ResultsURL, make([]byte, 300<<10))
	})
}

func (d *day) strangers(revoked string) {
	for name, key := range map[string]string{"no key": "", "a wrong key": rig.NewUUID(), "a revoked key": revoked} {
		d.step(name, line{[3]string{"auth", "", "unauthorized"}, facts{"operation": "/auth", "http": 401.0, "merchant": nil, "key": nil}},
			func() { d.Call(http.MethodPost, "/auth", key, rig.Object{}) })
	}
	d.step("a wrong path", line{[3]string{"other", "", "101"}, facts{"operation": "other", "http": 404.0, "merchant": "Shop", "code": "101"}},
		func() { d.Call(http.MethodPost, "/authorise", d.APIKey, rig.Object{}) })
	d.step("a wrong method", line{[3]string{"auth", "", "101"}, facts{"http": 405.0, "code": "101"}},
		func() { d.Call(http.MethodGet, "/auth", d.APIKey, "") })
	d.step("too long a body", line{[3]string{"preauth", "", "101"}, facts{"http": 413.0, "merchant": "Shop"}},
		func() { d.Call(http.MethodPost, "/preauth", d.APIKey, make([]byte, 65<<10)) })
}

func (d *day) former() {
	form := func(name, path string, values url.Values, want line) {
		want.members = facts{"operation": path, "merchant": "Shop"}.and(want.members)
		d.step(name, want, func() { d.Form(path, values) })
	}
	about := facts{"scheme": "visa", "bin": rig.V1Visa[:8], "last4": rig.V1Visa[12:], "http": 200.0}
	var req v1test.PAReq
	d.step("enrolled Y", line{[3]string{"enrolled", "visa", "Y"}, about.and(facts{"status": "Y", "eci": "5", "operation": "/enrolled"})},
		func() { req = d.Enroll(rig.Purchase(rig.V1Visa)) })
	if got := requestLines(d.T, d.Log.String())[d.lines-1]; got["id"] != req.Message.ID {
		d.T.Errorf("/enrolled: id is %v, want %s", got["id"], req.Message.ID)
	}
	d.V1.Play(rig.V1Says("N"))
	form("enrolled N", "/enrolled", rig.Purchase(rig.V1Visa), line{[3]string{"enrolled", "visa", "N"}, about.and(facts{"status": "N"})})
	d.V1.Play(func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) })
	form("enrolled without an answer", "/enrolled", rig.Purchase(rig.V1Visa), line{[3]string{"enrolled", "visa", "silent"}, about.and(facts{"status": nil})})
	form("enrolled without an amount", "/enrolled", rig.With(rig.Purchase(rig.V1Visa), "amount"),
		line{[3]string{"enrolled", "", "presence"}, facts{"http": 400.0, "code": "presence", "elements": []any{"amount"}}})
	signed := rig.V1Issuers()["visa"].Sign(req.Answer(rig.V1Visa, "Y"))
	form("check", "/check", url.Values{"pares": {signed}}, line{[3]string{"check", "visa", "Y"},
		facts{"http": 200.0, "status": "Y", "id": req.Message.ID, "last4": rig.V1Visa[12:]}})
	form("check of nonsense", "/check", url.Values{"pares": {"bm9uc2Vuc2U="}},
		line{[3]string{"check", "", "refused"}, facts{"http": 400.0, "code": "invalid_param", "elements": []any{"pares"}}})
	d.step("check with a wrong key", line{[3]string{"check", "", "unauthorized"}, facts{"operation": "/check", "http": 401.0, "merchant": nil}},
		func() { d.Basic(http.MethodPost, "/check", rig.NewUUID(), "application/x-www-form-urlencoded", "") })
}

// TestG11RequestsUnderLimits: a request that is refused for a limit has its line, too.
func TestG11RequestsUnderLimits(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	s := rig.StartSite(t, ca, ds, rig.Plan{Sections: "limits: {in_flight: 1, per_key: 3/s}"})
	last := func(when string, want facts) {
		t.Helper()
		waittest.Until(t, when, func() bool {
			all := requestLines(t, s.Log.String())
			return len(all) > 0 && all[len(all)-1]["http"] == want["http"]
		})
		all := requestLines(t, s.Log.String())
		for member, value := range want {
			if got := all[len(all)-1][member]; got != value {
				t.Errorf("%s: %s is %v, want %v", when, member, got, value)
			}
		}
	}
	for range 100 { // more than three, should the machine be slow
		if res, _ := s.Call(http.MethodPost, "/preauth", s.OtherAPIKey, rig.Object{"acctNumber": rig.EnrolledPAN}); res.StatusCode == http.StatusTooManyRequests {
			break
		}
	}
	last("the rate limit", facts{"http": 429.0, "code": "103", "merchant": "Other", "level": "INFO"})
	_, leave, done := s.HoldAuth(ds)
	s.Call(http.MethodPost, "/preauth", s.CreateKey("Third"), rig.Object{"acctNumber": rig.EnrolledPAN})
	last("no place", facts{"http": 503.0, "code": "403", "merchant": "Third", "level": "ERROR"})
	close(leave)
	<-done
	for series, want := range map[string]float64{
		`threeds_operations_total{component="S",operation="preauth",outcome="rate_limit",scheme=""}`: 1,
		`threeds_operations_total{component="S",operation="preauth",outcome="in_flight",scheme=""}`:  1,
	} {
		if got := s.Metric(series); got < want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
}

// TestG11WrongKeysAreLimited: of one source the first ten requests with a wrong key have
// lines of their own, and all others one line together.
func TestG11WrongKeysAreLimited(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	const sent = 25
	for range sent {
		s.Call(http.MethodPost, "/auth", rig.NewUUID(), rig.Object{})
	}
	waittest.Until(t, "all requests to be counted", func() bool {
		return s.Metric(`threeds_operations_total{component="",operation="auth",outcome="unauthorized",scheme=""}`) == sent
	})
	if err := s.Stop(); err != nil { // the end of the process writes what is left
		t.Fatal(err)
	}
	lines, suppressed := requestLines(t, s.Log.String()), 0.0
	for text := range strings.Lines(s.Log.String()) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && line["suppressed"] != nil {
			suppressed += line["suppressed"].(float64)
			if line["from"] != "127.0.0.1" || line["http"] != 401.0 {
				t.Errorf("the line of those that were left out is %s", text)
			}
		}
	}
	if len(lines) != 10 || suppressed != sent-10 {
		t.Errorf("%d lines and %v left out, want 10 and %d", len(lines), suppressed, sent-10)
	}
}

package conformance

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// confidentialityChecks is confidentiality, storage and logging.
var confidentialityChecks = []check{
	{id: "CF-01", do: func(t *T) {
		api := newAuthority("API CA")
		l := t.ownLab(plan{unready: true, sections: map[string]string{"api": "{listen: 127.0.0.1:0, tls: {cert: api.pem, key: api-key.pem}}"}, prepare: func(l *lab) {
			writePair(l.dir, "api", api.issue("api.example"))
		}})
		if !waitUntil(stepTimeout, func() bool { return serving.MatchString(l.log.String()) }) {
			t.Fatalf("the log does not say where the server serves")
		}
		address := serving.FindStringSubmatch(l.log.String())[1]
		client := clientOf(api.pool())
		got, err := post(client, "https://"+address+"/preauth", nil, []byte("{}"))
		if err != nil || got.status != 401 {
			t.Errorf("without a key: %v %v, want 401", got, err)
		}
		if got, err = post(client, "https://"+address+"/preauth", http.Header{"Apikey": {l.key}}, []byte("{}")); err != nil || got.status != 400 {
			t.Errorf("with a key: %v %v, want 400", got, err)
		}
		if got, err := l.callAPI("/preauth", l.key, []byte("{}")); err == nil && got.status < 400 {
			t.Errorf("without TLS: %d %s, want no answer or an error", got.status, got.body)
		}
		old := clientOf(api.pool())
		c := old.Transport.(*http.Transport).TLSClientConfig
		c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
		if _, err := post(old, "https://"+address+"/preauth", nil, []byte("{}")); err == nil {
			t.Errorf("a connection with TLS 1.1 was accepted")
		}
	}},
	{id: "CF-03", do: func(t *T) {
		l := t.ownLab(plan{})
		l.sendSecrets(t)
		l.scanForSecret(t, secrets["authenticationValue"])
	}},
	{id: "CF-04", waits: true, long: true, do: func(t *T) {
		l := t.ownLab(plan{sections: map[string]string{"timeouts": "{result: 10s, preauth: 10s, values: 10s}"}})
		x := t.flowIn(l, v220, "BRW").startChallenge()
		x.wantRRes(x.rreq("Y"), "01")
		t.want("result", x.result().o, "transStatus", "Y")
		sealed := l.storedData(t, x.id)
		if len(sealed) == 0 {
			t.Fatalf("the store has nothing of a transaction whose result can be fetched")
		}
		if !waitUntil(stepTimeout, func() bool { return x.result().o.text("errorCode") == "203" }) {
			t.Errorf("a result can be fetched after %v, with 10 s configured", stepTimeout)
		}
		l.turnExpiry(t, x.id, 2*time.Minute)                                                   // the row stays for as long as its id could be used again
		if !waitUntil(2*stepTimeout, func() bool { return len(l.storedData(t, x.id)) == 0 }) { // the server sweeps once a minute
			t.Fatalf("the store has the transaction though its time is over")
		}
		l.stop() // which empties the write-ahead log
		err := filepath.WalkDir(filepath.Join(l.dir, "data"), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if bytes.Contains(data, sealed) {
				t.Errorf("%s holds the deleted transaction, sealed", filepath.Base(path))
			}
			return err
		})
		if err != nil {
			t.Fatalf("%v", err)
		}
	}},
	{id: "CF-05", do: func(t *T) {
		l := t.ownLab(plan{})
		for _, v := range allVersions { // a code of the right length cannot be told from other digits
			x := t.flowIn(l, v, "BRW", set("cardSecurityCode", "CSC-"+secretMark))
			got := x.auth()
			if bytes.Contains(got.body, []byte(secretMark)) {
				t.Errorf("%s: the answer shows the cardSecurityCode", x)
			}
		}
		l.scanForSecret(t, secretMark)
	}},
	{id: "CF-06", do: func(t *T) {
		l := t.ownLab(plan{})
		l.sendSecrets(t)
		l.scanForSecret(t, secrets["acctNumber"])
	}},
	{id: "CF-07", do: func(t *T) {
		l := t.ownLab(plan{})
		l.sendSecrets(t)
		l.stop() // the log ends with it
		for name, secret := range secrets {
			if log := l.log.String(); strings.Contains(log, secret) {
				t.Errorf("the log holds %s", name)
			}
		}
	}},
	{id: "CF-08", do: func(t *T) {
		for _, v := range allVersions {
			for _, name := range []string{"acctNumber", "cardholderName", "email", "mcc", "purchaseAmount", "browserIP",
				"billAddrCountry", "notificationURL", "acquirerBIN"} {
				x := t.flow(v, "BRW", set(name, secretMark+strings.Repeat("\x01", 300)))
				got := x.auth()
				x.wantErro("requestor", got.o, "203|304|305", "")
				if bytes.Contains(got.body, []byte(secretMark)) {
					t.Errorf("%s: the Erro shows the value of %s", x, name)
				}
			}
			for _, name := range []string{"authenticationValue", "eci", "acsTransID", "transStatus", "threeDSServerTransID"} {
				for _, value := range []string{secretMark + strings.Repeat("\x01", 5000), secretMark + strings.Repeat("\x01", 40), " " + secretMark} {
					if v == v231 && name == "authenticationValue" && len(value) < 4000 {
						continue // in 2.3.1 it may be any text of up to 4000 characters
					}
					x := t.flow(v, "BRW").setARes("Y", set(name, value))
					got := x.auth()
					if erro := x.receivedErro(); erro == nil || bytes.Contains(erro.body, []byte(secretMark)) || bytes.Contains(got.body, []byte(secretMark)) {
						t.Errorf("%s: no Erro, or it shows the value of %s", x, name)
					}
				}
			}
		}
	}},
	{id: "CF-09", do: func(t *T) {
		l := t.ownLab(plan{})
		x := t.flowIn(l, v231, "BRW", set("payTokenInd", true), set("payTokenInfo", object{"tokenCryptogram": secretMark + "AAA="}))
		x.auth()
		l.scanForSecret(t, secretMark)
	}},
	{id: "CF-10", do: func(t *T) {
		l := t.ownLab(plan{})
		l.sendSecrets(t)
		err := filepath.WalkDir(filepath.Join(l.dir, "data"), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s may be read by others: %v", filepath.Base(path), info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatalf("%v", err)
		}
		l.scanForSecret(t, l.key)
		keys := filepath.Join(l.dir, "data", "keys.json")
		l.stop()
		if err := os.Chmod(keys, 0o644); err != nil {
			t.Fatalf("%v", err)
		}
		if l.start(false) == nil {
			t.Errorf("the server starts with a key file that others may read")
		}
		l.rotateSecret(t, keys)
	}},
	{id: "CF-11", do: func(t *T) {
		expires := func(l *lab, scheme string, days time.Duration) {
			end := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(days * 24 * time.Hour) }
			writePair(l.dir, scheme+"-client", l.ds[scheme].ca.issue("3dss.example", end))
		}
		l := t.ownLab(plan{unready: true, prepare: func(l *lab) { // all its other certificates live for a day
			expires(l, "visa", 29)
			expires(l, "mastercard", 31)
		}})
		for _, name := range []string{"results.tls", `directories\[0\].client_cert`, "server_ca", "client_ca"} {
			warning := regexp.MustCompile(`WARN.*` + name + `.*expires`)
			if !waitUntil(stepTimeout, func() bool { return warning.MatchString(l.log.String()) }) {
				t.Fatalf("no warning that the certificate of %s expires", name)
			}
		}
		if regexp.MustCompile(`directories\[1\].client_cert.*expires`).MatchString(l.log.String()) {
			t.Errorf("a warning that a certificate expires, 31 days before it does")
		}
		got, err := send(l.client, http.MethodGet, l.console+"/metrics", nil, nil)
		if err != nil {
			t.Fatalf("metrics: %v", err)
		}
		for scheme, days := range map[string]float64{"visa": 29, "mastercard": 31} {
			end := regexp.MustCompile(`(?m)^threeds_certificate_not_after_timestamp_seconds\{.*client_cert.*"` + scheme + `"\} (\S+)$`).FindSubmatch(got.body)
			if end == nil {
				t.Fatalf("no metric says when the certificate for %s ends", scheme)
			}
			at, _ := strconv.ParseFloat(string(end[1]), 64)
			if left := (at - float64(time.Now().Unix())) / 86400; math.Abs(left-days) > 0.1 {
				t.Errorf("the certificate for %s ends in %.1f days by the metrics, want %.0f", scheme, left, days)
			}
		}
	}},
	{id: "CF-12", do: func(t *T) {
		l := t.ownLab(plan{sections: map[string]string{"log": "{level: info}"}})
		for _, v := range allVersions {
			x := t.flowIn(l, v, "BRW").startChallenge()
			x.rreq("Y", drop("transStatus"))
			x.wantRRes(x.rreq("Y"), "01")
			y := t.flowIn(l, v, "BRW").setARes("Y", drop("dsTransID"))
			y.auth()
			t.lines(l, x.id, "acsTransID", "errorCode", "resultsStatus")
			t.lines(l, y.id, "errorCode")
		}
	}},
	{id: "CF-13", do: func(t *T) {
		l := t.sharedLab()
		d := l.ds["visa"]
		inside := regexp.MustCompile(`goroutine|panic|\.go\b|/tmp/|sqlite|internal/|SELECT|runtime error|encoding/json`)
		see := func(what string, got *answer, err error) {
			if err != nil {
				return
			}
			if inside.Match(got.body) || got.header.Get("Server") != "" || got.header.Get("X-Powered-By") != "" {
				t.Errorf("%s: %v %s", what, got.header, got.body)
			}
		}
		for _, body := range []string{"", "{", "[]", `{"messageType":"\ud800"}`, `{"threeDSServerTransID":{}}`, strings.Repeat("[", 1000), "\x00\xff"} {
			for _, path := range []string{"/preauth", "/auth", "/postauth", "/nowhere", "/../etc/passwd", "/%00"} {
				got, err := l.callAPI(path, l.key, []byte(body))
				see(path, got, err)
				got, err = l.callAPI(path, "wrong", []byte(body))
				see(path, got, err)
			}
			got, err := d.post(l.results, []byte(body))
			see("results", got, err)
			got, err = d.post(l.results+"/nowhere", []byte(body))
			see("results/nowhere", got, err)
		}
	}},
	{id: "CF-14", do: func(t *T) {
		l := t.ownLab(plan{})
		x := t.flowIn(l, v231, "BRW", hide...).card("visa", secrets["acctNumber"])
		x.setAnswer(func(q *request) reply { // while a request is in work
			l.mu.Lock()
			_ = l.process.Process.Signal(syscall.SIGQUIT)
			l.mu.Unlock()
			<-l.exited
			return reply{cut: true}
		})
		x.preauth()
		x.req["threeDSServerTransID"] = x.id
		_, _ = l.callAPI("/auth", l.key, x.req.bytes(x.edits...))
		<-l.exited // the connection ends before the process has written the whole trace
		if !strings.Contains(l.log.String(), "goroutine") {
			t.Fatalf("the log has no stack trace, though the process got SIGQUIT")
		}
		for name, secret := range secrets {
			if strings.Contains(l.log.String(), secret) {
				t.Errorf("the trace holds %s", name)
			}
		}
	}},
	{id: "CF-15", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			x.wantRRes(x.rreq("Y"), "01")
			x.key = x.l.other
			theirs := x.result()
			unknown := x.call("/postauth", object{"threeDSServerTransID": newID()}.bytes())
			theirs.o["threeDSServerTransID"], unknown.o["threeDSServerTransID"] = "", ""
			if theirs.status != unknown.status || string(encode(theirs.o)) != string(encode(unknown.o)) {
				t.Errorf("%s: /postauth of another merchant's id: %d %s, want the same as of an unknown one: %d %s",
					x, theirs.status, theirs.body, unknown.status, unknown.body)
			}
			y := t.flow(v, "BRW")
			y.preauth()
			y.key = y.l.other
			y.wantRefused("301", "")
		}
	}},
	{id: "CF-16", do: func(t *T) {
		l := t.ownLab(spcPlan)
		x := t.flowIn(l, v231, "BRW", offerSPC...)
		x.setARes("S", set("webAuthnCredList[0].credentialIds", secretMark+secretMark), set("spcTransData.displayName", secretMark))
		if got := x.wantAccepted(); !bytes.Contains(got.body, []byte(secretMark)) {
			t.Errorf("the requestor does not get the data")
		}
		l.scanForSecret(t, secretMark)
	}},
}

// rotateSecret wants results and API keys to outlive a new secret in the key file, as long as the old one stays in it
// beside the new one, and wants nothing to need the old one that may not.
func (l *lab) rotateSecret(t *T, keys string) {
	panicOnError(os.Chmod(keys, 0o600))
	if err := l.start(true); err != nil {
		t.Fatalf("%v", err)
	}
	x := t.flowIn(l, v220, "BRW").startChallenge()
	x.wantRRes(x.rreq("Y"), "01")
	data, err := os.ReadFile(keys)
	panicOnError(err)
	old := read(data).text("current")
	use := func(secrets object) {
		l.stop()
		panicOnError(os.WriteFile(keys, encode(secrets), 0o600))
		if err := l.start(true); err != nil {
			t.Fatalf("with another secret: %v", err)
		}
	}
	fresh := base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(newID(), "-", "")))
	seals := l.keySeals(t)
	use(object{"current": fresh, "previous": old})
	if got := x.result(); got.status != 200 || got.o.text("transStatus") != "Y" {
		t.Errorf("after the secret was rotated: /postauth: %d %s, want the result", got.status, got.body)
	}
	renewed := func() bool {
		return !slices.ContainsFunc(l.keySeals(t), func(seal string) bool { return slices.Contains(seals, seal) })
	}
	if !waitUntil(stepTimeout, renewed) {
		t.Errorf("%v after the secret was rotated API keys are sealed with the old one", stepTimeout)
	}
	use(object{"current": fresh})
	if got := x.result(); got.status == 200 {
		t.Errorf("a result can be read without the secret that sealed it: %s", got.body)
	}
	t.flowIn(l, v220, "BRW").wantAccepted() // its API key was made before the rotation
}

// keySeals are the seals of the API keys in the store.
func (l *lab) keySeals(t *T) []string {
	db := l.openStore(t)
	defer db.Close()
	var all []string
	rows, err := db.QueryContext(context.Background(), "SELECT hex(seal) FROM api_keys")
	for err == nil && rows.Next() {
		var seal string
		err = rows.Scan(&seal)
		all = append(all, seal)
	}
	if err != nil || rows.Close() != nil || rows.Err() != nil {
		t.Fatalf("store: %v", cmp.Or(err, rows.Err()))
	}
	return all
}

// storedData is what the store has of a transaction, sealed; nothing if it has none.
func (l *lab) storedData(t *T, id string) (data []byte) {
	db := l.openStore(t)
	defer db.Close()
	err := db.QueryRowContext(context.Background(), "SELECT data FROM txns WHERE id = ?", id).Scan(&data)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatalf("store: %v", err)
	}
	return data
}

// secretMark is in values that must not be seen again.
const secretMark = "Zq7SECRETx9"

// secrets are the cardholder's data in the flows of play.
var secrets = map[string]string{
	"acctNumber": "4000009876543213", "cardholderName": "Quentin Mxyzptlk", "email": "quentin@mxyzptlk.example", "browserIP": "203.0.113.217",
	"billAddrLine1": "77 Mxyzptlk Road", "mobilePhone": "987650123456", "authenticationValue": "Q29uZmlkZW50aWFsMDEyMzQ1Njc=",
}

// hide are the edits that put the secrets into a request.
var hide = []edit{
	set("acctNumber", secrets["acctNumber"]), set("cardholderName", secrets["cardholderName"]), set("email", secrets["email"]),
	set("browserIP", secrets["browserIP"]), set("billAddrLine1", secrets["billAddrLine1"]),
	set("mobilePhone", object{"cc": "45", "subscriber": secrets["mobilePhone"]}),
}

// sendSecrets sends the secrets through a lab, in flows that succeed and in flows that fail.
func (l *lab) sendSecrets(t *T) {
	value := set("authenticationValue", secrets["authenticationValue"])
	for _, v := range allVersions {
		good := t.flowIn(l, v, "BRW", hide...).card("visa", secrets["acctNumber"]).setARes("Y", value)
		good.wantAccepted()
		x := t.flowIn(l, v, "BRW", hide...).card("visa", secrets["acctNumber"]).startChallenge()
		x.rreq("Y", value, drop("eci"), set("acsTransID", "short"))
		x.wantRRes(x.rreq("Y", value), "01")
		x.result()
		bad := t.flowIn(l, v, "BRW", hide...).card("visa", secrets["acctNumber"]).setARes("Y", value, drop("dsTransID"))
		bad.wantRejected("201", "dsTransID")
		odd := t.flowIn(l, v, "BRW", append(hide, set("mcc", "x"))...).card("visa", secrets["acctNumber"])
		odd.wantRefused("203", "mcc")
		erro := t.flowIn(l, v, "BRW", hide...).card("visa", secrets["acctNumber"])
		erro.setAnswer(func(*request) reply {
			return reply{body: erroFor(erro, "305").bytes(set("errorDetail", "acctNumber "+secrets["acctNumber"]))}
		})
		erro.auth()
		cut := t.flowIn(l, v, "BRW", hide...).card("visa", secrets["acctNumber"])
		cut.setAnswer(func(*request) reply { return reply{cut: true} })
		cut.auth()
	}
}

// scanForSecret looks for a secret in all files of the store and in the log: as it is, in
// hexadecimal, in base64, and decoded if it is base64 itself. It stops the server, since
// the log is complete only then.
func (l *lab) scanForSecret(t *T, secret string) {
	forms := [][]byte{[]byte(secret), []byte(hex.EncodeToString([]byte(secret)))}
	for before := range 3 { // the base64 of a text depends on the length of what is before it
		all := append(make([]byte, before), secret...)
		text := base64.StdEncoding.EncodeToString(all)
		forms = append(forms, []byte(text[(8*before+5)/6:8*len(all)/6]))
	}
	if plain, err := base64.StdEncoding.DecodeString(secret); err == nil {
		forms = append(forms, plain)
	}
	look := func(where string, data []byte) {
		for _, form := range forms {
			if bytes.Contains(data, form) {
				t.Errorf("%s holds a secret, or its hexadecimal or base64 form", where)
			}
		}
	}
	files := 0
	err := filepath.WalkDir(filepath.Join(l.dir, "data"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		look(filepath.Base(path), data)
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("the store has %d files: %v", files, err)
	}
	l.stop()
	look("the log", []byte(l.log.String()))
}

// lines wants, among the lines of the log about a transaction, one with each of the
// members, and all times in UTC.
func (t *T) lines(l *lab, id string, members ...string) {
	var got []object
	told := func(name string) bool {
		return slices.ContainsFunc(got, func(o object) bool { return o.has(name) })
	}
	waitUntil(stepTimeout, func() bool {
		got = nil
		for line := range strings.Lines(l.log.String()) {
			if o := read([]byte(line)); o.text("threeDSServerTransID") == id || o.text("id") == id {
				got = append(got, o)
			}
		}
		return !slices.ContainsFunc(members, func(name string) bool { return !told(name) })
	})
	for _, name := range members {
		if !told(name) {
			t.Errorf("none of the %d lines of the log about %s has %s", len(got), id, name)
		}
	}
	for _, o := range got {
		if !strings.HasSuffix(o.text("time"), "Z") {
			t.Errorf("the log has the time %s, want UTC", o.text("time"))
		}
	}
}

var serving = regexp.MustCompile(`"msg":"serving".*"api":"([^"]+)"`)

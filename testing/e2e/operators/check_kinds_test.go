package operators

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A checkResult is what threeds check --json prints.
type checkResult struct {
	Kind, Verdict string
	Errors        []struct{ Pointer, Code string }
	Warnings      []string
	Corrected     []string
}

// runCheckJSON checks a text from standard input, and returns the result and the exit status.
func runCheckJSON(t *testing.T, text string, flags ...string) (got checkResult, status int) {
	t.Helper()
	var out, problems bytes.Buffer
	args := append(append([]string{"check", "--json"}, flags...), "-")
	if status = rig.Run(t.Context(), args, strings.NewReader(text), &out, &problems); status == 2 {
		return got, status
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v of %s %s", err, out.String(), problems.String())
	}
	return got, status
}

// wantCheck checks a text, and compares the kind, and the codes and pointers of the faults.
func wantCheck(t *testing.T, name, text, kind string, faults ...string) checkResult {
	t.Helper()
	got, status := runCheckJSON(t, text)
	var all []string
	for _, e := range got.Errors {
		all = append(all, e.Code+" "+e.Pointer)
	}
	slices.Sort(all)
	slices.Sort(faults)
	if got.Kind != kind || !slices.Equal(all, faults) || (status == 1) != (len(faults) > 0) || (got.Verdict == "valid") != (status == 0) {
		t.Errorf("%s: kind %q, verdict %q, status %d, faults %v; want %q %v", name, got.Kind, got.Verdict, status, all, kind, faults)
	}
	return got
}

const checkedID = "019344a0-7f3c-4b1d-9c55-2f6a1e0d8b47"

// jsonOf returns an object as text.
func jsonOf(t *testing.T, o rig.Object) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCase09CheckAnAuthBody: a body that /auth accepts has no faults, for what the server adds or corrects
// is none; its real faults are found.
func TestCase09CheckAnAuthBody(t *testing.T) {
	t.Parallel()
	body := func(version string) rig.Object { return rig.BrowserRequest(version, rig.EnrolledPAN, checkedID, "U") }
	for name, o := range map[string]rig.Object{
		"2.1.0": body("2.1.0"), "2.2.0": body("2.2.0"), "2.3.1": body("2.3.1"),
		"an app": rig.AppRequest("2.2.0", rig.EnrolledPAN, checkedID), "an app without an id": rig.AppRequest("2.2.0", rig.EnrolledPAN, ""),
		"3RI":                                   rig.ThreeRIRequest("2.2.0", rig.EnrolledPAN, checkedID),
		"with slips":                            body("2.2.0").With(rig.Object{"merchantCountryCode": "DK", "browserTZ": -60, "payTokenInd": false}),
		"with members that the server replaces": body("2.2.0").With(rig.Object{"threeDSServerOperatorID": "x"}),
		"with what has no meaning": body(
			"2.2.0").With(rig.Object{"payTokenSource": "02", "purchaseInstalData": "12", "payeeOrigin": "https://shop.example"}),
	} {
		got := wantCheck(t, name, jsonOf(t, o), "auth-body")
		if name == "with slips" && !slices.Equal(got.Corrected, []string{"/merchantCountryCode", "/browserTZ", "/payTokenInd"}) {
			slices.Sort(got.Corrected)
			if !slices.Equal(got.Corrected, []string{"/browserTZ", "/merchantCountryCode", "/payTokenInd"}) {
				t.Errorf("%s: corrected %v", name, got.Corrected)
			}
		}
	}
	wantCheck(t, "no amount", jsonOf(t, body("2.2.0").With(rig.Object{"purchaseAmount": nil})), "auth-body", "201 /purchaseAmount")
	wantCheck(t, "no id", jsonOf(t, body("2.2.0").With(rig.Object{"threeDSServerTransID": ""})), "auth-body", "201 /threeDSServerTransID")
	wantCheck(t, "two faults",
		jsonOf(t, body("2.2.0").With(rig.Object{"mcc": "x", "mobilePhone": rig.Object{"cc": "x", "subscriber": "1"}})),
		"auth-body", "203 /mcc", "203 /mobilePhone/cc")
	wantCheck(t, "an extension",
		jsonOf(t, body("2.2.0").With(rig.Object{"messageExtension": []rig.Object{{"id": "A", "name": "n", "criticalityIndicator": false}}})),
		"auth-body", "201 /messageExtension/0/data")
}

// TestD24CheckFindsWhatADirectoryRefuses: an AReq that is complete is held against what directory servers
// refuse beside the tables: elements without their condition, and characters.
func TestD24CheckFindsWhatADirectoryRefuses(t *testing.T) {
	t.Parallel()
	whole := func(version string, changes rig.Object) string {
		return jsonOf(t, rig.BrowserRequest(version, rig.EnrolledPAN, checkedID, "U").With(rig.Object{
			"threeDSServerRefNumber": "3DS_LOA_SER_0000", "threeDSServerURL": "https://server.example/", "threeDSRequestorID": "R", "threeDSRequestorName": "R",
			"acceptLanguage": []string{"en"}, "acquirerCountryCode": "208", "acquirerCountryCodeSource": "01",
		}).With(changes))
	}
	for _, test := range []struct {
		version string
		changes rig.Object
		faults  []string
	}{
		{"2.2.0", nil, nil},
		{"2.3.1", nil, nil},
		{"2.2.0", rig.Object{"payTokenSource": "01"}, []string{"203 /payTokenSource"}},
		{"2.2.0", rig.Object{"payTokenSource": "01", "payTokenInd": true}, nil},
		{"2.2.0", rig.Object{"purchaseInstalData": "12"}, []string{"203 /purchaseInstalData"}},
		{"2.2.0", rig.Object{"purchaseInstalData": "12", "threeDSRequestorAuthenticationInd": "03", "recurringExpiry": "20301231", "recurringFrequency": "28"}, nil},
		{"2.3.1", rig.Object{"payeeOrigin": "https://shop.example"}, []string{"203 /payeeOrigin"}},
		{"2.3.1", rig.Object{"payeeOrigin": "https://shop.example", "threeDSRequestorSpcSupport": "Y"}, nil},
		{"2.3.1", rig.Object{"recurringCurrency": "978"}, []string{"203 /recurringCurrency"}},
		{"2.2.0", rig.Object{"cardholderName": "Jane\nDoe"}, []string{"203 /cardholderName"}},
		{"2.2.0", rig.Object{"cardholderName": "Jørgen"}, []string{"203 /cardholderName"}},
		{"2.3.1", rig.Object{"cardholderName": "Jørgen"}, nil},
		{"2.3.1", rig.Object{"cardholderName": "Jane\u202eDoe"}, []string{"203 /cardholderName"}},
		{"2.2.0", rig.Object{"acctInfo": rig.Object{"chAccAgeInd": "x\n"}}, []string{"203 /acctInfo/chAccAgeInd"}},
		{"2.2.0", rig.Object{"messageExtension": []rig.Object{{"id": "A", "name": "n\t", "criticalityIndicator": false,
			"data": rig.Object{"a": "é\n"}}}}, []string{"203 /messageExtension/0/name"}},
	} {
		wantCheck(t, test.version+jsonOf(t, test.changes.With(nil)), whole(test.version, test.changes), "areq", test.faults...)
	}
}

// TestD24CheckReadsWhatPeopleHave: log lines, base64url, forms, PARes and masked cards are read, and the kind says
// what it was.
func TestD24CheckReadsWhatPeopleHave(t *testing.T) {
	t.Parallel()
	creq := jsonOf(t, rig.Object{
		"messageType": "CReq", "messageVersion": "2.2.0", "threeDSServerTransID": checkedID, "acsTransID": checkedID,
		"challengeWindowSize": "05",
	})
	cres := jsonOf(t, rig.Object{
		"messageType": "CRes", "messageVersion": "2.2.0", "threeDSServerTransID": checkedID, "acsTransID": checkedID,
		"challengeCompletionInd": "Y", "transStatus": "Y",
	})
	raw, padded := base64.RawURLEncoding.EncodeToString([]byte(creq)), base64.StdEncoding.EncodeToString([]byte(creq))
	bad := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(creq, `"05"`, `"09"`, 1)))
	pares := packing.Deflate([]byte(
		`<ThreeDSecure><Message id="m"><PARes id="p"><TX><status>Y</status></TX><pan>0000000000001234</pan></PARes></Message></ThreeDSecure>`))
	body := rig.BrowserRequest("2.2.0", rig.EnrolledPAN, checkedID, "U")
	wantCheck(t, "creq", raw, "creq")
	wantCheck(t, "creq, padded, in lines", padded[:60]+"\n"+padded[60:], "creq")
	wantCheck(t, "creq with a fault", bad, "creq", "203 /challengeWindowSize")
	wantCheck(t, "cres", base64.RawURLEncoding.EncodeToString([]byte(cres)), "cres")
	wantCheck(t, "form", url.Values{"creq": {raw}, "threeDSSessionData": {"x"}}.Encode(), "form")
	wantCheck(t, "form with padding", url.Values{"creq": {padded}}.Encode(), "form")
	wantCheck(t, "form with a fault", "threeDSSessionData=x&creq="+bad, "form", "203 /challengeWindowSize")
	wantCheck(t, "form of a PARes", url.Values{"PaRes": {pares}, "MD": {"x"}}.Encode(), "form")
	wantCheck(t, "pares", pares, "pares")
	wantCheck(t, "pares, percent-encoded", url.QueryEscape(pares), "pares")
	wantCheck(t, "log line", "2026-11-25T19:18:49Z INFO sent "+creq+" in 3 ms", "log-line")
	wantCheck(t, "log line in JSON", jsonOf(t, rig.Object{"time": "2026-11-25T19:18:49Z", "level": "INFO", "msg": "sent", "body": creq}), "log-line")
	wantCheck(t, "log line with an object", `{"msg":"sent","body":`+strings.Replace(creq, `"05"`, `"09"`, 1)+`}`, "log-line", "203 /challengeWindowSize")
	for _, pan := range []string{"400000******0103", "400000XXXXXX0103", "************0103"} {
		if got := wantCheck(t, pan, jsonOf(t, body.With(rig.Object{"acctNumber": pan})), "auth-body"); len(got.Warnings) != 1 {
			t.Errorf("%s: warnings %v", pan, got.Warnings)
		}
	}
	wantCheck(t, "no card", jsonOf(t, body.With(rig.Object{"acctNumber": "4000-0000-0103"})), "auth-body", "203 /acctNumber")
	for name, text := range map[string]string{
		"words": "not a message", "torn": `{"messageType":`, "empty": "", "XML": "<a/>", "a form of something else": "a=b",
		"base64 of words": "bm90IGEgbWVzc2FnZQ",
	} {
		if _, status := runCheckJSON(t, text); status != 2 {
			t.Errorf("%s: status %d, want 2", name, status)
		}
	}
	var out, problems bytes.Buffer
	if status := rig.Run(t.Context(), []string{"check", "-"}, strings.NewReader(pares), &out, &problems); status != 0 ||
		!strings.Contains(out.String(), `status: "Y"`) || !strings.Contains(out.String(), "not judged: the signature") || strings.Contains(out.String(), "1234") {
		t.Errorf("status %d, %s %s", status, out.String(), problems.String())
	}
}

// TestE4CheckReadsRequestLines: lines of this server's own request log say what was wrong with each request.
func TestE4CheckReadsRequestLines(t *testing.T) {
	t.Parallel()
	good := `{"time":"2026-11-25T19:18:49Z","level":"INFO","msg":"request","operation":"/auth","merchant":"Shop","id":"` +
		checkedID + `","scheme":"visa","last4":"0103","status":"C","http":200,"ms":4.2,"from":"127.0.0.1"}`
	refused := `{"time":"2026-11-25T19:18:50Z","level":"INFO","msg":"request","operation":"/auth","http":400,"code":"203","elements":["purchaseAmount","email"],"ms":0.2,"from":"127.0.0.1"}`
	gone := `{"time":"2026-11-25T19:18:51Z","level":"INFO","msg":"request","operation":"/postauth","aborted":true,"ms":0.2,"from":"127.0.0.1"}`
	away := `{"time":"2026-11-25T19:18:52Z","level":"ERROR","msg":"request","operation":"/postauth","http":500,"code":"403","ms":0.2,"from":"127.0.0.1"}`
	stranger := `{"time":"2026-11-25T19:18:53Z","level":"INFO","msg":"request","operation":"/auth","http":401,"ms":0.2,"from":"127.0.0.1"}`
	wantCheck(t, "good", good, "log-line")
	wantCheck(t, "refused", refused, "log-line", "203 /purchaseAmount", "203 /email")
	wantCheck(t, "several", good+"\n"+refused+"\n\n"+gone+"\n"+away+"\n", "log-line", "203 /purchaseAmount", "203 /email", "403 ")
	if got := wantCheck(t, "stranger", stranger, "log-line"); !slices.Equal(got.Warnings, []string{"HTTP 401"}) {
		t.Errorf("without a key: warnings %v", got.Warnings)
	}
	other := `{"time":"2026-11-25T19:18:54Z","level":"WARN","msg":"directory server is slow"}`
	wantCheck(t, "among others", other+"\n"+refused+"\n"+other, "log-line", "203 /purchaseAmount", "203 /email")
	if _, status := runCheckJSON(t, good+"\nanother program's line"); status != 2 {
		t.Errorf("a line of something else among them: status %d, want 2", status)
	}
	var out, problems bytes.Buffer
	if status := rig.Run(t.Context(), []string{"check", "-"}, strings.NewReader(good+"\n"+other+"\n"+refused+"\n"+away), &out, &problems); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	for _, want := range []string{`"/auth" was answered with HTTP 200`, `transStatus "C"`,
		"not judged: the messages themselves, which the request log does not hold, and 1 line about no request"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out.String())
		}
	}
	for _, want := range []string{
		"standard input: purchaseAmount: 203 The format or the value of an element is not valid. (line 3)",
		"standard input: 403 A system failure that should pass. (line 4)",
	} {
		if !strings.Contains(problems.String(), want) {
			t.Errorf("%q is not in %s", want, problems.String())
		}
	}
}

// hostileText has what a terminal obeys, what turns the direction of text, ends of lines that are
// none of ASCII, and a tag.
const hostileText = "a\x1b[2Jb\u202ec\u2028d\u009be\u200ff\x7fg\U000e0041h"

// wantHarmless says that a command has printed nothing that a terminal would obey. If isShown, the text was there.
func wantHarmless(t *testing.T, what, printed string, isShown bool) {
	t.Helper()
	if strings.ContainsFunc(printed, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }) {
		t.Errorf("%s: printed %q", what, printed)
	}
	if isShown && !strings.Contains(printed, "[2J") {
		t.Errorf("%s: the text of others is not in %q", what, printed)
	}
}

// TestR10aTextsOfOthersInATerminal: what others wrote reaches a terminal without characters that it would obey,
// whichever command prints it, in JSON too.
func TestR10aTextsOfOthersInATerminal(t *testing.T) {
	t.Parallel()
	ares := rig.Object{
		"messageType": "ARes", "messageVersion": "2.2.0", "transStatus": "R", "cardholderInfo": hostileText,
		"acsReferenceNumber": hostileText, hostileText: hostileText,
	}
	line := rig.Object{
		"level": "INFO", "msg": "request", "operation": hostileText, "merchant": hostileText, "detail": hostileText,
		"code": "203", "elements": []string{hostileText},
	}
	erro := rig.Object{"messageType": "Erro", "messageVersion": "2.2.0", "errorDetail": hostileText, "errorDescription": hostileText}
	areq := rig.BrowserRequest("2.3.1", rig.EnrolledPAN, checkedID,
		"U").With(rig.Object{"messageType": "AReq", "cardholderName": hostileText, hostileText: hostileText})
	for name, text := range map[string]string{"ARes": jsonOf(t, ares), "line of a log": jsonOf(t, line), "Erro": jsonOf(t, erro), "AReq": jsonOf(t, areq)} {
		for _, command := range []string{"check", "explain", "check --json", "explain --json"} {
			if strings.HasPrefix(command, "explain") && name != "AReq" {
				continue
			}
			var out, problems bytes.Buffer
			rig.Run(t.Context(), append(strings.Fields(command), "-"), strings.NewReader(text), &out, &problems)
			wantHarmless(t, command+" of "+name, out.String()+problems.String(), command == "check" && name != "AReq")
		}
	}

	console := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, jsonOf(t, rig.Object{"status": hostileText, "problems": rig.Object{hostileText: hostileText}}))
	}))
	t.Cleanup(console.Close)
	var out, problems bytes.Buffer
	rig.Run(t.Context(), []string{"health", "--url", console.URL}, strings.NewReader(""), &out, &problems)
	wantHarmless(t, "health", out.String()+problems.String(), true)

	file := checkSite(t, rig.Plan{})
	const id = "0f4c8f0a-5a3e-4c00-8000-000000000001"
	rig.Must(t, rig.WithJournal(t.Context(), file, func(st journal.Store, _ *journal.Keys) error {
		at := time.Now()
		message, err := json.Marshal(erro)
		_, err2 := st.Write(t.Context(), []journal.Entry{{Kind: journal.Answered, Record: journal.Record{
			ID: id, Created: at, Updated: at, API: "emv", Merchant: hostileText, Reference: hostileText, Status: "completed", TransStatus: hostileText,
			TransStatusReason: hostileText, ACS: hostileText, Card: journal.Card{Scheme: "visa"},
		}, Steps: []journal.Step{{Step: "erro", At: at, Message: message, Findings: []string{hostileText}}}}})
		return errors.Join(err, err2)
	}))
	for _, command := range []string{"search", "search --json", "show " + id, "show --json " + id} {
		out.Reset()
		problems.Reset()
		rig.Run(t.Context(), append(strings.Fields("journal "+command), "--config", file), strings.NewReader(""), &out, &problems)
		wantHarmless(t, "journal "+command, out.String()+problems.String(), true)
	}
}

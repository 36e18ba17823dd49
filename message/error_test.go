package message_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/message"
)

// Rows MX-15 to MX-18.
func TestErrorIsWrittenAsErro(t *testing.T) {
	const id = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e"
	for _, test := range []struct {
		name string
		in   message.Error
		want string
	}{
		{"least", message.Error{Version: message.V220, Code: message.Missing},
			`{"errorCode":"201","errorComponent":"S","errorDescription":"A required element is missing.","errorDetail":"A required element is missing.","messageType":"Erro","messageVersion":"2.2.0"}`},
		{"most", message.Error{
			Version: message.V231, Code: 999, Component: "D", Description: "a", Detail: "b <&>\"", MessageType: "AReq",
			ServerTransID: id, DSTransID: id, ACSTransID: id, SDKTransID: id,
		},
			`{"acsTransID":"` + id + `","dsTransID":"` + id +
				`","errorCode":"999","errorComponent":"D","errorDescription":"a","errorDetail":"b <&>\"","errorMessageType":"AReq","messageType":"Erro","messageVersion":"2.3.1","sdkTransID":"` +
				id + `","threeDSServerTransID":"` + id + `"}`},
		{"first version", message.Error{Version: message.V210, Code: message.TimedOut, Detail: "x"},
			`{"errorCode":"402","errorComponent":"S","errorDescription":"The transaction timed out.","errorDetail":"x","messageType":"Erro","messageVersion":"2.1.0"}`},
	} {
		got := test.in.JSON()
		if diff := difftest.Diff(test.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		m, err := message.Parse(got, message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if p := m.Check(message.Context{}); p != nil {
			t.Errorf("%s: %v", test.name, p)
		}
		back := message.ReadError(m)
		if diff := difftest.Diff(string(got), string(back.JSON())); diff != "" {
			t.Errorf("%s: read and written (-want +got):\n%s", test.name, diff)
		}
	}
}

// An Error without a version must not claim the version of another transaction.
func TestErrorWithoutVersionIsWrittenAs220(t *testing.T) {
	m, err := message.Parse(message.Error{Code: message.Missing}.JSON(), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Text("messageVersion"); got != "2.2.0" {
		t.Errorf("messageVersion %q, want 2.2.0", got)
	}
}

func TestZeroValuesAreNotValid(t *testing.T) {
	var v message.Version
	var ch message.Channel
	var cat message.Category
	if v.String() != "unknown" || ch.String() != "unknown" || cat.String() != "unknown" || ch.Code() != "" || cat.Code() != "" {
		t.Errorf("%s %s %s %q %q", v, ch, cat, ch.Code(), cat.Code())
	}
	if got, ok := message.ParseVersion(""); ok {
		t.Errorf("an empty messageVersion is read as %s", got)
	}
	if message.Erro.In(v) || message.TableOf(message.Erro, v) != nil {
		t.Error("the zero Version has messages")
	}
}

func TestErrorTextsAreTruncated(t *testing.T) {
	long := strings.Repeat("é", 3000)
	m, err := message.Parse(message.Error{Code: message.Format, Description: long, Detail: long}.JSON(), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"errorDescription", "errorDetail"} {
		if n := utf8.RuneCountInString(m.Text(name)); n != 2048 {
			t.Errorf("%s has %d characters", name, n)
		}
	}
}

// A text of a peer may hold card data.
func TestErrorTextIsLeftOutOfGoErrors(t *testing.T) {
	var err error = message.Error{Code: message.Format, Component: "D", Description: "4000000000000002", Detail: "4000000000000002"}
	if got, want := err.Error(), "Erro 203 (D): The format or the value of an element is not valid."; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

// An Erro about a message that its version lacks does not name the type, because the Erro
// itself has to be valid (MX-15).
func TestErrorNamesOnlyTypesOfItsVersion(t *testing.T) {
	for _, v := range message.Versions() {
		for _, typ := range message.Types() {
			e := message.Error{Version: v, Code: message.InvalidMessage, MessageType: typ.String()}
			m, err := message.Parse(e.JSON(), message.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if p := m.Check(message.Context{}); p != nil || m.Has("errorMessageType") != typ.In(v) {
				t.Errorf("%s %s: %s: %v", v, typ, m.Bytes(), p)
			}
		}
	}
}

// Row VO-04.
func TestReadErrorAcceptsAnyErro(t *testing.T) {
	const unreadable = "The message is not one that can be processed here."
	for _, test := range []struct {
		text string
		want message.Error
	}{
		{`{}`, message.Error{Version: message.V220, Code: message.InvalidMessage, Component: "D", Description: unreadable, Detail: unreadable}},
		{`{"messageType":"Erro","messageVersion":"2.1.0","errorCode":"305","errorComponent":"A","errorDetail":"x"}`,
			message.Error{Version: message.V210, Code: 305, Component: "A", Description: "The transaction data is not valid.", Detail: "x"}},
		{`{"messageVersion":"9","errorCode":712,"errorComponent":"X","errorDescription":"odd","unknown":1}`,
			message.Error{Version: message.V220, Code: 712, Component: "D", Description: "odd", Detail: "odd"}},
		{`{"errorCode":"4000000000000002","errorDescription":{},"errorDetail":""}`,
			message.Error{Version: message.V220, Code: message.InvalidMessage, Component: "D", Description: unreadable, Detail: unreadable}},
		{`{"messageVersion":"2.2.0","errorCode":"305","errorComponent":"A","errorDescription":" ","errorDetail":"` + strings.Repeat(`\n`, 3000) + `x"}`,
			message.Error{Version: message.V220, Code: 305, Component: "A", Description: "The transaction data is not valid.",
				Detail: "The transaction data is not valid."}},
		{`{"errorCode":"20x","errorComponent":"S","threeDSServerTransID":"a","dsTransID":"b","acsTransID":"c","sdkTransID":"d","errorMessageType":"RReq"}`,
			message.Error{Version: message.V220, Code: message.InvalidMessage, Component: "S", Description: unreadable, Detail: unreadable,
				MessageType: "RReq", ServerTransID: "a", DSTransID: "b", ACSTransID: "c", SDKTransID: "d"}},
	} {
		m, err := message.Parse([]byte(test.text), message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := difftest.Diff(test.want, message.ReadError(m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.text, diff)
		}
	}
}

func TestComposeWritesTheOrderOfTheTable(t *testing.T) {
	got := message.MustCompose(message.RRes, message.V220,
		message.Member{Name: "resultsStatus", Text: "01"},
		message.Member{Name: "acsTransID", Text: "a<\xff\"\u2028é"},
		message.Member{Name: "dsTransID"},
		message.Member{Name: "messageExtension", Raw: []byte(`[ 1.0 ]`), Text: "not this"},
		message.Member{Name: "sdkTransID", Text: "old"},
		message.Member{Name: "sdkTransID", Text: "new"})
	want := "{\"acsTransID\":\"a<\uFFFD\\\"\u2028é\",\"messageExtension\":[ 1.0 ],\"messageType\":\"RRes\",\"messageVersion\":\"2.2.0\",\"resultsStatus\":\"01\",\"sdkTransID\":\"new\"}"
	if diff := difftest.Diff(want, string(got)); diff != "" {
		t.Errorf("Compose (-want +got):\n%s", diff)
	}
}

func TestComposeRefusesWhatHasNoTable(t *testing.T) {
	for _, test := range []struct {
		name    string
		typ     message.Type
		version message.Version
		element string
	}{
		{"an element of another version", message.RRes, message.V210, "sdkTransID"},
		{"an element of no table", message.RRes, message.V231, "nothing"},
		{"a message that the version lacks", message.OReq, message.V220, "dsTransID"},
		{"no version", message.RRes, 0, "dsTransID"},
		{"no type", message.ORes + 1, message.V231, "dsTransID"},
	} {
		if b, err := message.Compose(test.typ, test.version, message.Member{Name: test.element, Text: "x"}); err == nil {
			t.Errorf("%s: %s", test.name, b)
		}
	}
}

func TestProblemsErrListsCodesAndNames(t *testing.T) {
	if err := message.Problems(nil).Err(); err != nil {
		t.Errorf("no problems: %v", err)
	}
	problems := message.Problems{{Code: message.Missing, Path: "acctNumber"}, {Code: message.UnsupportedVersion, Path: "messageVersion", Note: "of a peer"}}
	err := problems.Err()
	if err == nil || err.Error() != "message: 201 acctNumber, 102 messageVersion" {
		t.Errorf("Err: %v", err)
	}
	checked, ok := errors.AsType[*message.CheckError](err)
	if !ok || len(checked.Problems) != 2 {
		t.Errorf("CheckError: %v", checked)
	}
}

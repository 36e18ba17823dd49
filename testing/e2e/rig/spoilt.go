package rig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// A SpoiltMessage message is one that a directory server got wrong: spoil makes of a
// good message the bytes that are sent, the rest says what is to be told of them.
type SpoiltMessage struct {
	Name   string
	Spoil  func(good Object) []byte
	Code   string
	Detail string // "": anything
	Kind   string // errorMessageType: "" that of the message, "-" none
	NoIDs  bool   // the ids cannot be read
}

func SetMembers(changes Object) func(Object) []byte {
	return func(good Object) []byte { return Marshal(good.With(changes)) }
}

func plant(text string) func(Object) []byte {
	return func(good Object) []byte { return InsertText(good, text) }
}

func fixed(body string) func(Object) []byte { return func(Object) []byte { return []byte(body) } }

const VersionList = "2.1.0,2.2.0,2.3.1"

// SpoiltMessages are the faults that an ARes and an RReq have in common.
func SpoiltMessages(kind string) []SpoiltMessage {
	return []SpoiltMessage{
		{Name: "duplicate", Spoil: plant(`,"transStatus":"Y"`), Code: "204", Detail: "transStatus"},
		{Name: "duplicate, null", Spoil: plant(`,"eci":null`), Code: "204", Detail: "eci"},
		{Name: "foreign id", Spoil: SetMembers(Object{"threeDSServerTransID": NewUUID()}), Code: "301", Detail: "threeDSServerTransID"},
		{Name: "critical unknown extension", Code: "202", Detail: "A000-critical", Spoil: SetMembers(Object{"messageExtension": []Object{
			{"id": "A000-critical", "name": "n", "criticalityIndicator": true, "data": Object{"a": 1}},
			{"id": "A000-other", "name": "n", "criticalityIndicator": false, "data": Object{"a": 1}},
		}})},
		{Name: "another active version", Spoil: SetMembers(Object{"messageVersion": "2.1.0"}), Code: "203", Detail: "messageVersion"},
		{Name: "an inactive version", Spoil: SetMembers(Object{"messageVersion": "2.0.0"}), Code: "102", Detail: VersionList},
		{Name: "version of 3-D Secure 1", Spoil: SetMembers(Object{"messageVersion": "1.0.2"}), Code: "102", Detail: VersionList},
		{Name: "no version", Spoil: SetMembers(Object{"messageVersion": nil}), Code: "201", Detail: "messageVersion"},
		{Name: "garbage", Spoil: fixed("garbage"), Code: "101", Detail: "Invalid Formatted Message", Kind: "-", NoIDs: true},
		{Name: "nothing", Spoil: fixed(""), Code: "101", Kind: "-", NoIDs: true},
		{Name: "HTML", Spoil: fixed("<html><body>Bad Gateway</body></html>"), Code: "101", Kind: "-", NoIDs: true},
		{Name: "an array", Spoil: fixed("[]"), Code: "101", Kind: "-", NoIDs: true},
		{Name: "cut off", Spoil: func(o Object) []byte { b := Marshal(o); return b[:len(b)/2] }, Code: "101", Kind: "-", NoIDs: true},
		{Name: "not UTF-8", Spoil: plant(`,"x":"` + "\xff\xfe" + `"`), Code: "101", Kind: "-", NoIDs: true},
		{Name: "too deep", Spoil: plant(`,"x":` + strings.Repeat("[", 50) + strings.Repeat("]", 50)), Code: "101", Kind: "-", NoIDs: true},
		{Name: "too many members", Spoil: plant(MoreMembers(2000)), Code: "101", Kind: "-", NoIDs: true},
		{Name: "unknown type", Spoil: SetMembers(Object{"messageType": "XRes"}), Code: "101", Detail: "Invalid Message Type", Kind: "-"},
		{Name: "no type", Spoil: SetMembers(Object{"messageType": nil}), Code: "201", Detail: "messageType"},
		{Name: "another type", Spoil: SetMembers(Object{"messageType": "CRes"}), Code: "101", Detail: "Invalid Message for the receiving component", Kind: "CRes"},
		{Name: "missing", Spoil: SetMembers(Object{"transStatus": nil}), Code: "201", Detail: "transStatus"},
		{Name: "missing, null", Spoil: plantOver("dsTransID", "null"), Code: "201", Detail: "dsTransID"},
		{Name: "missing, empty", Spoil: SetMembers(Object{"acsTransID": ""}), Code: "201", Detail: "acsTransID"},
		{Name: "missing by a condition", Spoil: SetMembers(Object{"authenticationValue": nil}), Code: "201", Detail: "authenticationValue"},
		{Name: "bad format", Spoil: SetMembers(Object{"transStatus": "Q"}), Code: "203", Detail: "transStatus"},
		{Name: "of another JSON type", Spoil: SetMembers(Object{"transStatus": 1}), Code: "203", Detail: "transStatus"},
		{Name: "optional and empty", Spoil: SetMembers(Object{"eci": ""}), Code: "203", Detail: "eci"},
		{Name: "too long", Spoil: SetMembers(Object{"eci": "055"}), Code: "203", Detail: "eci"},
		{Name: "two faults", Spoil: SetMembers(Object{"eci": "055", "transStatus": nil}), Code: "203"},
		{Name: "a request of ours", Spoil: SetMembers(Object{"messageType": "AReq"}), Code: "101", Kind: "AReq"},
		{Name: "in its place: " + other(kind), Spoil: SetMembers(Object{"messageType": other(kind)}), Code: "101", Kind: other(kind)},
	}
}

func other(kind string) string {
	if kind == "ARes" {
		return "RReq"
	}
	return "ARes"
}

// plantOver gives a member another JSON text.
func plantOver(name, text string) func(Object) []byte {
	return func(good Object) []byte {
		return InsertText(good.With(Object{name: nil}), fmt.Sprintf(`,%q:%s`, name, text))
	}
}

// Told holds what a directory server is told of its message against it.
func (f SpoiltMessage) Told(t *testing.T, kind, transID, version string, good, erro Object) {
	t.Helper()
	if erro == nil {
		t.Error("the directory server was told nothing")
		return
	}
	CheckMembers(t, "Erro", erro, ErroMembers, append(mayErro, peersErro...))
	want := Object{
		"errorCode": f.Code, "errorComponent": "S", "messageVersion": version, "errorMessageType": kind,
		"threeDSServerTransID": transID, "dsTransID": good.Text("dsTransID"), "acsTransID": good.Text("acsTransID"),
	}
	for c := range message.Code(1000) {
		if c.String() == f.Code {
			want["errorDescription"] = c.Description()
		}
	}
	if f.Detail != "" {
		want["errorDetail"] = f.Detail
	}
	switch f.Kind {
	case "":
	case "-":
		want["errorMessageType"] = ""
	default:
		want["errorMessageType"] = f.Kind
	}
	if f.NoIDs {
		want["dsTransID"], want["acsTransID"] = "", ""
	}
	switch kind + " " + f.Name { // of an RReq the ids are known without it
	case "ARes missing, null":
		want["dsTransID"] = ""
	case "ARes missing, empty":
		want["acsTransID"] = ""
	}
	for name, w := range want {
		if erro.Text(name) != w {
			t.Errorf("the directory server was told %s = %q, want %q", name, erro.Text(name), w)
		}
	}
}

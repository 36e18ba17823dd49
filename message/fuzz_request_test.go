package message_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

// FuzzRequest checks that an AReq that Build accepts is valid, holds only elements that a 3DS
// Server sends, and stays the same when it is built again.
func FuzzRequest(f *testing.F) {
	for seed := range uint64(18) {
		v, ch, cat := message.Versions()[seed%3], message.Channels()[seed/3%3], message.Categories()[seed/9]
		f.Add(messagetest.Sample(rand.New(rand.NewPCG(seed, 8)), message.AReq, v, ch, cat, seed%2 == 0), seed%4 < 2)
	}
	f.Add([]byte(`{"messageVersion":"2.2.0","broadInfo":{"\u0041":{"a":[null,{"b":""}]},"a":1,"A":2},"messageExtension":{"data":{"x":null}}}`), true)
	f.Add([]byte(`{"messageVersion":"2.3.1","messageExtension":[[{"data":{"A":1,"a":null}}]],"threeDSRequestorChallengeInd":"03","acctInfo":[{}]}`), true)
	f.Add([]byte(`{"acctNumber":"4000000000000002","Ds":"visa","ds":"amex"}`), false)
	f.Fuzz(func(t *testing.T, data []byte, normalise bool) { checkRequest(t, data, normalise) })
}

// TestMutants is FuzzRequest with inputs that are always JSON: valid requests with some values
// and names changed.
func TestMutants(t *testing.T) {
	const tries = 3000
	random := rand.New(rand.NewPCG(9, 9))
	var data string
	defer func() {
		if t.Failed() {
			t.Logf("the last one was\n%s", data)
		}
	}()
	accepted := 0
	for range tries {
		v, ch, cat := message.Versions()[random.IntN(3)], message.Channels()[random.IntN(3)], message.Categories()[random.IntN(2)]
		data = string(messagetest.Sample(random, message.AReq, v, ch, cat, random.IntN(2) == 0))
		for range 1 + random.IntN(4) {
			data = mutateText(random, data)
		}
		accepted += checkRequest(t, []byte(data), random.IntN(2) == 0)
	}
	if accepted < tries/10 || accepted > tries*9/10 {
		t.Errorf("%d of %d accepted: this shows little", accepted, tries)
	}
}

// unusualValues are values that few rows accept.
var unusualValues = []string{
	`""`, `null`, `{}`, `[]`, `[null]`, `true`, `1.50e3`, `"x"`, `" "`, `"é"`, `"\u00e9"`, `"01"`, `"36"`,
	`["01","01"]`, `["a",{"b":null}]`, `{"id":"A","ID":1}`, `{"data":{"a":null}}`, `"http://localhost/"`,
	`"` + strings.Repeat("9", 3000) + `"`,
}

// mutateText returns data with one of its texts changed, if the result is JSON.
func mutateText(random *rand.Rand, data string) string {
	parts := strings.Split(data, `"`) // every other one is a text, as long as none holds a quote
	i := 1 + 2*random.IntN(len(parts)/2)
	switch value := unusualValues[random.IntN(len(unusualValues))]; random.IntN(4) {
	case 0:
		parts[i] = strings.ToUpper(parts[i])
	case 1:
		parts[i] = parts[1+2*random.IntN(len(parts)/2)]
	case 2:
		parts[i] = strings.Trim(value, `"`)
	default:
		parts = []string{strings.Join(parts[:i], `"`) + value + strings.Join(parts[i+1:], `"`)}
	}
	if changed := strings.Join(parts, `"`); json.Valid([]byte(changed)) {
		return changed
	}
	return data
}

// checkRequest checks what holds for every request. It returns 1 if the request is accepted
// and otherwise 0.
func checkRequest(t *testing.T, data []byte, normalise bool) int {
	r, err := message.ReadRequest(data, message.Limits{})
	if err != nil {
		if _, ok := errors.AsType[*message.SyntaxError](err); !ok {
			t.Fatalf("error of type %T", err)
		}
		return 0
	}
	if normalise {
		r.Normalise()
		if again := r.Normalise(); again != nil {
			t.Fatalf("normalised twice: %v", again)
		}
	}
	m, p := r.Build(message.Context{})
	if _, ok := message.ParseVersion(r.Text("messageVersion")); ok != (m != nil) {
		t.Fatalf("version supported %v, message %v", ok, m != nil)
	}
	if m == nil {
		if p == nil {
			t.Fatal("neither message nor problems")
		}
		return 0
	}
	checkNothingElseIsSent(t, m)
	if p != nil {
		return 0
	}
	again, err := message.Parse(m.Bytes(), message.Limits{Depth: -1, Members: -1})
	if err != nil {
		t.Fatal(err)
	}
	if p := again.Check(message.Context{}); p != nil {
		t.Fatalf("accepted, and then: %v", p)
	}
	r, err = message.ReadRequest(m.Bytes(), message.Limits{Depth: -1, Members: -1})
	if err != nil {
		t.Fatal(err)
	}
	if m2, p := r.Build(message.Context{}); p != nil || string(m2.Bytes()) != string(m.Bytes()) {
		t.Fatalf("sent again: %v\n%s", p, difftest.Diff(string(m.Bytes()), string(m2.Bytes())))
	}
	return 1
}

// checkNothingElseIsSent fails if a message holds elements that a 3DS Server does not send, or
// empty ones.
func checkNothingElseIsSent(t *testing.T, m *message.Message) {
	t.Helper()
	v, _ := m.Version()
	table := message.TableOf(message.AReq, v)
	count := 0
	for _, f := range table.Fields {
		if m.Raw(f.Name) == nil {
			continue
		}
		count++
		ch, knownChannel := message.ParseChannel(m.Text("deviceChannel"))
		cat, knownCategory := message.ParseCategory(m.Text("messageCategory"))
		switch {
		case !m.Has(f.Name):
			t.Fatalf("%s is empty", f.Name)
		case f.DS:
			t.Fatalf("%s is not ours", f.Name)
		case knownChannel && knownCategory && f.Need.At(ch, cat) == '-':
			t.Fatalf("%s does not belong to %s %s", f.Name, ch, cat)
		}
	}
	if names := countTopLevel(m); names != count {
		t.Fatalf("%d members, %d of them known", names, count)
	}
}

// topLevel counts the members of a message.
func countTopLevel(m *message.Message) int {
	n, depth := 0, 0
	data := m.Bytes()
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ':':
			if depth == 1 {
				n++
			}
		}
	}
	return n
}

// FuzzError: whatever arrives as an Erro, there is an error to pass on, and it
// is a valid message.
func FuzzError(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"messageType":"Erro","messageVersion":"2.1.0","errorCode":"305","errorComponent":"A","errorDescription":"x","errorDetail":"y"}`))
	f.Add([]byte(
		`{"errorCode":712,"errorComponent":"","errorDescription":{},"errorDetail":"\ud83d\ude00","threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e"}`))
	f.Add([]byte(`{"errorCode":"101","errorComponent":"A","errorDescription":" ","errorDetail":"\n"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := message.Parse(data, message.Limits{})
		if err != nil {
			return
		}
		e := message.ReadError(m)
		if n, err := strconv.Atoi(e.Code.String()); err != nil || n != int(e.Code) || len(e.Code.String()) != 3 {
			t.Fatalf("code %s", e.Code)
		}
		back, err := message.Parse(e.JSON(), message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := difftest.Diff(e, message.ReadError(back)); diff != "" {
			t.Fatalf("read and written (-read +written):\n%s", diff)
		}
		for _, p := range back.Check(message.Context{}) {
			switch p.Path {
			case "errorMessageType", "threeDSServerTransID", "dsTransID", "acsTransID", "sdkTransID": // passed on as they came
			default:
				t.Fatalf("%v of %s", p, e.JSON())
			}
		}
	})
}

package conformance

import (
	"strings"
	"testing"
)

func TestEditsChangeOnePlace(t *testing.T) {
	o := object{"a": "1", "b": object{"c": "2"}, "l": []any{object{"n": "3"}}}
	for _, tt := range []struct {
		edit edit
		want string
	}{
		{set("a", nil), `{"a":null,"b":{"c":"2"},"l":[{"n":"3"}]}`},
		{set("b.d.e", []string{"x"}), `{"a":"1","b":{"c":"2","d":{"e":["x"]}},"l":[{"n":"3"}]}`},
		{set("l[0].n", "<4>"), `{"a":"1","b":{"c":"2"},"l":[{"n":"<4>"}]}`},
		{drop("b.c"), `{"a":"1","b":{},"l":[{"n":"3"}]}`},
		{drop("no.such"), `{"a":"1","b":{"c":"2"},"l":[{"n":"3"}],"no":{}}`},
		{twice("a", "1"), `{"a":"1","a":"1","b":{"c":"2"},"l":[{"n":"3"}]}`},
		{text(`"2"`, "2"), `{"a":"1","b":{"c":2},"l":[{"n":"3"}]}`},
		{raw("{"), `{`},
	} {
		if got := string(o.bytes(tt.edit)); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
	if got := string(o.bytes()); got != `{"a":"1","b":{"c":"2"},"l":[{"n":"3"}]}` {
		t.Errorf("the edits have changed the message: %s", got)
	}
	if !o.has("l[0].n") || o.has("l[1].n") || o.has("a.b") || o.text("l[0].n") != "3" {
		t.Error("has or text find what is not there, or not what is")
	}
}

func TestMask(t *testing.T) {
	secret := []string{"4000001234567899", "AAABBCJZUwAAAAAAUFlTAAAAAAA=", "Ann", "ann@mail.example", "192.0.2.1", "12345678"}
	message := object{
		"acctNumber": secret[0], "authenticationValue": secret[1], "cardholderName": secret[2] + ` "x"`, "email": secret[3], "browserIP": secret[4],
		"mobilePhone": object{"cc": "45", "subscriber": secret[5]}, "mcc": "5411",
	}
	for _, got := range []string{mask(message.bytes()), mask(message.bytes()[:len(message.bytes())-1]), mask([]byte("card 4000001234567899 of Bob"))} {
		for _, s := range secret {
			if strings.Contains(got, s) {
				t.Errorf("%s shows %s", got, s)
			}
		}
	}
	if got := mask(message.bytes()); !strings.Contains(got, `"mcc":"5411"`) || !strings.Contains(got, "400000******7899") {
		t.Errorf("it hides too much: %s", got)
	}
	if got := mask([]byte(strings.Repeat("x", 1<<20))); len(got) > 2*maxNoted {
		t.Errorf("%d characters", len(got))
	}
}

// TestWrongAnswersAreFaults: what a server does wrong is a fault.
func TestWrongAnswersAreFaults(t *testing.T) {
	x := &flow{version: v220, channel: "BRW", category: "PA"}
	erro := object{"messageType": "Erro", "errorComponent": "S", "errorCode": "203", "errorDetail": "mcc,acctNumber"}
	for _, tt := range []struct {
		name string
		do   func()
		good bool
	}{
		{"the code and the element", func() { x.wantErro("it", erro, "203", "acctNumber") }, true},
		{"one of two codes", func() { x.wantErro("it", erro, "201|203", "") }, true},
		{"another code", func() { x.wantErro("it", erro, "201", "") }, false},
		{"another element", func() { x.wantErro("it", erro, "203", "acct") }, false},
		{"another component", func() { x.wantErro("it", read(erro.bytes(set("errorComponent", "D"))), "203", "") }, false},
		{"no answer", func() { x.wantErro("it", nil, "203", "") }, false},
		{"no RRes", func() { x.wantRRes(&answer{status: 200, o: erro}, "01") }, false},
		{"a value", func() { x.t.want("it", erro, "errorCode", "203") }, true},
		{"another value", func() { x.t.want("it", erro, "errorCode", "204") }, false},
		{"nothing where something is wanted", func() { x.t.want("it", erro, "acsTransID", "x") }, false},
		{"something where nothing is wanted", func() { x.t.want("it", erro, "errorCode", nil) }, false},
		{"a member that is not defined", func() { x.wantAllRequired(object{"messageType": "RRes", "foo": "x"}) }, false},
	} {
		x.t = new(T)
		tt.do()
		if good := len(x.t.faults) == 0; good != tt.good {
			t.Errorf("%s: taken for good: %v", tt.name, good)
		}
	}
}

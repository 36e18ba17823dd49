package check_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

// TestE3CreateAndExplainAgree: exactly those bodies are refused that an explanation calls invalid.
func TestE3CreateAndExplainAgree(t *testing.T) {
	t.Parallel()
	random, w := rand.New(rand.NewPCG(31, 4)), authtest.NewWorld()
	e := w.NewBrowserEngine()
	verdicts := map[bool]int{}
	for n := range 1500 {
		acc := explainable[random.IntN(len(explainable))]
		body := randomBody(random, e, acc)
		x := e.Explain(acc, slices.Clone(body), check.ExplainOptions{IsCreation: true})
		_, _, err := e.Create(t.Context(), acc, slices.Clone(body))
		refused, isRefused := errors.AsType[*session.RefusedError](err)
		if isRefused && len(refused.Faults) == 1 && refused.Faults[0].Code == message.BadTransactionData.String() {
			continue // what the store has of a first authentication does not count
		}
		if err != nil && !isRefused {
			t.Fatalf("body %d: %v: %s", n, err, body)
		}
		if x.IsValid == isRefused {
			t.Fatalf("body %d: refused %t for %v; explained %+v: %s", n, isRefused, err, x.Faults, body)
		}
		verdicts[x.IsValid]++
	}
	if verdicts[true] < 150 || verdicts[false] < 150 {
		t.Errorf("%v: this shows little", verdicts)
	}
}

// explainable are accounts whose requests are treated differently.
var explainable = []*account.Account{
	authtest.Shop,
	{Merchant: authtest.Shop.Merchant, Strict: true},
	{Merchant: &account.Merchant{Name: "Enforced", SchemeRules: "enforce"}},
	{Merchant: &account.Merchant{Name: "Helped", SchemeRules: "off", Transliterate: true, Bridging: true}},
}

// TestE3AuthAndExplainAgree: /explain calls exactly those bodies invalid that /auth refuses for their content, and what
// /explain would send has the same members as what /auth sends. THREEDS_EXPLAIN_BODIES=100000 makes that many.
func TestE3AuthAndExplainAgree(t *testing.T) {
	t.Parallel()
	bodies, err := strconv.Atoi(cmp.Or(os.Getenv("THREEDS_EXPLAIN_BODIES"), "2000"))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(31, 3))
	w := authtest.NewWorld()
	var sent []byte
	w.Sent = func(areq []byte) { sent = areq }
	older := *w.Hits[1].Info
	older.DSVersions = []string{"2.2.0"}
	w.Hits[1].Info = &older
	e := w.NewEngine(0)
	verdicts := map[bool]int{}
	for n := range bodies {
		acc := explainable[random.IntN(len(explainable))]
		body := randomBody(random, e, acc)
		x := e.Explain(acc, slices.Clone(body), check.ExplainOptions{})
		before := len(w.Txns)
		_, _, err := e.Authenticate(t.Context(), acc, slices.Clone(body))
		bad, isErro := errors.AsType[message.Error](err)
		if err != nil && !isErro {
			t.Fatalf("body %d: %v", n, err)
		}
		if isErro && (bad.Code == message.UnknownTransaction || bad.Code == message.BadTransactionData) {
			continue // the state of an id, and what the store has of it, do not count
		}
		if isErro && bad.MessageType != "AReq" {
			err = nil // the answer of the directory is refused, which is as simple as can be here
		}
		if x.IsValid != (err == nil) {
			t.Fatalf("body %d: /auth says %v, /explain has %+v: %s", n, authtest.Told(err), x.Faults, body)
		}
		verdicts[x.IsValid]++
		if err != nil {
			if !slices.ContainsFunc(x.Faults, func(f api.Fault) bool { return f.Code == bad.Code.String() }) {
				t.Fatalf("body %d: /auth says %s, /explain has %+v", n, authtest.Told(err), x.Faults)
			}
			continue
		}
		if len(w.Txns) != before+1 {
			t.Fatalf("body %d: %d rows after %d", n, len(w.Txns), before)
		}
		would, did := authtest.Parse(t, x.AReq), authtest.Parse(t, sent)
		if !slices.Equal(slices.Sorted(maps.Keys(would)), slices.Sorted(maps.Keys(did))) {
			t.Fatalf("body %d: would send %s, sent %s", n, x.AReq, sent)
		}
		pan := did.Text("acctNumber")
		if strings.Contains(string(x.AReq), pan) || would.Text("acctNumber")[12:] != pan[12:] {
			t.Fatalf("body %d: the card is %q", n, would.Text("acctNumber"))
		}
	}
	if verdicts[true] < bodies/10 || verdicts[false] < bodies/10 {
		t.Errorf("%v of %d: this shows little", verdicts, bodies)
	}
}

// randomBody returns a body for /auth with an id of the caller, often with a fault.
func randomBody(random *rand.Rand, e *session.Engine, acc *account.Account) []byte {
	v, ch := message.Versions()[random.IntN(3)], message.Channels()[random.IntN(3)]
	cat := message.Categories()[random.IntN(2)]
	var o authtest.Object
	if err := json.Unmarshal(messagetest.Sample(random, message.AReq, v, ch, cat, random.IntN(3) == 0), &o); err != nil {
		panic(err)
	}
	o["acctNumber"] = authtest.PAN
	for _, name := range []string{"threeDSServerURL", "threeDSServerRefNumber", "threeDSServerOperatorID"} {
		delete(o, name)
	}
	of := transid.Scheme(1 + random.IntN(2))
	o["threeDSServerTransID"] = e.IDs.New(e.Now(), e.Timeouts.Preauth, e.Rand, of, acc.Merchant.Name, authtest.PAN)
	names := slices.Sorted(maps.Keys(o))
	for range random.IntN(4) {
		name := names[random.IntN(len(names))]
		switch random.IntN(4) {
		case 0:
			delete(o, name)
		case 1:
			o[strings.ToUpper(name)] = o[name]
			delete(o, name)
		case 2:
			o[name] = o[names[random.IntN(len(names))]]
		default:
			o[name] = strangeValues[random.IntN(len(strangeValues))]
		}
	}
	body := o.JSON()
	if random.IntN(50) == 0 {
		body = body[:random.IntN(len(body))]
	}
	return body
}

var strangeValues = []any{
	"", nil, " ", "x", "é", "A\nB", "01", "80", "DK", "978", 1, 1.5, true, []any{}, []any{"01", "01"}, authtest.Object{}, authtest.Object{"a": nil},
	strings.Repeat("9", 300), "http://localhost/", "2.2.0", "2.4.0", "\u202e",
}

// TestD23ExplainShowsRules: each kind of fault has its rule, and what would be right.
func TestD23ExplainShowsRules(t *testing.T) {
	t.Parallel()
	e := authtest.NewWorld().NewEngine(0)
	for name, test := range map[string]struct {
		member, rule string
		value        any
		limit        string
	}{
		"length":            {"merchantName", "length", strings.Repeat("x", 41), `{"min":1,"max":40}`},
		"type":              {"browserJavaEnabled", "type", []any{1}, "null"},
		"required":          {"acctNumber", "required", nil, "null"},
		"unknown code":      {"addrMatch", "unknown-code", "X", `{"allowed":["Y","N"]}`},
		"excluded currency": {"purchaseCurrency", "excluded-code", "999", "null"},
		"excluded country":  {"merchantCountryCode", "excluded-code", "964", "null"},
		"unknown currency":  {"purchaseCurrency", "unknown-code", "123", "null"},
		"unknown letters":   {"merchantCountryCode", "unknown-code", "QQ", "null"},
		"reserved code":     {"threeDSRequestorAuthenticationInd", "reserved-code", "50", `{"allowed":["01","02","03","04","05","06"]}`},
		"pattern":           {"mcc", "pattern", "54x1", `{"pattern":"^[0-9]+$"}`},
		"not ASCII":         {"merchantName", "not-ascii", "Bäcker", "null"},
		"control character": {"merchantName", "control-character", "A\u0007", "null"},
		"address":           {"notificationURL", "address", "nowhere", "null"},
		"version":           {"messageVersion", "version", "2.4.0", `{"allowed":["2.1.0","2.2.0","2.3.1"]}`},
	} {
		body := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
		body[test.member] = test.value
		x := e.Explain(authtest.Shop, body.JSON(), check.ExplainOptions{})
		i := slices.IndexFunc(x.Faults, func(f api.Fault) bool { return *f.Pointer == "/"+test.member })
		if x.IsValid || x.AReq != nil || i < 0 {
			t.Errorf("%s: %+v", name, x)
			continue
		}
		limit, err := json.Marshal(x.Faults[i].Limit)
		if got := x.Faults[i]; err != nil || got.Rule != test.rule || string(limit) != test.limit || got.Cure == "" {
			t.Errorf("%s: rule %s, limit %s, cure %q", name, got.Rule, limit, got.Cure)
		}
	}
}

// TestD12CureNamesTheProfile: what a merchant can set once is not to be sent with each request. For
// /auth there is no profile.
func TestD12CureNamesTheProfile(t *testing.T) {
	t.Parallel()
	e := authtest.NewWorld().NewEngine(0)
	for member, key := range map[string]string{
		"acquirerBIN": "per_directory.SCHEME.acquirer_bin", "acquirerMerchantID": "per_directory.SCHEME.acquirer_merchant_id", "mcc": "set mcc ",
		"merchantName": "merchant_name", "merchantCountryCode": "merchant_country",
	} {
		body := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
		delete(body, member)
		for _, isCreation := range []bool{true, false} {
			x := e.Explain(authtest.Shop, body.JSON(), check.ExplainOptions{IsCreation: isCreation})
			i := slices.IndexFunc(x.Faults, func(f api.Fault) bool { return *f.Pointer == "/"+member })
			if i < 0 || strings.Contains(x.Faults[i].Cure, key) != isCreation || !strings.HasPrefix(x.Faults[i].Cure, "Send "+member) {
				t.Errorf("%s, isCreation %v: %+v", member, isCreation, x.Faults)
			}
		}
	}
}

// TestD12SchemeRequiredHasItsSource: the answer marks what only the scheme requires, and names the source.
func TestD12SchemeRequiredHasItsSource(t *testing.T) {
	t.Parallel()
	e := authtest.NewWorld().NewEngine(0)
	acc := explainable[2]
	body := authtest.AReq("2.2.0", authtest.Preauth(t, e, acc)).JSON()
	x := e.Explain(acc, body, check.ExplainOptions{})
	if x.IsValid || len(x.Faults) == 0 {
		t.Fatalf("%+v", x)
	}
	for _, f := range x.Faults {
		if f.Rule != "scheme-required" || f.Source == "" || !strings.Contains(f.Cure, (*f.Pointer)[1:]) {
			t.Errorf("%s: %+v", *f.Pointer, f)
		}
	}
}

// TestD23AsOfAndScheme: a rule counts from its date, and a scheme that is named goes before that of the card.
func TestD23AsOfAndScheme(t *testing.T) {
	t.Parallel()
	e := authtest.NewWorld().NewEngine(0)
	body := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop)).JSON()
	for _, test := range []struct {
		asOf    string
		inForce bool
	}{{"2020-01-01", false}, {"2026-01-01", true}} {
		at, err := time.Parse(time.DateOnly, test.asOf)
		if err != nil {
			t.Fatal(err)
		}
		x := e.Explain(authtest.Shop, slices.Clone(body), check.ExplainOptions{AsOf: at})
		dated := 0
		for _, f := range x.Findings {
			if f.Since.String() != "" {
				dated++
				if f.InForce != test.inForce && f.Since.String() < "2026" {
					t.Errorf("%s: %s since %s, in force %t", test.asOf, f.Element, f.Since, f.InForce)
				}
			}
		}
		if dated == 0 || x.Scheme != "visa" {
			t.Errorf("%s: %d findings with a date, scheme %q", test.asOf, dated, x.Scheme)
		}
	}
	for _, word := range []string{"mastercard", "amex"} {
		x := e.Explain(authtest.Shop, slices.Clone(body), check.ExplainOptions{Scheme: word})
		if x.Scheme != word || !x.IsValid || (len(x.Warnings) > 0) != (word == "amex") {
			t.Errorf("%s: %+v", word, x)
		}
	}
}

// TestE2ExplainChangesNothing: nothing is stored, and the id can still be used.
func TestE2ExplainChangesNothing(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	body := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop)).JSON()
	for range 2 {
		if x := e.Explain(authtest.Shop, slices.Clone(body), check.ExplainOptions{}); !x.IsValid {
			t.Fatalf("%+v", x.Faults)
		}
	}
	if len(w.Txns) != 0 || len(w.Sends) != 0 {
		t.Fatalf("%d rows, %d sent", len(w.Txns), len(w.Sends))
	}
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, body); err != nil {
		t.Fatal(err)
	}
	if x := e.Explain(authtest.Shop, body, check.ExplainOptions{}); !x.IsValid {
		t.Fatalf("an id that has been used counts: %+v", x.Faults)
	}
}

// TestE1LookupOfEachScheme: a card has the schemes whose ranges hold it, in order; without one it has none.
func TestE1LookupOfEachScheme(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	loaded := w.Clock().Add(-time.Hour)
	w.Hits[0].Generation = &ranges.Generation{Loaded: loaded}
	e := w.NewEngine(0)
	found, wrong := e.Lookup(t.Context(), authtest.Shop, authtest.Object{"acctNumber": authtest.PAN}.JSON())
	if wrong != nil || found.Last4 != authtest.PAN[12:] || len(found.Schemes) != 2 || found.Schemes[0].Scheme != "visa" ||
		found.Schemes[1].Scheme != "mastercard" {
		t.Fatalf("%+v %v", found, wrong)
	}
	held := found.Schemes
	if !held[0].KnownSince.Equal(loaded) || !held[1].KnownSince.IsZero() || *held[0].Recommended != message.V231 ||
		len(held[0].Requires) == 0 {
		t.Errorf("%+v", held[0])
	}
	if found, wrong = e.Lookup(t.Context(), authtest.Shop, []byte(`{"acctNumber":"5000000000000009"}`)); wrong != nil || found.Last4 != "0009" ||
		found.Schemes != nil {
		t.Errorf("no range: %+v %v", found, wrong)
	}
	if len(w.Sends) != 0 {
		t.Error("something was sent")
	}
}

// TestE3CardWithoutRange: /explain says of a card without a range what /auth says.
func TestE3CardWithoutRange(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	const other = "5000000000000009"
	body := authtest.AReq("2.2.0", e.IDs.New(e.Now(), e.Timeouts.Preauth, e.Rand, 1, authtest.Shop.Merchant.Name, other))
	body["acctNumber"] = other
	x := e.Explain(authtest.Shop, body.JSON(), check.ExplainOptions{})
	if len(x.Faults) != 1 || x.Faults[0].Code != message.BadTransactionData.String() ||
		*x.Faults[0].Pointer != "/acctNumber" || x.AReq != nil {
		t.Errorf("%+v", x)
	}
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, body.JSON()); authtest.Told(err) != "305 acctNumber" {
		t.Error(authtest.Told(err))
	}
	w.Tried = false
	if x := e.Explain(authtest.Shop, body.JSON(), check.ExplainOptions{}); !x.IsValid || len(x.Warnings) != 1 {
		t.Errorf("before card ranges are loaded: %+v", x)
	}
}

// TestCase25ACureThatWasFollowedHelps: a cure names the setting transliterate only for the elements that this setting
// changes, and only where the merchant does not use it. With the setting the request is no longer refused.
func TestCase25ACureThatWasFollowedHelps(t *testing.T) {
	t.Parallel()
	e := authtest.NewWorld().NewEngine(0)
	setting := *authtest.Shop.Merchant
	setting.Transliterate = true
	strict, with := &account.Account{Merchant: authtest.Shop.Merchant, Strict: true}, &account.Account{Merchant: &setting}
	for member, tt := range map[string]struct {
		value   string
		isCured bool
	}{
		"cardholderName": {"Jürgen Groß", true}, "billAddrLine1": {"Königsallee 1", true}, "shipAddrCity": {"Århus", true}, "merchantName": {"Bäcker", true},
		"threeDSRequestorURL": {"https://shop.example/ä", false}, "acctID": {"ä1", false}, "email": {"jürgen@example.com", false},
	} {
		cureOf := func(acc *account.Account) string {
			body := authtest.AReq("2.2.0", authtest.Preauth(t, e, acc))
			body[member] = tt.value
			for _, f := range e.Explain(acc, body.JSON(), check.ExplainOptions{}).Faults {
				if *f.Pointer == "/"+member {
					return f.Cure
				}
			}
			return ""
		}
		const withSetting, without = "Send ASCII, or have the merchant configured with transliterate.", "Send ASCII."
		want := without
		if tt.isCured {
			want = withSetting
		}
		if got := cureOf(authtest.Shop); got != want {
			t.Errorf("%s: the cure is %q, want %q", member, got, want)
		}
		if got := cureOf(strict); got != without {
			t.Errorf("%s, strict key: the cure is %q, want %q", member, got, without)
		}
		if got := cureOf(with); tt.isCured && got != "" || !tt.isCured && got != without {
			t.Errorf("%s, with transliterate: the cure is %q", member, got)
		}
	}
}

// TestD12CureOfATextInPlaceOfAnObject: the cure names the members of the object. Its example is
// what the element may be.
func TestD12CureOfATextInPlaceOfAnObject(t *testing.T) {
	t.Parallel()
	e := authtest.NewWorld().NewEngine(0)
	cureOf := func(version, element string, value any) string {
		body := authtest.AReq(version, authtest.Preauth(t, e, authtest.Shop))
		body[element] = value
		for _, f := range e.Explain(authtest.Shop, body.JSON(), check.ExplainOptions{}).Faults {
			if strings.HasPrefix(*f.Pointer, "/"+element) {
				return f.Cure
			}
		}
		return ""
	}
	want := `Send mobilePhone as an object with cc and subscriber, such as {"cc": "45", "subscriber": "12345678"}.`
	if got := cureOf("2.2.0", "mobilePhone", "+45 12345678"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	tried := 0
	for _, v := range message.Versions() {
		for _, f := range message.TableOf(message.AReq, v).Fields {
			if f.Of == nil || f.Need.At(message.BRW, message.PA) == '-' || f.Leg == message.DSToACS || f.DS {
				continue
			}
			cure := cureOf(v.String(), f.Name, "a text")
			for _, m := range f.Of.Fields {
				if strings.Contains(cure, m.Name) == m.DS {
					t.Errorf("%s %s: %s: %q", v, f.Name, m.Name, cure)
				}
			}
			_, example, hasExample := strings.Cut(strings.TrimSuffix(cure, "."), ", such as ")
			if !hasExample {
				continue
			}
			tried++
			var value any
			if err := json.Unmarshal([]byte(example), &value); err != nil {
				t.Errorf("%s %s: %q: %v", v, f.Name, cure, err)
			} else if cure := cureOf(v.String(), f.Name, value); cure != "" {
				t.Errorf("%s %s: %s: %q", v, f.Name, example, cure)
			}
		}
	}
	if tried < 20 {
		t.Errorf("%d examples were tried", tried)
	}
}

// TestD12CureOfAState: it says what the three characters are.
func TestD12CureOfAState(t *testing.T) {
	t.Parallel()
	e := authtest.NewWorld().NewEngine(0)
	for _, element := range []string{"billAddrState", "shipAddrState"} {
		body := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
		body["billAddrCountry"], body["shipAddrCountry"], body[element] = "840", "840", "California"
		x := e.Explain(authtest.Shop, body.JSON(), check.ExplainOptions{})
		want := "Send 1 to 3 characters: the code of the subdivision in ISO 3166-2, without its country, such as CA for California."
		if len(x.Faults) != 1 || x.Faults[0].Cure != want {
			t.Errorf("%s: %+v, want %s", element, x.Faults, want)
		}
	}
}

// TestE3WhatIsWrongIsNotCopied: an element that the server would take from another one is not taken from a wrong one.
// The wrong one is the only fault.
func TestE3WhatIsWrongIsNotCopied(t *testing.T) {
	t.Parallel()
	e := authtest.NewWorld().NewEngine(0)
	for _, country := range []string{"UK", "000", "England"} {
		body := authtest.AReq("2.3.1", authtest.Preauth(t, e, authtest.Shop))
		delete(body, "acquirerCountryCode")
		body["merchantCountryCode"] = country
		x := e.Explain(authtest.Shop, body.JSON(), check.ExplainOptions{})
		if len(x.Faults) != 1 || *x.Faults[0].Pointer != "/merchantCountryCode" {
			t.Errorf("%s: %+v", country, x.Faults)
		}
		for _, c := range x.Normalised {
			if c.Pointer == "/acquirerCountryCode" {
				t.Errorf("%s: %s, sent %s", country, c.Rule, c.Sent)
			}
		}
	}
	body := authtest.AReq("2.3.1", authtest.Preauth(t, e, authtest.Shop))
	delete(body, "acceptLanguage")
	body["browserLanguage"] = "x y,en-GB"
	x := e.Explain(authtest.Shop, body.JSON(), check.ExplainOptions{})
	if sent := authtest.Parse(t, x.AReq)["acceptLanguage"]; !x.IsValid || fmt.Sprint(sent) != "[en-GB]" {
		t.Errorf("acceptLanguage %v, %+v", sent, x.Faults)
	}
	body = authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
	body["mobilePhone"] = authtest.Object{"cc": "+12345", "subscriber": "12345678"}
	x = e.Explain(authtest.Shop, body.JSON(), check.ExplainOptions{})
	isThere := func(c api.Correction) bool { return c.Pointer == "/mobilePhone/cc" }
	if i := slices.IndexFunc(x.Normalised, isThere); i < 0 || x.Normalised[i].Found == nil || x.Normalised[i].Sent != nil {
		t.Errorf("what is changed and wrong all the same: %+v", x.Normalised)
	}
}

package check_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// A textCase is a member of a request, and what a directory server gets in its place.
type textCase struct {
	version, name string
	sent          any
	want          any    // what the directory server gets; nil means nothing
	refused       string // the code and names of the Erro, if there is one
	strict        string // the code and names of the Erro for a strict key; "" means that it is taken
}

// runTextCases sends each request with an ordinary and a strict key.
func runTextCases(t *testing.T, merchant *account.Merchant, cases []textCase, beside authtest.Object) {
	t.Helper()
	for _, test := range cases {
		for _, isStrict := range []bool{false, true} {
			w := authtest.NewWorld()
			e := w.NewEngine(0)
			acc := &account.Account{Merchant: merchant, Strict: isStrict}
			id := authtest.Preauth(t, e, acc)
			req := authtest.AReq(test.version, id)
			if test.version == "2.3.1" {
				req = authtest.AReq231(id, authtest.Object{"acquirerCountryCodeSource": "01"})
			}
			for name, value := range beside {
				req[name] = value
			}
			req[test.name] = test.sent
			var left authtest.Object
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				left = areq
				return authtest.ARes(areq, "Y"), nil
			}
			_, notes, err := e.Authenticate(t.Context(), acc, req.JSON())
			want := test.refused
			if isStrict {
				want = test.strict
			}
			if err != nil && authtest.Told(err) != want || err == nil && want != "" {
				t.Errorf("%s %s %v, strict %t: %v, want %q", test.version, test.name, test.sent, isStrict, err, want)
			}
			if isStrict {
				if len(notes.Normalised) > 0 {
					t.Errorf("%s %s %v: a strict key has %v changed", test.version, test.name, test.sent, notes.Normalised)
				}
				continue
			}
			if want != "" {
				continue
			}
			if string(authtest.Object{"v": left[test.name]}.JSON()) != string(authtest.Object{"v": test.want}.JSON()) {
				t.Errorf("%s %s %v left as %v, want %v", test.version, test.name, test.sent, left[test.name], test.want)
			}
			isChanged := string(authtest.Object{"v": test.sent}.JSON()) != string(authtest.Object{"v": test.want}.JSON())
			if slices.Contains(notes.Normalised, test.name) != isChanged {
				t.Errorf("%s %s %v: X-Normalised has %v", test.version, test.name, test.sent, notes.Normalised)
			}
		}
	}
}

// forVersions returns the cases of a table for each of some versions.
func forVersions(versions string, cases ...textCase) []textCase {
	var all []textCase
	for version := range strings.FieldsSeq(versions) {
		for _, c := range cases {
			c.version = version
			all = append(all, c)
		}
	}
	return all
}

const beforeV231, everyVersion = "2.1.0 2.2.0", "2.1.0 2.2.0 2.3.1"

func TestCase01LineBreakInAddress(t *testing.T) {
	runTextCases(t, authtest.Shop.Merchant, forVersions(everyVersion,
		textCase{name: "billAddrLine1", sent: "1 Road\nFlat 2", want: "1 Road Flat 2", strict: "203 billAddrLine1"},
		textCase{name: "billAddrLine1", sent: "1 Road\r\nFlat 2", want: "1 Road Flat 2", strict: "203 billAddrLine1"},
		textCase{name: "shipAddrLine2", sent: "1 Road\tFlat 2", want: "1 Road Flat 2", strict: "203 shipAddrLine2"},
		textCase{name: "cardholderName", sent: "Jane\nDoe", want: "Jane Doe", strict: "203 cardholderName"},
		textCase{name: "merchantName", sent: "Shop\rA/S", want: "Shop A/S", strict: "203 merchantName"},
		textCase{name: "billAddrPostCode", sent: "12\n34", refused: "203 billAddrPostCode", strict: "203 billAddrPostCode"},
		textCase{name: "acctID", sent: "a\tb", refused: "203 acctID", strict: "203 acctID"},
		textCase{name: "cardholderName", sent: "Jane\x00Doe", refused: "203 cardholderName", strict: "203 cardholderName"},
		textCase{name: "cardholderName", sent: "Jane\x1b[2J", refused: "203 cardholderName", strict: "203 cardholderName"},
		textCase{name: "billAddrLine1", sent: "1 Road\u0085", refused: "203 billAddrLine1", strict: "203 billAddrLine1"},
		textCase{name: "cardholderName", sent: "Jane\u202eDoe", refused: "203 cardholderName", strict: "203 cardholderName"},
	), nil)
}

func TestCase03IPv6ShortForm(t *testing.T) {
	runTextCases(t, authtest.Shop.Merchant, slices.Concat(
		forVersions(beforeV231,
			textCase{name: "browserIP", sent: "2001:db8::1", want: "2001:0db8:0000:0000:0000:0000:0000:0001"},
			textCase{name: "browserIP", sent: "2001:DB8::A:1", want: "2001:0db8:0000:0000:0000:0000:000a:0001"},
			textCase{name: "browserIP", sent: "::1", want: "0000:0000:0000:0000:0000:0000:0000:0001"},
			textCase{name: "browserIP", sent: "::ffff:192.0.2.7", want: "192.0.2.7"}),
		forVersions("2.3.1",
			textCase{name: "browserIP", sent: "2001:db8::1", want: "2001:db8::1"},
			textCase{name: "browserIP", sent: "::ffff:192.0.2.7", want: "::ffff:192.0.2.7"}),
		forVersions(everyVersion,
			textCase{name: "browserIP", sent: "192.0.2.7", want: "192.0.2.7"},
			textCase{name: "browserIP", sent: "fe80::1%eth0", refused: "203 browserIP", strict: "203 browserIP"})), nil)
}

func TestCase13ArrayOfOneBefore231(t *testing.T) {
	const challenge, info, prior, risk = "threeDSRequestorChallengeInd", "threeDSRequestorAuthenticationInfo",
		"threeDSRequestorPriorAuthenticationInfo", "merchantRiskIndicator"
	login, earlier := authtest.Object{"threeDSReqAuthMethod": "02"}, authtest.Object{"threeDSReqPriorAuthMethod": "01"}
	runTextCases(t, authtest.Shop.Merchant, slices.Concat(
		forVersions(beforeV231,
			textCase{name: challenge, sent: []string{"01"}, want: "01", strict: "203 " + challenge},
			textCase{name: info, sent: []authtest.Object{login}, want: login, strict: "203 " + info},
			textCase{name: prior, sent: []authtest.Object{earlier}, want: earlier, strict: "203 " + prior},
			textCase{name: risk, sent: []authtest.Object{{"shipIndicator": "01"}}, want: authtest.Object{"shipIndicator": "01"}, strict: "203 " + risk},
			textCase{name: challenge, sent: []string{"01", "02"}, refused: "203 " + challenge, strict: "203 " + challenge},
			textCase{name: info, sent: []authtest.Object{login, login}, refused: "203 " + info, strict: "203 " + info},
			textCase{name: "acquirerBIN", sent: []string{"400000"}, refused: "203 acquirerBIN", strict: "203 acquirerBIN"}),
		forVersions("2.3.1",
			textCase{name: challenge, sent: []string{"01"}, want: []string{"01"}},
			textCase{name: challenge, sent: "01", want: []string{"01"}, strict: "203 " + challenge})), nil)
}

func TestCase16PayTokenIndFalse(t *testing.T) {
	runTextCases(t, authtest.Shop.Merchant, slices.Concat(
		forVersions(everyVersion,
			textCase{name: "payTokenInd", sent: false, strict: "203 payTokenInd"},
			textCase{name: "payTokenInd", sent: "false", strict: "203 payTokenInd"},
			textCase{name: "payTokenInd", sent: true, want: true},
			textCase{name: "payTokenInd", sent: "true", want: true, strict: "203 payTokenInd"},
			textCase{name: "payTokenInd", sent: "no", refused: "203 payTokenInd", strict: "203 payTokenInd"},
			textCase{name: "browserJavaEnabled", sent: "false", want: false, strict: "203 browserJavaEnabled"},
			textCase{name: "addrMatch", sent: false, want: "N", strict: "203 addrMatch"},
			textCase{name: "addrMatch", sent: "false", refused: "203 addrMatch", strict: "203 addrMatch"}),
		forVersions("2.2.0", textCase{name: "threeDSRequestorDecReqInd", sent: false, want: "N", strict: "203 threeDSRequestorDecReqInd"})), nil)
}

// TestR9cTransliterateIsOfTheMerchant: texts are written in ASCII only for merchants that ask for it, and not for their
// strict keys.
func TestR9cTransliterateIsOfTheMerchant(t *testing.T) {
	asking := &account.Merchant{Name: authtest.Shop.Merchant.Name, Transliterate: true}
	runTextCases(t, asking, slices.Concat(
		forVersions(beforeV231,
			textCase{name: "cardholderName", sent: "Jørgen Müller", want: "Jorgen Mueller", strict: "203 cardholderName"},
			textCase{name: "cardholderName", sent: "李小龍", strict: "203 cardholderName"},
			textCase{name: "merchantName", sent: "李小龍", refused: "203 merchantName", strict: "203 merchantName"},
			textCase{name: "merchantName", sent: "Café\n", want: "Cafe ", strict: "203 merchantName"}),
		forVersions("2.3.1", textCase{name: "cardholderName", sent: "Jørgen Müller", want: "Jørgen Müller"})), authtest.Object{"billAddrCountry": "276"})
	runTextCases(t, authtest.Shop.Merchant, forVersions(beforeV231,
		textCase{name: "cardholderName", sent: "Jørgen", refused: "203 cardholderName", strict: "203 cardholderName"}), nil)
}

// TestA1VersionMayBeAbsent: without messageVersion the highest version is taken that the range, the
// directory and the server share; a strict key is refused.
func TestA1VersionMayBeAbsent(t *testing.T) {
	for _, test := range []struct {
		acs, ds []string
		want    string // the version that leaves, or the code and names of the Erro
	}{
		{[]string{"2.1.0", "2.2.0", "2.3.1"}, []string{"2.1.0", "2.2.0", "2.3.1"}, "2.3.1"},
		{[]string{"2.1.0", "2.2.0"}, []string{"2.1.0", "2.2.0", "2.3.1"}, "2.2.0"},
		{[]string{"2.1.0", "2.3.1"}, []string{"2.1.0", "2.2.0"}, "2.1.0"},
		{[]string{"2.1.0", "2.2.0", "2.3.1", "2.4.0"}, []string{"2.2.0"}, "2.2.0"},
		{[]string{"2.1.0"}, []string{"2.2.0"}, "102 no version is common to ACS, DS and 3DS Server"},
	} {
		for _, absent := range []any{nil, ""} {
			w := authtest.NewWorld()
			info := &ranges.Info{DSVersions: test.ds}
			for _, v := range test.acs {
				info.ACS = append(info.ACS, ranges.ACSVersion{Version: v})
			}
			w.Hits[0].Info = info
			e := w.NewEngine(0)
			req := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
			req["messageVersion"] = absent
			left := ""
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				left = areq.Text("messageVersion")
				return authtest.ARes(areq, "Y"), nil
			}
			_, notes, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON())
			if err != nil {
				left = authtest.Told(err)
			}
			if left != test.want || !slices.Contains(notes.Normalised, "messageVersion") {
				t.Errorf("ACS %v, DS %v: %q, want %q; X-Normalised has %v", test.acs, test.ds, left, test.want, notes.Normalised)
			}
			strict := &account.Account{Merchant: authtest.Shop.Merchant, Strict: true}
			req["threeDSServerTransID"] = authtest.Preauth(t, e, strict)
			if _, _, err := e.Authenticate(t.Context(), strict, req.JSON()); err == nil || authtest.Told(err) != "201 messageVersion" {
				t.Errorf("strict: %v", err)
			}
		}
	}
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	req := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
	delete(req, "messageVersion")
	req["mcc"] = "x"
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err == nil || authtest.Told(err) != "203 mcc" {
		t.Errorf("another fault: %v", err)
	}
	w.Hits = nil
	req["mcc"] = "5411"
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err == nil || authtest.Told(err) != "305 acctNumber" {
		t.Errorf("a card in no range: %v", err)
	}
}

// TestStrictChecksExponent: a currency with an exponent that is not its own is refused for a strict
// key, before anything leaves; otherwise it is for the directory server to judge.
func TestStrictChecksExponent(t *testing.T) {
	strict := &account.Account{Merchant: authtest.Shop.Merchant, Strict: true}
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, tt := range []struct{ currency, exponent, want string }{
			{"978", "2", ""},
			{"392", "0", ""},
			{"414", "3", ""},
			{"392", "2", "304 purchaseCurrency,purchaseExponent"},
			{"978", "3", "304 purchaseCurrency,purchaseExponent"},
			{"414", "2", "304 purchaseCurrency,purchaseExponent"},
			{"994", "2", ""}, // has none
			{"999", "2", "304 purchaseCurrency"},
		} {
			for _, acc := range []*account.Account{authtest.Shop, strict} {
				w := authtest.NewWorld()
				e := w.NewEngine(0)
				id := authtest.Preauth(t, e, acc)
				req := authtest.AReq(version, id)
				if version == "2.3.1" {
					req = authtest.AReq231(id, authtest.Object{"acquirerCountryCodeSource": "01"})
				}
				req["purchaseCurrency"], req["purchaseExponent"] = tt.currency, tt.exponent
				w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
					if areq["purchaseCurrency"] != tt.currency || areq["purchaseExponent"] != tt.exponent {
						t.Errorf("left as %v %v", areq["purchaseCurrency"], areq["purchaseExponent"])
					}
					return authtest.ARes(areq, "Y"), nil
				}
				want := tt.want
				if !acc.Strict && tt.currency != "999" {
					want = ""
				}
				_, _, err := e.Authenticate(t.Context(), acc, req.JSON())
				got := ""
				if err != nil {
					got = authtest.Told(err)
				}
				if left := w.Sends[id]; got != want || (left == 0) != (want != "") {
					t.Errorf("%s, %s with %s, strict %t: %q, %d left; want %q", version, tt.currency, tt.exponent, acc.Strict, got, left, want)
				}
			}
		}
	}
}

// TestThreeRIPaymentIn210: 3RI is for payments from 2.2.0 on; before, such a request
// is refused and no AReq leaves (RI-02).
func TestThreeRIPaymentIn210(t *testing.T) {
	for _, tt := range []struct{ version, category, code string }{
		{"2.1.0", "01", "203"}, {"2.1.0", "02", ""}, {"2.2.0", "01", ""}, {"2.3.1", "01", ""},
	} {
		w := authtest.NewWorld()
		w.Hits = append([]ranges.Hit{{Scheme: "amex", Info: authtest.AllVersions("")}}, w.Hits...)
		e := w.NewEngine(0)
		if crd, _, err := e.Preauth(context.Background(), authtest.Shop,
			authtest.Object{"acctNumber": authtest.PAN}.JSON()); err != nil || authtest.Parse(t, crd).Text("scheme") != "visa" {
			t.Errorf("the CRD is %s, %v; want that of the first configured that holds the card", crd, err)
		}
		req := authtest.AReq(tt.version, "")
		for name := range req {
			if strings.HasPrefix(name, "browser") {
				delete(req, name)
			}
		}
		for _, name := range []string{"threeDSServerTransID", "notificationURL", "threeDSCompInd", "threeDSRequestorAuthenticationInd"} {
			delete(req, name)
		}
		req["deviceChannel"], req["messageCategory"], req["threeRIInd"] = "03", tt.category, "03"
		req["acquirerCountryCode"] = "208"
		w.Reply = func(scheme string, areq authtest.Object) ([]byte, error) {
			if scheme != "visa" {
				t.Errorf("%s: without an id the AReq goes to %s, want the first configured that holds the card", tt.version, scheme)
			}
			return authtest.ARes(areq, "Y"), nil
		}
		_, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON())
		if authtest.CodeOf(err) != tt.code {
			t.Errorf("%s, category %s: %v, want %q", tt.version, tt.category, err, tt.code)
		}
		if bad, ok := errors.AsType[message.Error](err); ok && bad.Detail != "messageCategory" {
			t.Errorf("errorDetail %q, want messageCategory", bad.Detail)
		}
		if left := len(w.Sends) > 0; left != (tt.code == "") {
			t.Errorf("%s, category %s: an AReq left: %t", tt.version, tt.category, left)
		}
	}
}

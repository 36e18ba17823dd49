package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/protocol/v1/v1test"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestM1WrongKeyIs401(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t)
	refused := func(t *testing.T, code int, header http.Header) {
		t.Helper()
		if code != 401 || !strings.HasPrefix(header.Get("WWW-Authenticate"), "Basic") {
			t.Errorf("%d %v, want 401 and Basic", code, header)
		}
	}
	for _, path := range []string{"/enrolled", "/check"} {
		for name, key := range map[string]string{
			"none": "", "wrong": "5a5a5a5a-0000-4000-8000-000000000003", "garbage": "%00' or 1=1", "almost": s.APIKey[:35], "long": strings.Repeat("a", 8000),
		} {
			for _, method := range []string{"POST", "GET", "DELETE"} {
				t.Run(name+" "+method+path, func(t *testing.T) {
					res, body := s.In(t).Basic(method, path, key, "", rig.Purchase(rig.V1Visa).Encode())
					refused(t, res.StatusCode, res.Header)
					rig.WantFault(t, res.StatusCode, rig.ParseObject(t, body), 401, "", "unauthorized")
				})
			}
		}
		t.Run("key in the other way"+path, func(t *testing.T) {
			res, _ := s.In(t).Call(http.MethodPost, path, s.APIKey, rig.Object{})
			refused(t, res.StatusCode, res.Header)
		})
		t.Run("before the body"+path, func(t *testing.T) { // which never comes
			code, _ := raw(s.Site.World, t, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", (*net.TCPConn).CloseWrite)
			if code != 401 {
				t.Errorf("%d, want 401", code)
			}
		})
		t.Run("before its size"+path, func(t *testing.T) {
			res, _ := s.In(t).Basic(http.MethodPost, path, "wrong", "", strings.Repeat("a", 100<<10))
			refused(t, res.StatusCode, res.Header)
		})
		t.Run("the other way's key is no way around"+path, func(t *testing.T) {
			res, _ := s.In(t).Basic(http.MethodPost, "/preauth", s.APIKey, "application/json", `{"acctNumber":"`+rig.EnrolledPAN+`"}`)
			if res.StatusCode != 401 {
				t.Errorf("/preauth with HTTP Basic: %d", res.StatusCode)
			}
		})
	}
	t.Run("revoked", func(t *testing.T) {
		s := s.In(t)
		key := s.CreateKey("Shop")
		if code, _ := s.Send("/check", key, "", "pares=x"); code != 400 {
			t.Fatalf("a fresh key: %d", code)
		}
		s.RevokeKey(key)
		waittest.Until(t, "the key to stop", func() bool {
			res, _ := s.Basic(http.MethodPost, "/check", key, "", "")
			return res.StatusCode == 401
		})
	})
}

func TestM2FormsAndJSON(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t)
	form := rig.Purchase(rig.V1Visa)
	structured := `{"amount": 21601, "currency": "DKK", "order_id": "1234567890", "cardholder_ip": null, "unknown": {"deep": [{"x": 1}]},
		"card": {"number": "` + rig.V1Visa + `", "expire_month": "07", "expire_year": "2031", "unknown": [1]},
		"merchant": {"id": "M-1001", "name": "Corner Shop", "acquirer_bin": "400551", "country": "DK", "url": "https://shop.example/?a&b"}}`
	for _, tt := range []struct{ name, kind, body string }{
		{"form", "application/x-www-form-urlencoded", form.Encode()},
		{"form with a charset", "application/x-www-form-urlencoded; charset=UTF-8", form.Encode()},
		{"form without a type", "", form.Encode()},
		{"form with bare brackets", "application/x-www-form-urlencoded", strings.NewReplacer("%5B", "[", "%5D", "]").Replace(form.Encode())},
		{"JSON", "application/json", structured},
		{"JSON with a charset", "application/json; charset=utf-8", structured},
		{"JSON as a form", "application/x-www-form-urlencoded", "\n" + structured},
		{"JSON with flat names", "application/json", string(rig.Marshal(flat(form)))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := s.In(t)
			s.V1.Play(nil)
			code, got := s.Send("/enrolled", s.APIKey, tt.kind, tt.body)
			if code != 200 || got.Text("enrolled") != "Y" {
				t.Fatalf("%d %v", code, got)
			}
			if came := strings.Join(s.V1.Came(), ""); !strings.Contains(came, "<pan>"+rig.V1Visa+"</pan>") {
				t.Errorf("the directory server got %s", came)
			}
			req, _ := v1test.Decode(t, got.Text("pareq"))
			if req.Message.PAReq.Purchase.PurchAmount != "21601" || req.Message.PAReq.Merchant.URL != "https://shop.example/?a&b" {
				t.Errorf("%+v", req)
			}
			pares := rig.V1Issuers()["visa"].Sign(req.Answer(rig.V1Visa, "Y"))
			body := url.Values{"pares": {pares}}.Encode()
			if strings.HasPrefix(strings.TrimSpace(tt.body), "{") {
				body = string(rig.Marshal(rig.Object{"pares": pares}))
			}
			if code, got := s.Send("/check", s.APIKey, tt.kind, body); code != 200 || got.Text("status") != "Y" {
				t.Errorf("/check: %d %v", code, got)
			}
		})
	}
	t.Run("a plus that was not encoded", func(t *testing.T) {
		s := s.In(t)
		var pares string
		for i := 0; !strings.Contains(pares, "+"); i++ {
			req := s.Enroll(rig.With(form, "order_id", fmt.Sprint("plus", i)))
			pares = rig.V1Issuers()["visa"].Sign(req.Answer(rig.V1Visa, "N"))
		}
		if code, got := s.Send("/check", s.APIKey, "application/x-www-form-urlencoded", "pares="+pares); code != 200 {
			t.Errorf("%d %v", code, got)
		}
	})
	for name, body := range map[string]string{"JSON that ends early": `{"amount": "1"`, "JSON and more": `{} {}`, "a list": `[]`, "nothing": ``, "text": `x`} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/enrolled", "/check"} {
				code, got := s.In(t).Send(path, s.APIKey, "application/json", body)
				rig.WantFault(t, code, got, 400, "", "invalid_request")
			}
		})
	}
}

func flat(form url.Values) rig.Object {
	o := rig.Object{}
	for name := range form {
		o[name] = form.Get(name)
	}
	return o
}

func TestM3EnrolledAnswers(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t)
	for _, tt := range []struct{ pan, enrolled, eci string }{
		{rig.V1Visa, "Y", "5"}, {rig.V1Visa, "N", "6"}, {rig.V1Visa, "U", "7"}, {rig.V1Mastercard, "Y", "2"},
		{rig.V1Mastercard, "N", "1"}, {rig.V1Mastercard, "U", "1"},
	} {
		t.Run(tt.pan[:1]+tt.enrolled, func(t *testing.T) {
			s := s.In(t)
			s.V1.Play(rig.V1Says(tt.enrolled))
			res, data := s.Basic(http.MethodPost, "/enrolled", s.APIKey, "application/x-www-form-urlencoded", rig.Purchase(tt.pan).Encode())
			got := rig.ParseObject(t, data)
			rig.CheckMembers(t, "answer", got, []string{"acs_url", "pareq", "enrolled", "eci", "error"}, nil)
			if res.StatusCode != 200 || got["enrolled"] != tt.enrolled || got["eci"] != tt.eci || got["error"] != nil {
				t.Errorf("%d %s", res.StatusCode, data)
			}
			if tt.enrolled == "Y" {
				if got["acs_url"] != "https://acs.example/pa?a=1&b=2" || got.Text("pareq") == "" || !bytes.Contains(data, []byte("pa?a=1&b=2")) {
					t.Errorf("%s", data)
				}
			} else if got["acs_url"] != nil || got["pareq"] != nil {
				t.Errorf("%s, want null", data)
			}
		})
	}
	t.Run("no directory for the scheme", func(t *testing.T) {
		s := s.In(t)
		s.V1.Play(nil)
		code, got := s.Form("/enrolled", rig.Purchase(rig.V1Amex))
		rig.WantTrouble(t, code, got, "7")
		if len(s.V1.Came()) > 0 {
			t.Error("a directory server was asked")
		}
	})
	t.Run("no directory at all", func(t *testing.T) {
		ca := rig.NewAuthority(t)
		s := &rig.LegacySite{Site: rig.StartSite(t, ca, rig.NewWire(t, ca))}
		code, got := s.Form("/enrolled", rig.Purchase(rig.V1Visa))
		rig.WantTrouble(t, code, got, "7")
		code, got = s.Form("/enrolled", rig.Purchase(rig.V1Mastercard))
		rig.WantTrouble(t, code, got, "0")
		s.Faulty("/check", url.Values{"pares": {rig.V1Issuers()["visa"].Sign(v1test.PARes{})}}, "pares", "invalid_param")
	})
}

func TestM4DirectoryFailuresAre200(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t, rig.Plan{Change: quickly})
	const contact = "Directory server timeout or connection error"
	leave := make(chan bool)
	defer close(leave)
	type play = func(http.ResponseWriter, *http.Request, string)
	text := func(body string) play {
		return func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = w.Write([]byte(body)) }
	}
	for _, tt := range []struct {
		name    string
		answer  play
		message string
		tells   bool // the directory server gets an Error
	}{
		{"refusal", rig.V1Body(
			"<VERes><version>1.0.2</version><CH><enrolled>N</enrolled></CH><IReq><iReqCode>50</iReqCode></IReq></VERes>"),
			"Acquirer not participating", false},
		{"other refusal", rig.V1Body(
			"<VERes><version>1.0.2</version><CH><enrolled>U</enrolled></CH><IReq><iReqCode>51</iReqCode></IReq></VERes>"),
			"Merchant not participating", false},
		{"Error",
			rig.V1Body("<Error><version>1.0.2</version><errorCode>98</errorCode><errorMessage>m</errorMessage><errorDetail>d</errorDetail></Error>"), contact, false},
		{"silence", func(w http.ResponseWriter, r *http.Request, _ string) {
			select {
			case <-leave:
			case <-r.Context().Done():
			}
		}, contact, false},
		{"garbage", text("\x00\x01\x02"), contact, true},
		{"nothing", text(""), contact, true},
		{"wrong id", func(w http.ResponseWriter, r *http.Request, id string) { rig.V1Says("Y")(w, r, id+"x") }, contact, true},
		{"a document with a DOCTYPE", text(`<!DOCTYPE a [<!ENTITY b "c">]><ThreeDSecure/>`), contact, true},
		{"huge", text(strings.Repeat("x", 300<<10)), contact, false},
		{"500", func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(500) }, contact, false},
		{"404", func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(404) }, contact, false},
		{"redirect", func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, contact, false},
		{"hangs up", func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) }, contact, false},
		{"acctID is the card", rig.V1Body("<VERes><version>1.0.2</version><CH><enrolled>Y</enrolled><acctID>" + rig.V1Visa +
			"</acctID></CH><url>https://acs.example/</url><protocol>ThreeDSecure</protocol></VERes>"), contact, true},
		{"plain http", rig.V1Body(
			"<VERes><version>1.0.2</version><CH><enrolled>Y</enrolled><acctID>a</acctID></CH><url>http://127.0.0.1/</url><protocol>ThreeDSecure</protocol></VERes>"),
			contact, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := s.In(t)
			s.V1.Play(func(w http.ResponseWriter, r *http.Request, id string) { tt.answer(w, r, id) })
			code, got := s.Form("/enrolled", rig.Purchase(rig.V1Visa))
			if message, _ := rig.WantTrouble(t, code, got, "7"); message != tt.message {
				t.Errorf("message %q, want %q", message, tt.message)
			}
			told := func() bool { return strings.Contains(strings.Join(s.V1.Came(), ""), "<errorCode>") }
			if tt.tells {
				waittest.Until(t, "the Error", told)
			} else if told() {
				t.Errorf("the directory server was told: %q", s.V1.Came())
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		s := s.In(t)
		s.V1.Server.Close()
		code, got := s.Form("/enrolled", rig.Purchase(rig.V1Mastercard))
		if message, detail := rig.WantTrouble(t, code, got, "0"); message != contact || detail != "Connection refused" {
			t.Errorf("%q %q", message, detail)
		}
	})
	t.Run("own store unreachable", func(t *testing.T) {
		f, p := rig.NewFaulty()
		s := rig.StartLegacy(t, p)
		s.Enroll(rig.Purchase(rig.V1Visa)) // the key is known now
		f.Down.Store(true)
		code, got := s.Form("/enrolled", rig.Purchase(rig.V1Visa))
		if message, _ := rig.WantTrouble(t, code, got, "7"); message != "Transient system failure" {
			t.Errorf("message %q", message)
		}
		f.Down.Store(false)
		s.Enroll(rig.Purchase(rig.V1Visa))
	})
}

// v1Params are the parameters of /enrolled in the order in which faults are told.
var v1Params = []string{
	"amount", "currency", "order_id", "cardholder_ip", "card[number]", "card[expire_month]", "card[expire_year]",
	"merchant[acquirer_bin]", "merchant[id]", "merchant[name]", "merchant[country]", "merchant[url]",
}

func TestM5ParameterFaults(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t)
	good := rig.Purchase(rig.V1Visa)
	t.Run("the very bytes", func(t *testing.T) {
		res, data := s.In(t).Basic(http.MethodPost, "/enrolled", s.APIKey, "application/x-www-form-urlencoded", rig.With(good, "card[number]", "x").Encode())
		if want := `{"error":{"param":"card[number]","type":"invalid_param","message":null}}`; res.StatusCode != 400 || string(data) != want {
			t.Errorf("%d %s, want %s", res.StatusCode, data, want)
		}
	})
	rest := url.Values{}
	for i := len(v1Params) - 1; i >= 0; i-- { // with all those before missing or wrong, each is told first
		name := v1Params[i]
		t.Run(name, func(t *testing.T) {
			s := s.In(t)
			if name != "cardholder_ip" {
				s.Faulty("/enrolled", rig.With(good, name), name, "presence")
				s.Faulty("/enrolled", rig.With(good, name, ""), name, "presence")
			} else if code, _ := s.Form("/enrolled", rig.With(good, name)); code != 200 {
				t.Errorf("without: %d", code)
			}
			s.Faulty("/enrolled", rig.With(good, name, "\x01"), name, "invalid_param")
			s.Faulty("/enrolled", rig.With(good, name, good.Get(name), good.Get(name)), name, "invalid_param")
			s.Faulty("/enrolled", rig.With(good, name, "", good.Get(name)), name, "invalid_param")
			all := rig.With(rest, name, "\x01")
			for _, before := range v1Params[:i] {
				all[before] = good[before]
			}
			s.Faulty("/enrolled", all, name, "invalid_param")
		})
		rest[name] = []string{"\x01"}
	}
	t.Run("pares", func(t *testing.T) {
		s := s.In(t)
		s.Faulty("/check", url.Values{}, "pares", "presence")
		s.Faulty("/check", url.Values{"pares": {""}}, "pares", "presence")
		s.Faulty("/check", url.Values{"pares": {"x"}}, "pares", "invalid_param")
		s.Faulty("/check", url.Values{"pares": {"x", "x"}}, "pares", "invalid_param")
		code, got := s.Send("/check", s.APIKey, "application/x-www-form-urlencoded", "pares=%zz")
		rig.WantFault(t, code, got, 400, "pares", "invalid_param")
	})
	for name, value := range map[string]string{
		"true": "true", "list": `["1"]`, "object": `{"x": "1"}`, "twice": `"1", "amount": "1"`, "fraction": "1.5", "exponent": "1e3", "negative": "-1",
	} {
		t.Run("JSON "+name, func(t *testing.T) {
			kind := "invalid_param"
			if name == "object" {
				kind = "presence" // that is amount[x]
			}
			code, got := s.In(t).Send("/enrolled", s.APIKey, "application/json", `{"amount": `+value+`}`)
			rig.WantFault(t, code, got, 400, "amount", kind)
		})
	}
	t.Run("405", func(t *testing.T) {
		for _, path := range []string{"/enrolled", "/check"} {
			for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
				res, data := s.In(t).Basic(method, path, s.APIKey, "", "")
				rig.WantFault(t, res.StatusCode, rig.ParseObject(t, data), 405, "", "invalid_request")
				if res.Header.Get("Allow") != "POST" {
					t.Errorf("Allow: %q", res.Header.Get("Allow"))
				}
			}
		}
	})
	t.Run("413", func(t *testing.T) {
		code, got := s.In(t).Send("/check", s.APIKey, "", "pares="+strings.Repeat("a", 64<<10-6))
		rig.WantFault(t, code, got, 400, "pares", "invalid_param")
		code, got = s.In(t).Send("/check", s.APIKey, "", "pares="+strings.Repeat("a", 64<<10-5))
		rig.WantFault(t, code, got, 413, "", "invalid_request")
	})
	t.Run("429", func(t *testing.T) {
		s := rig.StartLegacy(t, rig.Plan{Sections: "limits: {per_key: 1/m}"})
		s.Form("/check", url.Values{})
		res, data := s.Basic(http.MethodPost, "/check", s.APIKey, "", "")
		rig.WantFault(t, res.StatusCode, rig.ParseObject(t, data), 429, "", "rate_limit")
		if res.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	})
	t.Run("503 and 500", func(t *testing.T) {
		f, p := rig.NewFaulty()
		s := rig.StartLegacy(t, p)
		req := s.Enroll(good)
		pares := url.Values{"pares": {rig.V1Issuers()["visa"].Sign(req.Answer(rig.V1Visa, "Y"))}}
		f.Down.Store(true)
		code, got := s.Form("/check", pares)
		rig.WantFault(t, code, got, 503, "", "unavailable")
		fresh := unread(s.Site, f)
		res, data := s.Basic(http.MethodPost, "/check", fresh, "", "")
		rig.WantFault(t, res.StatusCode, rig.ParseObject(t, data), 503, "", "unavailable")
		if res.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		f.NoKeys.Store(false)
		f.Panics.Store(true)
		code, got = s.Form("/check", pares)
		rig.WantFault(t, code, got, 500, "", "internal")
		f.Panics.Store(false)
		f.Down.Store(false)
		if code, got := s.Form("/check", pares); code != 200 {
			t.Errorf("afterwards: %d %v", code, got)
		}
	})
}

func TestM6ParameterForms(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t)
	s.V1.Play(rig.V1Says("N"))
	chars := strings.Repeat
	for name, values := range map[string]struct{ good, bad []string }{
		"amount":   {[]string{"0", "1", "007", "999999999999"}, []string{"1000000000000", "-1", "+1", "1.0", "1,0", " 1", "1 ", "١", "0x1"}},
		"currency": {[]string{"DKK", "EUR", "JPY", "KWD"}, []string{"dkk", "DK", "DKKK", "208", "XXX", "AAA", "XAU"}},
		"order_id": {[]string{"1", chars("9", 20), "A b-c_d:#&<>", "Größe 1"}, []string{chars("9", 21), "a\nb", "a\x00", "\x7f", "\xff"}},
		"cardholder_ip": {[]string{"1.1", "192.0.2.17", "2001:db8::1", "2001:0DB8:0000:0000:0000:FF00:0042:8329"},
			[]string{"::", "1", chars("1", 40), "localhost", "192.0.2.17/24", "1.1.1.1 "}},
		"card[number]": {[]string{"400000123456", "4000001234567890123", rig.V1Visa},
			[]string{"40000012345", "40000012345678901234", "4000 0012 3456 7890", "4000-001234567890", "٤٠٠٠٠٠١٢٣٤٥٦"}},
		"card[expire_month]":     {[]string{"01", "12"}, []string{"1", "001", "00", "13", "ab"}},
		"card[expire_year]":      {[]string{"2031", "1999"}, []string{"31", "20311", "abcd"}},
		"merchant[acquirer_bin]": {[]string{"400551", "40055112345"}, []string{"40055", "400551123456", "40055a"}},
		"merchant[id]":           {[]string{"M", "fss            -90000970", chars("x", 24)}, []string{chars("x", 25), "a\tb", "é"}},
		"merchant[name]":         {[]string{"S", "Bäckerei & Söhne <1>", chars("é", 25)}, []string{chars("é", 26), "a\nb", "\xff\xfe"}},
		"merchant[country]":      {[]string{"DK", "US", "JP"}, []string{"dk", "D", "DNK", "208", "ZZ", "EU"}},
		"merchant[url]": {
			[]string{"https://shop.example", "http://shop.example/x?y=z#w", "https://shop.example/" + chars("x", 2027)},
			[]string{"shop.example", "//shop.example", "ftp://shop.example", "javascript:alert(1)", "https://", "https:///x",
				"https://shop.example/" + chars("x", 2028), "https://shop example/"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.In(t)
			for _, v := range values.good {
				if code, got := s.Form("/enrolled", rig.With(rig.Purchase(rig.V1Visa), name, v)); code != 200 || got["error"] != nil || got["enrolled"] != "N" {
					t.Errorf("%q: %d %v", v, code, got)
				}
			}
			for _, v := range values.bad {
				s.Faulty("/enrolled", rig.With(rig.Purchase(rig.V1Visa), name, v), name, "invalid_param")
			}
		})
	}
	t.Run("unknown ones are ignored", func(t *testing.T) {
		form := rig.With(rig.Purchase(rig.V1Visa), "card[cvc]", "123", "123")
		form["nonsense[]"], form["card"], form["merchant[id][x]"] = []string{"\x00"}, []string{"1"}, []string{"2"}
		if code, got := s.In(t).Form("/enrolled", form); code != 200 {
			t.Errorf("%d %v", code, got)
		}
	})
}

func TestM7CheckAnswers(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t)
	names := []string{"amount", "currency", "cavv", "cavv_algorithm", "eci", "merchant_id", "last4", "status", "xid"}
	for _, tt := range []struct{ scheme, pan, status, signed, eci string }{
		{"visa", rig.V1Visa, "Y", "05", "5"}, {"visa", rig.V1Visa, "A", "06", "6"}, {"visa", rig.V1Visa, "N", "", "7"}, {"visa", rig.V1Visa, "U", "", "7"},
		{"mastercard", rig.V1Mastercard, "Y", "02", "2"}, {"mastercard", rig.V1Mastercard, "A", "01", "1"}, {"mastercard", rig.V1Mastercard, "Y", "01", "1"},
		{"mastercard", rig.V1Mastercard, "N", "", "0"}, {"mastercard", rig.V1Mastercard, "U", "", "1"},
	} {
		t.Run(tt.scheme+" "+tt.status+tt.signed, func(t *testing.T) {
			s := s.In(t)
			req := s.Enroll(rig.Purchase(tt.pan))
			p := req.Answer(tt.pan, tt.status)
			want := rig.Object{
				"amount": "21601", "currency": "DKK", "cavv": "", "cavv_algorithm": "", "eci": tt.eci, "merchant_id": "M-1001",
				"last4": tt.pan[len(tt.pan)-4:], "status": tt.status, "xid": p.XID,
			}
			if tt.signed != "" {
				p.ECI, p.CAVV, p.CAVVAlgorithm = tt.signed, "jHyn+7YFi1EUAREAAAAvNUe6Hv8=", "3"
				want = want.With(rig.Object{"cavv": p.CAVV, "cavv_algorithm": "3"})
			}
			code, got := s.Check(tt.scheme, p)
			rig.CheckMembers(t, "answer", got, names, nil)
			for _, name := range names {
				if code != 200 || got[name] != want[name] {
					t.Errorf("%d, %s = %v, want %v", code, name, got[name], want[name])
				}
			}
		})
	}
}

func TestM8PAResThatDoesNotVerify(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t)
	visa := rig.V1Issuers()["visa"]
	stranger := v1test.NewIssuer(t, v1test.Options{})
	for _, status := range []string{"Y", "A", "N", "U"} {
		req := s.Enroll(rig.Purchase(rig.V1Visa))
		p := req.Answer(rig.V1Visa, status)
		if status == "A" {
			p.ECI = "06"
		}
		good := visa.Document(p)
		cut, _, _ := strings.Cut(good, "<Signature")
		begin, end := strings.Index(good, "<PARes"), strings.Index(good, "<Signature")
		signed, signature := good[begin:end], good[end:strings.Index(good, "</Message>")]
		forged := strings.Replace(signed, "<status>"+status, "<status>U", 1)
		if status == "U" {
			forged = strings.Replace(signed, "<purchAmount>21601", "<purchAmount>1", 1)
		}
		wrap := func(body string) string {
			return `<ThreeDSecure><Message id="` + p.MessageID + `">` + body + "</Message></ThreeDSecure>"
		}
		for name, pares := range map[string]string{
			"not base64":               "%%%",
			"base64 of nothing packed": "aGVsbG8=",
			"packed and cut":           v1test.Pack(good)[:1000],
			"not XML":                  v1test.Pack("hello"),
			"signature cut off":        v1test.Pack(cut + "</Message></ThreeDSecure>"),
			"signature emptied":        v1test.Pack(wrap(signed + `<Signature xmlns="http://www.w3.org/2000/09/xmldsig#"></Signature>`)),
			"changed":                  v1test.Pack(wrap(forged + signature)),
			"a forged one before":      v1test.Pack(wrap(forged + signed + signature)),
			"a forged one behind":      v1test.Pack(wrap(signed + signature + forged)),
			"signed one wrapped":       v1test.Pack(wrap(strings.Replace(forged, "</PARes>", "<Extension>"+signed+"</Extension></PARes>", 1) + signature)),
			"second message":           v1test.Pack(strings.Replace(good, "</Message>", `</Message><Message id="x">`+forged+"</Message>", 1)),
			"another root":             stranger.Sign(p),
			"another scheme's root":    rig.V1Issuers()["mastercard"].Sign(p),
			"an Error": v1test.Pack(
				wrap("<Error><version>1.0.2</version><errorCode>5</errorCode><errorMessage>m</errorMessage><errorDetail>d</errorDetail></Error>")),
			"the PAReq": v1test.Pack(wrap("<PAReq/>")),
		} {
			t.Run(name+" "+status, func(t *testing.T) {
				s.In(t).Faulty("/check", url.Values{"pares": {pares}}, "pares", "invalid_param")
			})
		}
		t.Run("untouched "+status, func(t *testing.T) {
			if code, got := s.In(t).Check("visa", p); code != 200 || got.Text("status") != status {
				t.Errorf("%d %v", code, got)
			}
		})
	}
}

func TestM9PAResMustFitThePAReq(t *testing.T) {
	t.Parallel()
	s := rig.StartLegacy(t)
	refused := func(s *rig.LegacySite, scheme string, p v1test.PARes) {
		s.T.Helper()
		code, got := s.Check(scheme, p)
		rig.WantFault(s.T, code, got, 400, "pares", "invalid_param")
	}
	for name, change := range map[string]func(*v1test.PARes){
		"acquirer BIN": func(p *v1test.PARes) { p.AcqBIN = "400552" },
		"merchant id":  func(p *v1test.PARes) { p.MerID = "M-1002" },
		"xid":          func(p *v1test.PARes) { p.XID = "MDAwMDAwMDAwMDAwMDAwMDAwMDA=" },
		"date":         func(p *v1test.PARes) { p.Date = "20200101 00:00:00" },
		"amount":       func(p *v1test.PARes) { p.Amount = "1" },
		"currency":     func(p *v1test.PARes) { p.Currency = "978" },
		"exponent":     func(p *v1test.PARes) { p.Currency, p.Exponent = "392", "0" },
		"last four":    func(p *v1test.PARes) { p.PAN = p.PAN[:12] + "1112" },
	} {
		t.Run(name, func(t *testing.T) {
			s := s.In(t)
			req := s.Enroll(rig.Purchase(rig.V1Visa))
			good := req.Answer(rig.V1Visa, "Y")
			bad := good
			change(&bad)
			refused(s, "visa", bad)
			if name != "xid" { // a PARes with another xid and another Message id is one that nobody asked for
				bad.MessageID = "changed-on-the-way"
				refused(s, "visa", bad)
			}
			if code, got := s.Check("visa", good); code != 200 {
				t.Errorf("the good one, afterwards: %d %v", code, got)
			}
		})
	}
	t.Run("scheme", func(t *testing.T) {
		s := s.In(t)
		req := s.Enroll(rig.Purchase(rig.V1Visa))
		refused(s, "mastercard", req.Answer(rig.V1Visa, "N"))
	})
	t.Run("second use", func(t *testing.T) {
		s := s.In(t)
		req := s.Enroll(rig.Purchase(rig.V1Visa))
		first := req.Answer(rig.V1Visa, "N")
		for range 2 {
			if code, got := s.Check("visa", first); code != 200 || got.Text("status") != "N" {
				t.Errorf("%d %v", code, got)
			}
		}
		refused(s, "visa", req.Answer(rig.V1Visa, "Y"))
	})
	t.Run("one order, several PAReqs", func(t *testing.T) {
		s := s.In(t)
		a, b := s.Enroll(rig.With(rig.Purchase(rig.V1Visa), "amount", "1")), s.Enroll(rig.With(rig.Purchase(rig.V1Visa), "amount", "2"))
		for want, req := range map[string]v1test.PAReq{"1": a, "2": b} {
			if code, got := s.Check("visa", req.Answer(rig.V1Visa, "Y")); code != 200 || got.Text("amount") != want {
				t.Errorf("%d %v, want amount %s", code, got, want)
			}
		}
	})
	t.Run("another merchant", func(t *testing.T) {
		s := s.In(t)
		req := s.Enroll(rig.Purchase(rig.V1Visa))
		p := req.Answer(rig.V1Visa, "Y")
		p.Amount = "1"
		pares := url.Values{"pares": {rig.V1Issuers()["visa"].Sign(p)}}.Encode()
		if code, got := s.Send("/check", s.OtherAPIKey, "", pares); code != 200 || got.Text("amount") != "1" {
			t.Errorf("%d %v", code, got)
		}
		refused(s, "visa", p)
	})
	t.Run("another key and another node of the merchant", func(t *testing.T) {
		s := s.In(t)
		beside := &rig.LegacySite{Site: rig.StartSite(t, s.Authority, s.Directory, rig.Plan{Beside: s.Site}), V1: s.V1}
		beside.APIKey = s.CreateKey("Shop")
		req := s.Enroll(rig.Purchase(rig.V1Visa))
		p := req.Answer(rig.V1Visa, "Y")
		bad := p
		bad.Amount = "1"
		refused(beside, "visa", bad)
		if code, got := beside.Check("visa", p); code != 200 {
			t.Errorf("%d %v", code, got)
		}
		refused(s, "visa", req.Answer(rig.V1Visa, "N"))
	})
	t.Run("nobody asked for it", func(t *testing.T) {
		p := v1test.PARes{
			ID: "x", MessageID: "y", AcqBIN: "1", MerID: "z", XID: "MDAwMDAwMDAwMDAwMDAwMDAwMDE=", Date: "20260101 00:00:00", Amount: "5",
			Currency: "208", Exponent: "2", PAN: "0000000000000000", Time: "20260101 00:00:00", Status: "N",
		}
		if code, got := s.In(t).Check("visa", p); code != 200 || got.Text("amount") != "5" || got.Text("merchant_id") != "z" {
			t.Errorf("%d %v", code, got)
		}
	})
}

// TestJ6CanariesOfVersion1AreNowhere: nothing that a server writes of these operations holds a card
// number, an authentication value or a key.
func TestJ6CanariesOfVersion1AreNowhere(t *testing.T) {
	t.Parallel()
	spans := rig.NewCollector(t)
	s := rig.StartLegacy(t, rig.Plan{Change: quickly, Sections: spans.Section("1")})
	const value = "Q0FOQVJZVkFMVUVDQU5BUlk9PT0="
	secrets := map[string]string{"card": rig.V1Visa, "value": value, "key": s.APIKey, "other key": s.OtherAPIKey}
	var answers bytes.Buffer
	tell := func(_ int, o rig.Object) {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		answers.Write(data)
	}
	req := s.Enroll(rig.Purchase(rig.V1Visa))
	p := req.Answer(rig.V1Visa, "Y")
	p.CAVV = value
	if code, got := s.Check("visa", p); code != 200 || got.Text("cavv") != value {
		t.Errorf("%d %v", code, got)
	}
	p.Amount = "1"
	tell(s.Check("visa", p))
	tell(s.Check("mastercard", p))
	for _, status := range []string{"N", "U", "A"} {
		tell(s.Check("visa", req.Answer(rig.V1Visa, status)))
	}
	leak := "<iReqCode>55</iReqCode><iReqDetail>no " + rig.V1Visa + "</iReqDetail><vendorCode>" + rig.V1Visa + "</vendorCode>"
	for _, body := range []string{
		"<VERes><version>1.0.2</version><CH><enrolled>N</enrolled></CH><IReq>" + leak + "</IReq></VERes>",
		"<VERes><version>1.0.2</version><CH><enrolled>" + rig.V1Visa + "</enrolled></CH></VERes>",
		"<VERes><version>1.0.2</version><CH><enrolled>Y</enrolled><acctID>" + rig.V1Visa + "</acctID></CH><url>https://" +
			rig.V1Visa + "/</url><protocol>ThreeDSecure</protocol></VERes>",
		"<Error><version>" + rig.V1Visa + "</version><errorCode>5</errorCode><errorMessage>" + rig.V1Visa +
			"</errorMessage><errorDetail>" + rig.V1Visa + "</errorDetail></Error>",
		"<X" + rig.V1Visa + "/>", "<X" + rig.V1Visa,
	} {
		s.V1.Play(rig.V1Body(body))
		tell(s.Form("/enrolled", rig.Purchase(rig.V1Visa)))
	}
	for _, param := range v1Params {
		tell(s.Form("/enrolled", rig.With(rig.Purchase(rig.V1Visa), param, rig.V1Visa, rig.V1Visa)))
	}
	tell(s.Form("/enrolled", rig.With(rig.Purchase(rig.V1Visa), rig.V1Visa, rig.V1Visa)))
	tell(s.Form("/check", url.Values{"pares": {rig.V1Visa}}))
	tell(s.Send("/check", s.APIKey, "application/json", `{"`+rig.V1Visa+`"`))
	s.Basic(http.MethodPost, "/check", rig.V1Visa, "", "")
	written := map[string][]byte{"answers": answers.Bytes()}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	written["log"] = []byte(s.Log.String())
	written["spans"] = bytes.Join(spans.Raw, nil)
	if len(spans.Named("POST /check", "scheme", "visa")) == 0 {
		t.Error("there are no spans to search")
	}
	for _, file := range rig.ListFiles(t, filepath.Join(filepath.Dir(s.ConfigFile), "data")) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		written[filepath.Base(file)] = data
	}
	for from, data := range written {
		for name, secret := range secrets {
			if in := rig.FindSecret(data, secret); in != "" {
				t.Errorf("%s holds the %s: %s", from, name, in)
			}
		}
	}
	if !strings.Contains(string(written["log"]), "PARes refused") || len(written) < 4 {
		t.Error("too little was written: the test shows nothing")
	}
}

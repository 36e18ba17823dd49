package sandbox_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
)

// broken is a sandbox's directory server asked for a merchant.
func (s *server) broken(version, pan, merchant string) (areq members, status int, kind string, raw []byte) {
	s.t.Helper()
	areq = s.areq(version, "02", pan).with(members{"acquirerMerchantID": merchant})
	answer, err := s.client("visa").Post(s.directory("visa").URL, "application/json", bytes.NewReader(areq.json(s.t)))
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if raw, err = io.ReadAll(answer.Body); err != nil {
		s.t.Fatal(err)
	}
	return areq, answer.StatusCode, answer.Header.Get("Content-Type"), raw
}

// aresFaults are the merchants that get a faulty ARes, and the fault that is found in it: the code, and the member if
// there is one.
var aresFaults = map[string]string{
	"FAULT-TWICE": "204 transStatus", "FAULT-CRITICAL": "202", "FAULT-ID": "301 threeDSServerTransID", "FAULT-VERSION": "203 messageVersion",
	"FAULT-NOACSID": "201 acsTransID", "FAULT-NOVALUE": "201 authenticationValue",
}

// TestAResFaults: each merchant for which a directory server does something wrong. A faulty ARes has only that fault.
func TestAResFaults(t *testing.T) {
	s := newServer(t, start(t, func(s *sandbox.Sandbox) { s.LateDelay = 50 * time.Millisecond }))
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for merchant, want := range aresFaults {
			areq, _, _, raw := s.broken(version, "4000000000000103", merchant)
			if got := judge(t, areq, raw); got != want && !strings.HasPrefix(got, want+" ") {
				t.Errorf("%s, %s: %q is wrong, want %q: %s", version, merchant, got, want, raw)
			}
		}
		for _, code := range []string{"101", "103", "303", "304", "306", "402", "403", "404", "405"} {
			areq, _, _, raw := s.broken(version, "4000000000000170", "FAULT-ERRO"+code)
			valid(t, raw, message.Context{AReq: parse(t, areq.json(t))})
			if erro := read(t, raw); erro["errorCode"] != code || erro["errorComponent"] != "D" || erro["threeDSServerTransID"] != areq["threeDSServerTransID"] {
				t.Errorf("%s, FAULT-ERRO%s: %s", version, code, raw)
			}
		}
		if _, _, kind, raw := s.broken(version, "4000000000000103",
			"FAULT-GARBAGE"); !bytes.HasPrefix(raw, []byte("<!DOCTYPE html>")) || kind != "text/html; charset=utf-8" {
			t.Errorf("%s, FAULT-GARBAGE: %s %s", version, kind, raw)
		}
		if _, _, _, raw := s.broken(version, "4000000000000103", "FAULT-CUT"); raw[0] != '{' || bytes.HasSuffix(raw, []byte("}")) {
			t.Errorf("%s, FAULT-CUT: %s", version, raw)
		}
		if _, status, _, _ := s.broken(version, "4000000000000103", "FAULT-HTTP500"); status != 500 {
			t.Errorf("%s, FAULT-HTTP500: %d", version, status)
		}
		began := time.Now()
		if areq, _, _, raw := s.broken(version, "4000000000000103", "FAULT-SLOW"); judge(t, areq, raw) != "" || time.Since(began) < 50*time.Millisecond {
			t.Errorf("%s, FAULT-SLOW: after %v %s", version, time.Since(began), raw)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		silent := s.areq(version, "02", "4000000000000103").with(members{"acquirerMerchantID": "FAULT-SILENCE"})
		if _, err := s.post(ctx, "visa", silent.json(t)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, FAULT-SILENCE: %v", version, err)
		}
		cancel()
	}
	s.none()
}

// judge is what package message finds wrong with an ARes, as code and detail.
func judge(t *testing.T, areq members, raw []byte) string {
	t.Helper()
	m, err := message.Parse(raw, message.Limits{Members: -1})
	if err != nil {
		t.Errorf("%s: %v", raw, err)
		return ""
	}
	if id := read(t, raw)["threeDSServerTransID"]; id != areq["threeDSServerTransID"] {
		return "301 threeDSServerTransID"
	}
	problems := m.Check(message.Context{AReq: parse(t, areq.json(t)), Lab: true, Informational: true})
	if len(problems) == 0 {
		return ""
	}
	code, detail := problems.Pick(message.ForPeer)
	return code.String() + " " + detail
}

// TestChallengeFaults: each merchant for which a challenge or its result takes another course.
func TestChallengeFaults(t *testing.T) {
	box := start(t, func(s *sandbox.Sandbox) { s.LateDelay = 300 * time.Millisecond })
	s := newServer(t, box)
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		begin := func(merchant, pan string) (ares members, p journalEntry) {
			t.Helper()
			_, _, _, raw := s.broken(version, pan, merchant)
			ares = read(t, raw)
			return ares, send(t, ares["acsURL"].(string), s.form(creq(ares), ""))
		}
		status := func(p journalEntry) any {
			t.Helper()
			return read(t, unpad(t, p.field("cres")))["transStatus"]
		}
		if _, p := begin("FAULT-ACSDOWN", "4000000000000170"); p.status != http.StatusServiceUnavailable {
			t.Errorf("FAULT-ACSDOWN: %d", p.status)
		}
		if got := s.result().message; got["transStatus"] != "N" || got["challengeCancel"] != "05" {
			t.Errorf("FAULT-ACSDOWN: %v, want an N for a challenge that did not begin", got)
		}
		_, p := begin("FAULT-UNFRAMED", "4000000000000172")
		if p.header.Get("X-Frame-Options") != "DENY" || !strings.HasSuffix(p.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("FAULT-UNFRAMED: %v", p.header)
		}
		if p = p.press("", "123456"); s.result().message["transStatus"] != "Y" || status(p) != "Y" {
			t.Errorf("FAULT-UNFRAMED: the way out is closed: %s", p.text)
		}
		if _, p = begin("FAULT-STUCK", "4000000000000170"); p.status != 200 || p.action() != "" || s.result().message["transStatus"] != "Y" {
			t.Errorf("FAULT-STUCK: %s", p.text)
		}
		_, p = begin("FAULT-CRES", "4000000000000170")
		if raw := unpad(t, p.field("cres")); raw[0] == '{' || s.result().message["transStatus"] != "Y" {
			t.Errorf("FAULT-CRES: %s", raw)
		}
		_, p = begin("FAULT-BASE64", "4000000000000170")
		raw, err := base64.StdEncoding.DecodeString(p.field("cres"))
		if text := p.field("cres"); err != nil || !strings.Contains(text, "+") || !strings.Contains(text, "/") || !strings.HasSuffix(text, "=") {
			t.Errorf("FAULT-BASE64: %s, %v", text, err)
		} else if s.result(); read(t, raw)["transStatus"] != "Y" {
			t.Errorf("FAULT-BASE64: %s", raw)
		}
		for pan, both := range map[string][2]string{"4000000000000170": {"Y", "N"}, "4000000000000171": {"N", "Y"}} {
			_, p = begin("FAULT-FORGED", pan)
			if rreq := s.result().message["transStatus"]; rreq != both[0] || status(p) != both[1] {
				t.Errorf("FAULT-FORGED: RReq %v, CRes %v, want %v", rreq, status(p), both)
			}
		}
		ares, p := begin("FAULT-LATE", "4000000000000170")
		if status(p) != "Y" || s.result().message["transStatus"] != "Y" {
			t.Errorf("FAULT-LATE: %s", p.text)
		}
		seen := box.Received(ares["acsTransID"].(string))
		at := func(kind string) time.Time {
			i := slices.IndexFunc(seen, func(e sandbox.Exchange) bool { return e.Type == kind })
			return seen[max(i, 0)].At
		}
		if late := at("RReq").Sub(at("CReq")); late < box.LateDelay {
			t.Errorf("FAULT-LATE: the RReq came %v after the CReq", late)
		}
		ares, p = begin("FAULT-NORESULT", "4000000000000170")
		seen = box.Received(ares["acsTransID"].(string))
		if status(p) != "Y" || !slices.ContainsFunc(seen, func(e sandbox.Exchange) bool { return e.Type == "RReq" && e.Note == "never sent" }) {
			t.Errorf("FAULT-NORESULT: %s, %v", p.text, seen)
		}
		s.none()
		_, p = begin("FAULT-AGAIN", "4000000000000170")
		if one, two := s.result(), s.result(); status(p) != "Y" || !bytes.Equal(one.raw, two.raw) {
			t.Errorf("FAULT-AGAIN: %s and %s", one.raw, two.raw)
		}
		for merchant, want := range map[string][2]string{"CANCEL": {"01", "01"}, "TIMEOUT": {"14", "04"}, "REASON-12": {"12", ""}} {
			areq, _, _, raw := s.broken(version, "4000000000000171", merchant)
			ares, p := read(t, raw), journalEntry{}
			p = send(t, ares["acsURL"].(string), s.form(creq(ares), ""))
			rreq, _ := s.over(p, areq, ares, "N", "")
			if cancel, _ := rreq["challengeCancel"].(string); rreq["transStatusReason"] != want[0] || cancel != want[1] {
				t.Errorf("%s: %v", merchant, rreq)
			}
		}
	}
}

// TestEveryTransStatusReasonCanBeHad: every transStatusReason can be had, in ARes and RReq, and stands where one
// has a place alone.
func TestEveryTransStatusReasonCanBeHad(t *testing.T) {
	s := newServer(t, start(t, nil))
	for pan, has := range map[string]bool{
		"4000000000000103": false, "4000000000000113": true, "4000000000000133": true, "4000000000000153": true,
		"4000000000000170": false,
	} {
		for _, code := range []string{"01", "22", "80", "99"} {
			areq, _, _, raw := s.broken("2.2.0", pan, "REASON-"+code)
			reason, told := read(t, raw)["transStatusReason"]
			if told != has || has && reason != code || judge(t, areq, raw) != "" {
				t.Errorf("%s, %s: %s", pan, code, raw)
			}
		}
	}
	for pan, want := range map[string][2]string{"4000000000000170": {"Y", ""}, "4000000000000171": {"N", "12"}, "4000000000000172": {"N", "01"}} {
		_, _, _, raw := s.broken("2.2.0", pan, "REASON-12")
		ares := read(t, raw)
		if p := send(t, ares["acsURL"].(string), s.form(creq(ares), "")); pan == "4000000000000172" {
			p.press("cancel", "") // which has a reason of its own
		}
		rreq := s.result().message
		if reason, _ := rreq["transStatusReason"].(string); rreq["transStatus"] != want[0] || reason != want[1] {
			t.Errorf("%s: %v, want %v", pan, rreq, want)
		}
	}
}

// TestFaultWithoutAPlaceChangesNothing: a fault that has no place in the course of the card changes nothing.
func TestFaultWithoutAPlaceChangesNothing(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, merchant := range []string{"TIMEOUT", "CANCEL", "FAULT-NOVALUE"} {
		areq := s.areq("2.2.0", "02", "4000000000000183").with(members{"acquirerMerchantID": merchant})
		s.ask(areq)
		if rreq := s.result().message; rreq["transStatus"] != "Y" || rreq["challengeCancel"] != nil {
			t.Errorf("%s: %v", merchant, rreq)
		}
	}
	_, _, _, raw := s.broken("2.2.0", "4000000000000170", "FAULT-CRITICAL")
	ares := read(t, raw)
	if p := send(t, ares["acsURL"].(string), s.form(creq(ares), "")); p.field("error") == "" {
		t.Errorf("a challenge goes on after an ARes that nobody could take: %s", p.text)
	}
	s.none()
}

// TestSPCMerchantIsAnsweredWithS: with the merchant SPC an AReq that offers Secure Payment Confirmation
// is answered with S, and the second one as the card says.
func TestSPCMerchantIsAnsweredWithS(t *testing.T) {
	s := newServer(t, start(t, nil))
	offer := members{"acquirerMerchantID": "SPC", "threeDSRequestorSpcSupport": "Y", "payeeOrigin": "https://shop.example"}
	first := s.areq("2.3.1", "02", "4000000000000170").with(offer)
	ares := s.ask(first)
	valid(t, ares.json(t), message.Context{AReq: parse(t, first.json(t))})
	data, _ := ares["spcTransData"].(map[string]any)
	if ares["transStatus"] != "S" || data["value"] != "1234.50" || data["currency"] != "EUR" || data["displayName"] != "Visa 0170" {
		t.Fatalf("%v", ares)
	}
	if again := s.ask(first.with(members{"threeDSServerTransID": newID()})); again["spcTransData"].(map[string]any)["challenge"] == data["challenge"] {
		t.Error("two challenges are the same")
	}
	prior := []members{{"threeDSReqPriorAuthMethod": "05", "threeDSReqPriorRef": ares["acsTransID"]}}
	for name, tt := range map[string]struct {
		version, pan string
		changes      members
		want         string
	}{
		"confirmed": {"2.3.1", "4000000000000103", members{
			"threeDSRequestorPriorAuthenticationInfo": prior,
			"threeDSRequestorAuthenticationInfo":      []members{{"threeDSReqAuthMethod": "09", "threeDSReqAuthData": "x"}},
		}, "Y"},
		"not confirmed":                 {"2.3.1", "4000000000000170", members{"threeDSRequestorPriorAuthenticationInfo": prior, "spcIncompInd": "01"}, "C"},
		"beside another authentication": {"2.3.1", "4000000000000103", members{"threeDSRequestorAuthenticationInfo": []members{{"threeDSReqAuthMethod": "02"}}}, "S"},
		"not offered":                   {"2.3.1", "4000000000000113", members{"threeDSRequestorSpcSupport": nil, "payeeOrigin": nil}, "N"},
		"before 2.3.1":                  {"2.2.0", "4000000000000103", nil, "Y"}, // which does not know the offer
		"of another merchant":           {"2.3.1", "4000000000000103", members{"acquirerMerchantID": "M-1"}, "Y"},
		"nothing to pay": {"2.3.1", "4000000000000103", members{
			"messageCategory": "02", "purchaseAmount": nil, "purchaseCurrency": nil, "purchaseExponent": nil, "purchaseDate": nil,
			"mcc": nil, "merchantCountryCode": nil,
		}, "Y"},
	} {
		areq := s.areq(tt.version, "02", tt.pan).with(offer).with(tt.changes)
		if got := s.ask(areq); got["transStatus"] != tt.want {
			t.Errorf("%s: %v, want %s", name, got, tt.want)
		}
	}
	s.none()
}

// TestEveryMerchantFaultIsTested: the table has no merchant that these tests do not know.
func TestEveryMerchantFaultIsTested(t *testing.T) {
	const others = "FAULT-ERRO101 FAULT-ERRO103 FAULT-ERRO303 FAULT-ERRO304 FAULT-ERRO306 FAULT-ERRO402 FAULT-ERRO403 FAULT-ERRO404 FAULT-ERRO405 " +
		"FAULT-SILENCE FAULT-SLOW FAULT-HTTP500 FAULT-GARBAGE FAULT-CUT FAULT-ACSDOWN FAULT-UNFRAMED FAULT-STUCK FAULT-CRES FAULT-BASE64 " +
		"FAULT-FORGED FAULT-LATE FAULT-NORESULT FAULT-AGAIN CANCEL TIMEOUT REASON-.. SPC " +
		"SDK-ES256 SDK-MAC SDK-ENC SDK-KID SDK-COUNTER SDK-TYPE SDK-CUT SDK-WHY SDK-NOLABEL SDK-VERSION SDK-CLEAR "
	for _, found := range regexp.MustCompile(`(?m)^merchant (\S+)`).FindAllStringSubmatch(sandbox.MerchantTable(), -1) {
		if _, known := aresFaults[found[1]]; !known && !strings.Contains(others, found[1]+" ") {
			t.Errorf("%s is tried nowhere", found[1])
		}
	}
}

package sandbox_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// The tests of this file hold what front ends of others rely on: agnosco, test3ds, web-threeds of Basis Theory,
// globalpayments-3ds, 3ds-sdk-js of Trust Payments, and the 3DS 2.0 utilities of Adyen. No code of theirs is here.

// foreignEncodings are the ways in which front ends encode what a form brings to the issuer.
var foreignEncodings = map[string]func([]byte) string{
	"standard alphabet, padded":   base64.StdEncoding.EncodeToString,
	"standard alphabet, unpadded": base64.RawStdEncoding.EncodeToString,
	"URL alphabet, padded":        base64.URLEncoding.EncodeToString,
	"URL alphabet, unpadded":      base64.RawURLEncoding.EncodeToString,
}

// TestForeignMethodDataInEitherAlphabet: the 3DS Method takes data from btoa and base64url data, with and without
// padding. The query of the notification URL comes back as it was: some mark the way of the window there.
func TestForeignMethodDataInEitherAlphabet(t *testing.T) {
	s := newServer(t, start(t, nil))
	card, _ := s.box.Card("4000000000000003")
	const back = "https://shop.example/notify?mode=redirect&to=????"
	for name, encode := range foreignEncodings {
		raw := []byte(fmt.Sprintf(`{"threeDSServerTransID":%q,"threeDSMethodNotificationURL":%q}`, newID(), back))
		data := encode(raw)
		if !strings.ContainsAny(data, "+/-_") || len(raw)%3 == 0 {
			t.Fatalf("%s: the alphabets do not differ in %s, or it needs no padding", name, data)
		}
		p := send(t, card.MethodURL, url.Values{"threeDSMethodData": {data}})
		if p.status != http.StatusOK || p.action() != back {
			t.Errorf("%s: %d, to %q, want %q", name, p.status, p.action(), back)
		}
	}
}

// TestForeignNotificationIsReadByAtob: the data that the 3DS Method posts to the shop is read by atob, which knows
// the standard alphabet alone, and has the transaction's id.
func TestForeignNotificationIsReadByAtob(t *testing.T) {
	s := newServer(t, start(t, nil))
	card, _ := s.box.Card("4000000000000003")
	for range 100 {
		id := newID()
		raw := members{"threeDSServerTransID": id, "threeDSMethodNotificationURL": "https://shop.example/notify"}.json(t)
		p := send(t, card.MethodURL, url.Values{"threeDSMethodData": {base64.RawURLEncoding.EncodeToString(raw)}})
		data := p.field("threeDSMethodData")
		got, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(data, "="))
		if err != nil || read(t, got)["threeDSServerTransID"] != id {
			t.Fatalf("the notification %q: %v, want it in the standard alphabet, with %s", data, err, id)
		}
	}
}

// TestForeignCReqInEitherAlphabet: the issuer takes a CReq from btoa as well as a base64url one. The page of a
// shop may read the CRes with atob.
func TestForeignCReqInEitherAlphabet(t *testing.T) {
	s := newServer(t, start(t, nil))
	for name, encode := range foreignEncodings {
		areq, ares := s.challenged("2.2.0", "4000000000000170")
		// Members that a CReq does not have make the alphabets differ. One front end has the first two.
		raw := creq(ares).with(members{"notificationURL": "http://localhost:8270/missing", "dsTransID": newID(), "note": "???"}).json(t)
		for len(raw)%3 == 0 || !strings.ContainsAny(encode(raw), "+/-_") {
			raw = bytes.Replace(raw, []byte("???"), []byte("???>"), 1)
		}
		p := send(t, ares["acsURL"].(string), url.Values{"creq": {encode(raw)}})
		if _, cres := s.over(p, areq, ares, "Y", ""); cres["transStatus"] != "Y" {
			t.Errorf("%s: CRes %v, want Y", name, cres)
		}
		if data := p.field("cres"); strings.ContainsAny(data, "-_") {
			t.Errorf("%s: the CRes %s is not in the standard alphabet", name, data)
		}
	}
}

// TestForeignFormsHaveFieldsOfTheirOwn: a form to the issuer may have fields that no specification names. What is in
// threeDSSessionData comes back byte for byte, even if it is padded.
func TestForeignFormsHaveFieldsOfTheirOwn(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		areq, ares := s.challenged(version, "4000000000000070")
		const session = "MTcxMjM0NTY3OA=="
		form := s.form(creq(ares), session)
		form.Set("cardType", "VISA")
		if _, cres := s.over(send(t, ares["acsURL"].(string), form), areq, ares, "Y", session); cres["transStatus"] != "Y" {
			t.Errorf("%s: CRes %v, want Y", version, cres)
		}
	}
	p := newPlugIn(t, s.box, "visa")
	ve := p.enrolled("id", "4000001234560000")
	page := send(t, ve.URL, url.Values{
		"PaReq": {pack(t, p.paReq("id", ve.AcctID))}, "MD": {"session 7"}, "TermUrl": {"https://shop.example/term"}, "cardType": {"VISA"},
	})
	if page.status != http.StatusOK || page.action() != "https://shop.example/term" || page.field("MD") != "session 7" || page.field("PaRes") == "" {
		t.Errorf("a PaReq with a cardType: %d %s", page.status, page.text)
	}
}

// TestForeignEveryWindowSize: each of the five sizes is taken, in every version.
func TestForeignEveryWindowSize(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, size := range []string{"01", "02", "03", "04", "05"} {
			areq, ares := s.challenged(version, "4000000000000070")
			p := send(t, ares["acsURL"].(string), s.form(creq(ares).with(members{"challengeWindowSize": size}), ""))
			if _, cres := s.over(p, areq, ares, "Y", ""); cres["transStatus"] != "Y" {
				t.Errorf("%s, window %s: %v", version, size, cres)
			}
		}
	}
}

// TestForeignPagesKeepTheirOpener: pages of the issuer are used in frames and in windows of any origin. A page may
// not cut itself off from the window that opened it, which would then look closed. It sends no messages to others.
func TestForeignPagesKeepTheirOpener(t *testing.T) {
	s := newServer(t, start(t, nil))
	card, _ := s.box.Card("4000000000000003")
	data := members{"threeDSServerTransID": newID(), "threeDSMethodNotificationURL": "https://shop.example/notify"}.json(t)
	_, code := s.challenged("2.2.0", "4000000000000172")
	_, over := s.challenged("2.2.0", "4000000000000170")
	for name, p := range map[string]journalEntry{
		"3DS Method": send(t, card.MethodURL, url.Values{"threeDSMethodData": {base64.StdEncoding.EncodeToString(data)}}),
		"code":       send(t, code["acsURL"].(string), s.form(creq(code), "")),
		"end":        send(t, over["acsURL"].(string), s.form(creq(over), "")),
	} {
		for _, header := range []string{"Cross-Origin-Opener-Policy", "X-Frame-Options", "Cross-Origin-Embedder-Policy"} {
			if got := p.header.Get(header); got != "" {
				t.Errorf("%s: %s: %s, want no such header", name, header, got)
			}
		}
		if !strings.Contains(p.header.Get("Content-Security-Policy"), "frame-ancestors *") {
			t.Errorf("%s: %s, want frame-ancestors *", name, p.header.Get("Content-Security-Policy"))
		}
		if regexp.MustCompile(`postMessage|target="?_(top|parent)|<iframe|<base`).MatchString(p.text) {
			t.Errorf("%s: the page leaves its window, or sends messages: %s", name, p.text)
		}
	}
}

package mpi_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/internal/protocol/v1/v1test"
)

func TestEnrolled(t *testing.T) {
	for _, tt := range []struct{ pan, enrolled, eci, scheme string }{
		{visaPAN, "Y", "5", "visa"}, {visaPAN, "N", "6", "visa"}, {visaPAN, "U", "7", "visa"},
		{masterPAN, "Y", "2", "mastercard"}, {masterPAN, "N", "1", "mastercard"}, {masterPAN, "U", "1", "mastercard"},
	} {
		t.Run(tt.scheme+" "+tt.enrolled, func(t *testing.T) {
			w := newWorld(t)
			w.says(func(id string) string { return veres(id, tt.enrolled) })
			a := w.Enrolled(t.Context(), shop, purchase(tt.pan))
			if string(a.Enrolled) != tt.enrolled || a.ECI != tt.eci || a.Error != nil ||
				(a.PAReq != "") != (tt.enrolled == "Y") || (a.ACSURL != "") != (tt.enrolled == "Y") {
				t.Errorf("%+v", a)
			}
			if m := last(w.asked); m.Scheme != tt.scheme || m.Name != "VEReq" || m.Message.VEReq.PAN != tt.pan ||
				m.Message.VEReq.Merchant.AcqBIN != "400551" || m.Message.VEReq.Merchant.MerID != "M-1001" {
				t.Errorf("asked %+v", m)
			}
			if want := "enrolled " + tt.scheme + " " + tt.enrolled; last(w.observed) != want {
				t.Errorf("observed %q, want %q", w.observed, want)
			}
			if strings.Contains(w.log.String(), tt.pan) {
				t.Error("the log holds the card number")
			}
		})
	}
}

// TestPAReqSaysWhatWasAsked looks into what the browser will carry.
func TestPAReqSaysWhatWasAsked(t *testing.T) {
	w := newWorld(t)
	a := w.Enrolled(t.Context(), shop, purchase(visaPAN))
	if a.ACSURL != "https://acs.example/v1?a=1&b=2" {
		t.Errorf("ACS URL %q", a.ACSURL)
	}
	req, doc := v1test.Decode(t, string(a.PAReq))
	var want v1test.PAReq
	want.Message.ID = last(w.asked).Message.ID
	p := &want.Message.PAReq
	p.Version = "1.0.2"
	p.Merchant.AcqBIN, p.Merchant.MerID, p.Merchant.Name = "400551", "M-1001", "Corner <Shop>"
	p.Merchant.Country, p.Merchant.URL = "208", "https://shop.example/?a&b"
	p.Purchase.XID = base64.StdEncoding.EncodeToString([]byte("00000000001234567890"))
	p.Purchase.Date = w.now.UTC().Format("20060102 15:04:05")
	p.Purchase.Amount, p.Purchase.PurchAmount, p.Purchase.Currency, p.Purchase.Exponent = "216.01 DKK", "21601", "208", "2"
	p.CH.AcctID, p.CH.Expiry = "acct-1", "3107"
	if diff := difftest.Diff(want, req); diff != "" {
		t.Errorf("PAReq (-want +got):\n%s", diff)
	}
	if strings.Contains(doc, visaPAN) {
		t.Error("the PAReq holds the card number")
	}
}

// unanswered is a directory server that cannot be asked.
type unanswered string

func (u unanswered) Error() string  { return "directory visa: dial tcp 10.0.0.1: " + string(u) }
func (u unanswered) Detail() string { return string(u) }

// TestErrorsOfTheDirectory goes through every way in which a directory server can fail to answer the question (M4):
// what the merchant hears, and what the directory server hears.
func TestErrorsOfTheDirectory(t *testing.T) {
	const contact = "Directory server timeout or connection error"
	const garbage = "Invalid response from the directory server"
	for _, tt := range []struct {
		name            string
		reply           func(id string) string
		err             error
		message, detail string
		reported        string // errorCode of the Error that the directory server gets
	}{
		{name: "IReq 50", reply: func(id string) string { return ireq(id, "50", "") }, message: "Acquirer not participating", detail: "Acquirer not participating"},
		{name: "IReq 51", reply: func(id string) string { return ireq(id, "51", "acqBIN") }, message: "Merchant not participating", detail: "acqBIN"},
		{name: "IReq 55 with the card", reply: func(id string) string { return ireq(id, "55", "no "+visaPAN) },
			message: "Transaction data not valid", detail: "Transaction data not valid"},
		{name: "IReq unknown", reply: func(id string) string { return ireq(id, "77", "") },
			message: "Request refused by the directory server", detail: "Request refused by the directory server"},
		{name: "Error", reply: func(id string) string {
			return message(id, "<Error><version>1.0.2</version><errorCode>5</errorCode><errorMessage>m</errorMessage><errorDetail>pan</errorDetail></Error>")
		}, message: contact, detail: "The directory server could not read the request"},
		{name: "Error 98", reply: func(id string) string {
			return message(id, "<Error><version>1.0.2</version><errorCode>98</errorCode><errorMessage>m</errorMessage></Error>")
		}, message: contact, detail: "Transient failure of the directory server"},
		{name: "Error without an id", reply: func(string) string {
			return message("", "<Error><version>1.0.2</version><errorCode>1</errorCode></Error>")
		},
			message: contact, detail: "The directory server could not read the request"},
		{name: "silence", err: context.DeadlineExceeded, message: contact, detail: "Connection timeout"},
		{name: "refused", err: unanswered("Connection refused"), message: contact, detail: "Connection refused"},
		{name: "unknown failure", err: errors.New("secret inside"), message: contact, detail: "Connection failed"},
		{name: "garbage", reply: func(string) string { return "\x00nonsense" }, message: contact, detail: garbage, reported: "1"},
		{name: "empty", reply: func(string) string { return "" }, message: contact, detail: garbage, reported: "1"},
		{name: "another message", reply: func(id string) string { return message(id, "<Nonsense/>") }, message: contact, detail: garbage, reported: "2"},
		{name: "wrong id", reply: func(id string) string { return veres(id+"0", "Y") }, message: contact, detail: garbage, reported: "5"},
		{name: "wrong id with N", reply: func(string) string { return veres("x", "N") }, message: contact, detail: garbage, reported: "5"},
		{name: "acctID is the card", reply: func(id string) string { return enrolledAt(id, visaPAN, "https://acs.example/") },
			message: contact, detail: garbage, reported: "5"},
		{name: "http", reply: func(id string) string { return enrolledAt(id, "a", "http://acs.example/") }, message: contact, detail: garbage, reported: "5"},
		{name: "http on this machine", reply: func(id string) string { return enrolledAt(id, "a", "http://127.0.0.1/") },
			message: contact, detail: garbage, reported: "5"},
		{name: "javascript", reply: func(id string) string { return enrolledAt(id, "a", "javascript:alert(1)") }, message: contact, detail: garbage, reported: "5"},
		{name: "user in the URL", reply: func(id string) string { return enrolledAt(id, "a", "https://u:p@acs.example/") },
			message: contact, detail: garbage, reported: "5"},
		{name: "long URL",
			reply:   func(id string) string { return enrolledAt(id, "a", "https://acs.example/"+strings.Repeat("x", 2048)) },
			message: contact, detail: garbage, reported: "5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for pan, eci := range map[string]string{visaPAN: "7", masterPAN: "0"} {
				w := newWorld(t)
				w.reply = func(_ context.Context, _, _ string, m sent) (string, error) {
					if tt.err != nil {
						return "", tt.err
					}
					return strings.ReplaceAll(tt.reply(m.Message.ID), visaPAN, pan), nil
				}
				a := w.Enrolled(t.Context(), shop, purchase(pan))
				if diff := difftest.Diff(api.Enrollment{ECI: eci, Error: &api.EnrollmentError{Message: tt.message, Detail: tt.detail}}, a); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				switch {
				case tt.reported == "" && len(w.reported) > 0:
					t.Errorf("reported %q", w.reported)
				case tt.reported != "" && (len(w.reported) != 1 || !strings.Contains(w.reported[0], "<errorCode>"+tt.reported+"</errorCode>") ||
					!strings.Contains(w.reported[0], `id="`+last(w.asked).Message.ID+`"`)):
					t.Errorf("reported %q, want errorCode %s", w.reported, tt.reported)
				}
				if strings.Contains(w.log.String()+strings.Join(w.reported, ""), pan) {
					t.Errorf("the card number is out: %s %q", w.log, w.reported)
				}
			}
		})
	}
}

// TestD110VEResURL: if no browser may be sent to the page of an issuer, its VERes is refused, and the requestor gets no
// address. With the directory of a test laboratory, http and loopback are allowed, and the rest of the rule holds.
func TestD110VEResURL(t *testing.T) {
	for url, want := range map[string][2]string{ // of a directory, and of a laboratory's
		"https://acs.example/": {"Y", "Y"}, "https://10.0.0.1/": {"Y", "Y"},
		"http://127.0.0.1:8081/acs": {"", "Y"}, "http://[::1]/acs": {"", "Y"}, "http://localhost/": {"", "Y"},
		"http://acs.example/": {"", "Y"}, "https://127.0.0.1/": {"", "Y"}, "https://2130706433/": {"", "Y"},
		"https://user@acs.example/": {"", ""}, "https://acs.example:99999/": {"", ""}, "https://169.254.169.254/": {"", ""},
		"https://acs.example/\u202e": {"", ""}, "https://b\u0430nk.example/": {"", ""}, `https://acs.example\`: {"", ""},
	} {
		for i, lab := range []bool{false, true} {
			w := newWorld(t)
			for j := range w.Directories {
				w.Directories[j].Lab = lab
			}
			w.says(func(id string) string { return enrolledAt(id, "a", url) })
			a := w.Enrolled(t.Context(), shop, purchase(visaPAN))
			if string(a.Enrolled) != want[i] || (string(a.ACSURL) == url) != (want[i] == "Y") {
				t.Errorf("lab %t, %q: %+v, want enrolled %q", lab, url, a, want[i])
			}
		}
	}
}

// TestSchemeWithoutDirectory: schemes without a directory server are answered immediately.
func TestSchemeWithoutDirectory(t *testing.T) {
	w := newWorld(t)
	for pan, eci := range map[string]string{"340000123456789": "7", "6011001234567890": "7", "7000001234567890": "7"} {
		a := w.Enrolled(t.Context(), shop, purchase(pan))
		if a.Enrolled != "" || a.ECI != eci || a.Error == nil || a.Error.Message == "" || a.Error.Detail == "" {
			t.Errorf("%s: %+v", pan, a)
		}
	}
	if len(w.asked) > 0 {
		t.Errorf("asked %+v", w.asked)
	}
}

// TestDirectoryThatDoesNotAnswer: a directory server that sends nothing costs less than 30 s, even if its client would
// wait for ever.
func TestDirectoryThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Now = time.Now
		w.reply = func(ctx context.Context, _, _ string, _ sent) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		start := time.Now()
		a := w.Enrolled(t.Context(), shop, purchase(visaPAN))
		if took := time.Since(start); took >= 30*time.Second || a.Error == nil || a.Error.Detail != "Connection timeout" {
			t.Errorf("%+v after %v", a, took)
		}
	})
}

// TestEnrolledWithoutStore: a PAReq that cannot be kept is not given out, and nothing is
// lost: the next try works.
func TestEnrolledWithoutStore(t *testing.T) {
	w := newWorld(t)
	w.store.fails(errDown)
	a := w.Enrolled(t.Context(), shop, purchase(visaPAN))
	if a.Enrolled != "" || a.PAReq != "" || a.ECI != "7" || a.Error == nil || a.Error.Message != "Transient system failure" {
		t.Errorf("%+v", a)
	}
	w.store.fails(nil)
	w.enroll(shop, purchase(visaPAN))
}

// TestIReqThatRepeatsTheCardNumber: the text of a refusal is not passed on when it contains the card number in any of
// the ways that people write it.
func TestIReqThatRepeatsTheCardNumber(t *testing.T) {
	for detail, told := range map[string]bool{
		"card " + visaPAN: false, "4000 0012 3456 7890": false, "4000-0012-3456-7890 of 12/30": false,
		"card 400000******7890": true, "1 of 4000 cards": true,
	} {
		w := newWorld(t)
		w.reply = func(_ context.Context, _, _ string, m sent) (string, error) {
			return ireq(m.Message.ID, "55", detail), nil
		}
		a := w.Enrolled(t.Context(), shop, purchase(visaPAN))
		if a.Error == nil || (a.Error.Detail == detail) != told {
			t.Errorf("%q: %+v, want it told: %t", detail, a.Error, told)
		}
	}
}

// TestSchemes shows the table of first digits of docs/api.md, M3.
func TestSchemes(t *testing.T) {
	for pan, want := range map[string]string{
		"4": "visa", "50": "standin", "51": "mastercard", "55": "mastercard", "56": "standin", "2220": "standin", "2221": "mastercard",
		"2720": "mastercard", "2721": "standin", "33": "standin", "34": "amex", "35": "jcb", "36": "protectbuy", "37": "amex",
		"38": "protectbuy", "39": "standin", "62": "upi", "61": "standin", "65": "protectbuy", "6011": "protectbuy", "6012": "standin",
		"5019": "sbn", "5018": "standin", "3000": "standin", "9000": "standin",
	} {
		w := newWorld(t)
		w.Directories = nil
		w.Enrolled(t.Context(), shop, purchase(pan+strings.Repeat("0", 12)))
		if got := last(w.observed); got != "enrolled "+want+" unconfigured" {
			t.Errorf("%s: %s, want %s", pan, got, want)
		}
	}
}

// TestStoredRequestHoldsNoCardNumber looks at what the store gets: no card number and no name, sealed or
// not.
func TestStoredRequestHoldsNoCardNumber(t *testing.T) {
	w := newWorld(t)
	w.Sealer = open{}
	w.enroll(shop, purchase(visaPAN))
	if len(w.store.all) == 0 {
		t.Fatal("nothing was stored")
	}
	for _, data := range w.store.all {
		for _, secret := range []string{visaPAN, visaPAN[:6], "Corner", "acct-1"} {
			if strings.Contains(string(data), secret) {
				t.Errorf("the store holds %q: %s", secret, data)
			}
		}
	}
}

// open seals nothing.
type open struct{}

func (open) Seal(_ string, plain []byte) []byte           { return plain }
func (open) Open(_ string, sealed []byte) ([]byte, error) { return sealed, nil }

package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The tests of this file show rows of docs/test-cards.md that TestCardGrid does not have.

// pay runs /preauth and /auth with a card in the browser.
func (w *world) pay(version, pan string, changes object) (int, object) {
	w.t.Helper()
	crd := w.preauth(pan)
	id, comp := crd.text("threeDSServerTransID"), "U"
	if address := crd.text("threeDSMethodURL"); address != "" && changes["threeDSCompInd"] == nil {
		w.runMethod(address, id)
		comp = "Y"
	}
	return w.post("/auth", browser(version, pan, id, comp).with(changes))
}

const noInput = "No valid test input found"

func TestCardsOutside(t *testing.T) {
	sandbox := startSandbox(t)
	refused := expected{code: "305", component: "D", description: noInput}
	for _, end := range []string{"0000", "0104", "0173", "0180", "0199", "0193", "4103", "9999", "0303", "0143", "1183"} {
		t.Run(end, func(t *testing.T) {
			w := &world{sandbox.ready, t}
			pan, version := "400000123456"+end, "2.1.0"
			crd := w.preauth(pan)
			code, got := w.post("/auth", browser(version, pan, crd.text("threeDSServerTransID"), "U"))
			refused.check(t, code, got)
			if end == "4103" || end == "9999" { // no digit of it is of the table
				if len(crd["acsProtocolVersions"].([]any)) != 3 || crd["threeDSMethodURL"] != nil {
					t.Errorf("/preauth: %v, want all versions and no method", crd)
				}
			}
		})
	}
	t.Run("D not asked for", func(t *testing.T) {
		for _, v := range allVersions {
			code, got := (&world{sandbox.ready, t}).pay(v, "4000001234560183", nil)
			refused.check(t, code, got)
		}
	})
	t.Run("I, C and D in 3RI", func(t *testing.T) {
		for _, end := range []string{"0143", "0170", "0171", "0172", "0183"} {
			for _, v := range allVersions {
				pan := "400000123456" + end
				w := &world{sandbox.ready, t}
				req := threeRI(v, pan, w.preauth(pan).text("threeDSServerTransID"))
				if v != "2.1.0" {
					req = req.with(object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"})
				}
				code, got := w.post("/auth", req)
				refused.check(t, code, got)
			}
		}
	})
	t.Run("PR-27 not enrolled", func(t *testing.T) {
		(&world{sandbox.ready, t}).refused("/preauth", object{"acctNumber": "9000100111111111"}, expected{code: "305", description: "Unknown BIN"})
	})
}

func TestCardsMethod(t *testing.T) {
	sandbox := startSandbox(t)
	bad := expected{code: "305", component: "D", description: "Invalid ThreeDSCompInd", detail: `The threeDSCompInd must be "Y" when successful`}
	for _, v := range allVersions {
		for _, comp := range []string{"N", "U"} {
			t.Run(v+" answers, then "+comp, func(t *testing.T) {
				w := &world{sandbox.ready, t}
				const pan = "4000001234560003"
				crd := w.preauth(pan)
				id := crd.text("threeDSServerTransID")
				w.runMethod(crd.text("threeDSMethodURL"), id)
				code, got := w.post("/auth", browser(v, pan, id, comp))
				bad.check(t, code, got)
			})
			t.Run(v+" never answers, then "+comp, func(t *testing.T) {
				code, got := (&world{sandbox.ready, t}).pay(v, "4000001234560203", object{"threeDSCompInd": comp})
				if code != 200 || got.text("transStatus") != "Y" {
					t.Errorf("%d %v", code, got)
				}
			})
		}
		t.Run(v+" none, then Y", func(t *testing.T) { // the server makes it U
			code, got := (&world{sandbox.ready, t}).pay(v, "4000001234560103", object{"threeDSCompInd": "Y"})
			if code != 200 || got.text("transStatus") != "Y" {
				t.Errorf("%d %v", code, got)
			}
		})
	}
}

func TestCardsScheme(t *testing.T) {
	sandbox := startSandbox(t)
	for bin, scheme := range map[string]string{
		"400000": "visa", "499999": "visa", "510000": "mastercard", "559999": "mastercard", "222100": "mastercard", "272099": "mastercard",
		"340000": "amex", "370000": "amex", "352800": "jcb", "620000": "upi", "360000": "protectbuy", "380000": "protectbuy",
		"601100": "protectbuy", "650000": "protectbuy", "501900": "sbn", "300010": "standin", "500000": "standin", "600000": "standin",
		"700000": "standin", "100000": "standin", "222000": "standin", "272100": "standin", "560000": "standin", "500010": "standin",
	} {
		t.Run(bin, func(t *testing.T) {
			w := &world{sandbox.ready, t}
			if got := w.preauth(bin + "1234560103").text("scheme"); got != scheme {
				t.Errorf("%s: %s, want %s", bin, got, scheme)
			}
			if code, got := w.pay("2.2.0", bin+"1234560103", nil); code != 200 || got.text("transStatus") != "Y" {
				t.Errorf("%d %v", code, got)
			}
		})
	}
}

func TestCardsOlder(t *testing.T) {
	sandbox := startSandbox(t)
	for prefix, version := range map[string]string{"9000": "2.1.0", "9001": "2.2.0"} {
		for _, tt := range []struct{ digits, last, status, method, result string }{
			{"1004", "00000000", "Y", "silent", ""}, {"1005", "00000000", "Y", "answers", ""}, {"1006", "00000000", "Y", "", ""},
			{"1008", "00000000", "C", "answers", ""}, {"1009", "00000000", "C", "answers", "Y"}, {"1010", "00000000", "C", "answers", "N"},
			{"1011", "00000000", "C", "", "Y"}, {"1012", "00000000", "C", "", ""},
			{"1050", "00000000", "N", "", ""}, {"1050", "38106791", "N", "", ""}, {"1050", "38106792", "U", "", ""},
			{"1050", "65730666", "U", "", ""}, {"1050", "65730667", "R", "", ""}, {"1050", "99999999", "R", "", ""},
			{"1051", "00000000", "N", "", ""}, {"1055", "00000000", "Y", "", ""}, {"1056", "00000000", "A", "", ""},
		} {
			t.Run(prefix+tt.digits+tt.last, func(t *testing.T) {
				w := &world{sandbox.ready, t}
				pan := prefix + tt.digits + tt.last
				crd := w.preauth(pan)
				if (crd.text("threeDSMethodURL") != "") != (tt.method != "") {
					t.Errorf("threeDSMethodURL = %v", crd["threeDSMethodURL"])
				}
				changes := object(nil)
				if tt.method == "silent" {
					changes = object{"threeDSCompInd": "N"}
				}
				code, got := w.pay(version, pan, changes)
				if code != 200 || got.text("transStatus") != tt.status {
					t.Fatalf("%d %v, want %s", code, got, tt.status)
				}
				if (got["cardholderInfo"] != nil) != (tt.digits == "1051") {
					t.Errorf("cardholderInfo = %v", got["cardholderInfo"])
				}
				if tt.result != "" {
					w.challenge(got)
					code, got = w.post("/postauth", object{"threeDSServerTransID": got["threeDSServerTransID"]})
					if code != 200 || got.text("transStatus") != tt.result {
						t.Errorf("/postauth: %d %v, want %s", code, got, tt.result)
					}
				}
			})
		}
		for digits, status := range map[string]string{"1105": "Y", "1106": "A", "1107": "U", "1108": "R"} {
			t.Run(prefix+digits+" 3RI", func(t *testing.T) {
				w := &world{sandbox.ready, t}
				pan := prefix + digits + "00000000"
				code, got := w.post("/auth", threeRI(version, pan, ""))
				if code != 200 || got.text("transStatus") != status {
					t.Errorf("%d %v, want %s", code, got, status)
				}
			})
		}
		t.Run(prefix+" in another version", func(t *testing.T) {
			for _, v := range allVersions {
				if v != version {
					code, got := (&world{sandbox.ready, t}).pay(v, prefix+"100600000000", nil)
					expected{code: "102", detail: version}.check(t, code, got)
				}
			}
		})
	}
}

func TestCardsChannels(t *testing.T) {
	sandbox := startSandbox(t)
	for name, make := range map[string]func(version, pan, transID string) object{"app": app, "3RI": threeRI} {
		for _, v := range allVersions {
			for end, status := range map[string]string{"0103": "Y", "0113": "N", "0123": "A", "0133": "R", "0153": "U", "0003": "Y", "0203": "Y"} {
				t.Run(fmt.Sprint(name, " ", v, " ", end), func(t *testing.T) {
					code, got := (&world{sandbox.ready, t}).post("/auth", make(v, "400000123456"+end, ""))
					if code != 200 || got.text("transStatus") != status {
						t.Errorf("%d %v, want %s", code, got, status)
					}
				})
			}
			t.Run(name+" "+v+" of a card without it", func(t *testing.T) {
				end := map[string]string{"2.1.0": "2103", "2.2.0": "3103", "2.3.1": "1103"}[v]
				w := &world{sandbox.ready, t}
				w.refused("/auth", make(v, "400000123456"+end, ""), expected{code: "102", description: "Unsupported message version"})
			})
		}
	}
	for _, v := range allVersions {
		for end, result := range map[string]string{"0170": "Y", "0171": "N"} {
			t.Run("app "+v+" "+end, func(t *testing.T) {
				t.Parallel() // the app takes its time
				w := &world{sandbox.ready, t}
				code, got := w.post("/auth", app(v, "400000123456"+end, ""))
				if code != 200 || got.text("transStatus") != "C" || strings.Count(got.text("acsSignedContent"), ".") != 2 {
					t.Fatalf("%d %v", code, got)
				}
				w.awaitResult(got, result)
			})
		}
	}
}

// awaitResult polls /postauth until the result is there.
func (w *world) awaitResult(ares object, status string) {
	w.t.Helper()
	id := object{"threeDSServerTransID": ares["threeDSServerTransID"]}
	w.refused("/postauth", id, expected{code: "305"})
	waitFor(w.t, "the result", func() bool {
		code, got := w.post("/postauth", id)
		if code == 200 && (got.text("messageType") != "RReq" || got.text("transStatus") != status) {
			w.t.Errorf("%v, want %s", got, status)
		}
		return code == 200
	})
}

// TestCardsSlow has the cards whose point is time.
func TestCardsSlow(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	sandbox := startSandbox(t)
	t.Run("all", func(t *testing.T) { // ends when they all have
		for _, v := range allVersions[1:] {
			for name, request := range map[string]func(w *world) object{
				"browser": func(w *world) object {
					return browser(v, "4000001234560183", w.preauth("4000001234560183").text("threeDSServerTransID"), "U")
				},
				"app": func(*world) object { return app(v, "4000001234560183", "") },
			} {
				t.Run("decoupled "+v+" "+name, func(t *testing.T) {
					t.Parallel()
					w := &world{sandbox.ready, t}
					req := request(w).with(object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"})
					code, got := w.post("/auth", req)
					if code != 200 || got.text("transStatus") != "D" {
						t.Fatalf("%d %v", code, got)
					}
					w.awaitResult(got, "Y")
				})
			}
		}
		for _, pan := range []string{"4000001234560163", "9000105300000000"} {
			t.Run("silent "+pan, func(t *testing.T) {
				t.Parallel()
				w := &world{sandbox.ready, t}
				crd := w.preauth(pan)
				start := time.Now()
				code, got := w.post("/auth", browser("2.1.0", pan, crd.text("threeDSServerTransID"), "U"))
				took := time.Since(start)
				expected{code: "405", description: "Unable to contact Directory Server", detail: "Connection timeout", msg: "AReq"}.check(t, code, got)
				if took < 10*time.Second || took > 12*time.Second { // TestAuthTime looks closer
					t.Errorf("it took %v", took)
				}
				w.spent(crd.text("threeDSServerTransID"))
				w.refused("/postauth", object{"threeDSServerTransID": crd["threeDSServerTransID"]}, expected{code: "203", detail: "Unknown threeDSServerTransID"})
			})
		}
	})
}

// TestSandboxPages: what a browser opens is plain http on this machine, and the
// shop answers.
func TestSandboxPages(t *testing.T) {
	w := startSandbox(t)
	crd := w.preauth("4000001234560003")
	_, answer := w.pay("2.2.0", "4000001234560172", nil)
	for name, address := range map[string]string{
		"3DS Method": crd.text("threeDSMethodURL"), "challenge": answer.text("acsURL"), "shop": w.Shop, "ACS": w.ACS,
	} {
		if !strings.HasPrefix(address, "http://127.0.0.1:") && !strings.HasPrefix(address, "http://localhost:") {
			t.Errorf("%s is at %q", name, address)
		}
	}
	for _, path := range []string{"", "/steps"} {
		res, err := http.Get(w.Shop + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 200 || res.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("the shop's page %q: %d %v", path, res.StatusCode, res.Header)
		}
	}
	order := `{"card": "4000001234560003", "expiry": "12/30", "name": "Alex Example", "plan": "once", "window": "05"}`
	res, err := http.Post(w.Shop+"/checkout", "application/json", strings.NewReader(order))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if got := parseObject(t, data); err != nil || got.text("state") != "method" {
		t.Errorf("paying in the shop: %d %s, %v", res.StatusCode, data, err)
	}
}

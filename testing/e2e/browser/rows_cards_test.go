package browser

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

const noInput = "No valid test input found"

func TestCardsOutside(t *testing.T) {
	t.Parallel()
	sandbox := rig.StartSandbox(t)
	refused := rig.Expected{Code: "305", Component: "D", Description: noInput}
	for _, end := range []string{"0000", "0104", "0173", "0180", "0199", "0193", "4103", "9999", "0303", "0143", "1183"} {
		t.Run(end, func(t *testing.T) {
			w := &rig.World{ReadyFile: sandbox.ReadyFile, T: t}
			pan, version := "400000123456"+end, "2.1.0"
			crd := w.Preauth(pan)
			code, got := w.Post("/auth", rig.BrowserRequest(version, pan, crd.Text("threeDSServerTransID"), "U"))
			refused.Check(t, code, got)
			if end == "4103" || end == "9999" { // no digit of it is of the table
				if len(crd["acsProtocolVersions"].([]any)) != 3 || crd["threeDSMethodURL"] != nil {
					t.Errorf("/preauth: %v, want all versions and no method", crd)
				}
			}
		})
	}
	t.Run("D not asked for", func(t *testing.T) {
		for _, v := range rig.AllVersions {
			code, got := (&rig.World{ReadyFile: sandbox.ReadyFile, T: t}).Pay(v, "4000001234560183", nil)
			refused.Check(t, code, got)
		}
	})
	t.Run("I, C and D in 3RI", func(t *testing.T) {
		for _, end := range []string{"0143", "0170", "0171", "0172", "0183"} {
			for _, v := range rig.AllVersions {
				pan := "400000123456" + end
				w := &rig.World{ReadyFile: sandbox.ReadyFile, T: t}
				req := rig.ThreeRIRequest(v, pan, w.Preauth(pan).Text("threeDSServerTransID"))
				if v != "2.1.0" {
					req = req.With(rig.Object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"})
				}
				code, got := w.Post("/auth", req)
				refused.Check(t, code, got)
			}
		}
	})
	t.Run("PR-27 not enrolled", func(t *testing.T) {
		(&rig.World{ReadyFile: sandbox.ReadyFile, T: t}).Refused("/preauth", rig.Object{"acctNumber": "9000100111111111"},
			rig.Expected{Code: "305", Description: "Unknown BIN"})
	})
}

func TestCardsMethod(t *testing.T) {
	t.Parallel()
	sandbox := rig.StartSandbox(t)
	bad := rig.Expected{Code: "305", Component: "D", Description: "Invalid ThreeDSCompInd", Detail: `The threeDSCompInd must be "Y" when successful`}
	for _, v := range rig.AllVersions {
		for _, comp := range []string{"N", "U"} {
			t.Run(v+" answers, then "+comp, func(t *testing.T) {
				w := &rig.World{ReadyFile: sandbox.ReadyFile, T: t}
				const pan = "4000001234560003"
				crd := w.Preauth(pan)
				id := crd.Text("threeDSServerTransID")
				w.RunMethod(crd.Text("threeDSMethodURL"), id)
				code, got := w.Post("/auth", rig.BrowserRequest(v, pan, id, comp))
				if comp == "N" { // the notification may have come late
					if code != 200 || got.Text("transStatus") != "Y" {
						t.Errorf("%d %v", code, got)
					}
					return
				}
				bad.Check(t, code, got)
			})
			t.Run(v+" never answers, then "+comp, func(t *testing.T) {
				code, got := (&rig.World{ReadyFile: sandbox.ReadyFile, T: t}).Pay(v, "4000001234560203", rig.Object{"threeDSCompInd": comp})
				if code != 200 || got.Text("transStatus") != "Y" {
					t.Errorf("%d %v", code, got)
				}
			})
		}
		t.Run(v+" none, then Y", func(t *testing.T) { // the server makes it U
			code, got := (&rig.World{ReadyFile: sandbox.ReadyFile, T: t}).Pay(v, "4000001234560103", rig.Object{"threeDSCompInd": "Y"})
			if code != 200 || got.Text("transStatus") != "Y" {
				t.Errorf("%d %v", code, got)
			}
		})
	}
}

func TestCardsScheme(t *testing.T) {
	t.Parallel()
	sandbox := rig.StartSandbox(t)
	for bin, scheme := range map[string]string{
		"400000": "visa", "499999": "visa", "510000": "mastercard", "559999": "mastercard", "222100": "mastercard", "272099": "mastercard",
		"340000": "amex", "370000": "amex", "352800": "jcb", "620000": "upi", "360000": "protectbuy", "380000": "protectbuy",
		"601100": "protectbuy", "650000": "protectbuy", "501900": "sbn", "300010": "standin", "500000": "standin", "600000": "standin",
		"700000": "standin", "100000": "standin", "222000": "standin", "272100": "standin", "560000": "standin", "500010": "standin",
	} {
		t.Run(bin, func(t *testing.T) {
			w := &rig.World{ReadyFile: sandbox.ReadyFile, T: t}
			if got := w.Preauth(bin + "1234560103").Text("scheme"); got != scheme {
				t.Errorf("%s: %s, want %s", bin, got, scheme)
			}
			if code, got := w.Pay("2.2.0", bin+"1234560103", nil); code != 200 || got.Text("transStatus") != "Y" {
				t.Errorf("%d %v", code, got)
			}
		})
	}
}

func TestCardsOlder(t *testing.T) {
	t.Parallel()
	sandbox := rig.StartSandbox(t)
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
				w := &rig.World{ReadyFile: sandbox.ReadyFile, T: t}
				pan := prefix + tt.digits + tt.last
				crd := w.Preauth(pan)
				if (crd.Text("threeDSMethodURL") != "") != (tt.method != "") {
					t.Errorf("threeDSMethodURL = %v", crd["threeDSMethodURL"])
				}
				changes := rig.Object(nil)
				if tt.method == "silent" {
					changes = rig.Object{"threeDSCompInd": "N"}
				}
				code, got := w.Pay(version, pan, changes)
				if code != 200 || got.Text("transStatus") != tt.status {
					t.Fatalf("%d %v, want %s", code, got, tt.status)
				}
				if (got["cardholderInfo"] != nil) != (tt.digits == "1051") {
					t.Errorf("cardholderInfo = %v", got["cardholderInfo"])
				}
				if tt.result != "" {
					w.Challenge(got)
					code, got = w.Post("/postauth", rig.Object{"threeDSServerTransID": got["threeDSServerTransID"]})
					if code != 200 || got.Text("transStatus") != tt.result {
						t.Errorf("/postauth: %d %v, want %s", code, got, tt.result)
					}
				}
			})
		}
		for digits, status := range map[string]string{"1105": "Y", "1106": "A", "1107": "U", "1108": "R"} {
			t.Run(prefix+digits+" 3RI", func(t *testing.T) {
				w := &rig.World{ReadyFile: sandbox.ReadyFile, T: t}
				pan := prefix + digits + "00000000"
				code, got := w.Post("/auth", rig.ThreeRIRequest(version, pan, ""))
				if code != 200 || got.Text("transStatus") != status {
					t.Errorf("%d %v, want %s", code, got, status)
				}
			})
		}
		t.Run(prefix+" in another version", func(t *testing.T) {
			for _, v := range rig.AllVersions {
				if v != version {
					code, got := (&rig.World{ReadyFile: sandbox.ReadyFile, T: t}).Pay(v, prefix+"100600000000", nil)
					rig.Expected{Code: "102", Detail: version}.Check(t, code, got)
				}
			}
		})
	}
}

func TestCardsChannels(t *testing.T) {
	t.Parallel()
	sandbox := rig.StartSandbox(t)
	for name, make := range map[string]func(version, pan, transID string) rig.Object{"app": rig.AppRequest, "3RI": rig.ThreeRIRequest} {
		for _, v := range rig.AllVersions {
			for end, status := range map[string]string{"0103": "Y", "0113": "N", "0123": "A", "0133": "R", "0153": "U", "0003": "Y", "0203": "Y"} {
				t.Run(fmt.Sprint(name, " ", v, " ", end), func(t *testing.T) {
					code, got := (&rig.World{ReadyFile: sandbox.ReadyFile, T: t}).Post("/auth", make(v, "400000123456"+end, ""))
					if code != 200 || got.Text("transStatus") != status {
						t.Errorf("%d %v, want %s", code, got, status)
					}
				})
			}
			t.Run(name+" "+v+" of a card without it", func(t *testing.T) {
				end := map[string]string{"2.1.0": "2103", "2.2.0": "3103", "2.3.1": "1103"}[v]
				w := &rig.World{ReadyFile: sandbox.ReadyFile, T: t}
				w.Refused("/auth", make(v, "400000123456"+end, ""), rig.Expected{Code: "102", Description: "Unsupported message version"})
			})
		}
	}
	for _, v := range rig.AllVersions {
		for end, result := range map[string]string{"0170": "Y", "0171": "N"} {
			t.Run("app "+v+" "+end, func(t *testing.T) {
				t.Parallel() // the app takes its time
				w := &rig.World{ReadyFile: sandbox.ReadyFile, T: t}
				code, got := w.Post("/auth", rig.AppRequest(v, "400000123456"+end, ""))
				if code != 200 || got.Text("transStatus") != "C" || strings.Count(got.Text("acsSignedContent"), ".") != 2 {
					t.Fatalf("%d %v", code, got)
				}
				awaitResult(w, got, result)
			})
		}
	}
}

// awaitResult polls /postauth until the result is there.
func awaitResult(w *rig.World, ares rig.Object, status string) {
	w.T.Helper()
	id := rig.Object{"threeDSServerTransID": ares["threeDSServerTransID"]}
	w.Refused("/postauth", id, rig.Expected{Code: "305"})
	waittest.Until(w.T, "the result", func() bool {
		code, got := w.Post("/postauth", id)
		if code == 200 && (got.Text("messageType") != "RReq" || got.Text("transStatus") != status) {
			w.T.Errorf("%v, want %s", got, status)
		}
		return code == 200
	})
}

// TestCardsSlow has the cards whose point is time.
func TestCardsSlow(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	sandbox, impatient := rig.StartSandbox(t), rig.StartSandbox(t, "--directory-timeout", "3s")
	t.Run("all", func(t *testing.T) { // ends when they all have
		for _, v := range rig.AllVersions[1:] {
			for name, request := range map[string]func(w *rig.World) rig.Object{
				"browser": func(w *rig.World) rig.Object {
					return rig.BrowserRequest(v, "4000001234560183", w.Preauth("4000001234560183").Text("threeDSServerTransID"), "U")
				},
				"app": func(*rig.World) rig.Object { return rig.AppRequest(v, "4000001234560183", "") },
			} {
				t.Run("decoupled "+v+" "+name, func(t *testing.T) {
					t.Parallel()
					w := &rig.World{ReadyFile: sandbox.ReadyFile, T: t}
					req := request(w).With(rig.Object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"})
					code, got := w.Post("/auth", req)
					if code != 200 || got.Text("transStatus") != "D" {
						t.Fatalf("%d %v", code, got)
					}
					awaitResult(w, got, "Y")
				})
			}
		}
		for _, pan := range []string{"4000001234560163", "9000105300000000"} {
			t.Run("silent "+pan, func(t *testing.T) {
				t.Parallel()
				w := &rig.World{ReadyFile: impatient.ReadyFile, T: t}
				crd := w.Preauth(pan)
				start := time.Now()
				code, got := w.Post("/auth", rig.BrowserRequest("2.1.0", pan, crd.Text("threeDSServerTransID"), "U"))
				took := time.Since(start)
				rig.Expected{Code: "405", Description: "Unable to contact Directory Server", Detail: "Connection timeout", Msg: "AReq"}.Check(t, code, got)
				if took < 3*time.Second { // the directory has that long; TestAuthTime looks closer
					t.Errorf("it took %v", took)
				}
				w.Spent(crd.Text("threeDSServerTransID"))
				w.Refused("/postauth", rig.Object{"threeDSServerTransID": crd["threeDSServerTransID"]}, rig.Expected{Code: "203", Detail: "Unknown threeDSServerTransID"})
			})
		}
	})
}

// TestSandboxPages: what a browser opens is plain http on this machine, and the
// shop answers.
func TestSandboxPages(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	crd := w.Preauth("4000001234560003")
	_, answer := w.Pay("2.2.0", "4000001234560172", nil)
	for name, address := range map[string]string{
		"3DS Method": crd.Text("threeDSMethodURL"), "challenge": answer.Text("acsURL"), "shop": w.Shop, "ACS": w.ACS,
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
	if got := rig.ParseObject(t, data); err != nil || got.Text("state") != "method" {
		t.Errorf("paying in the shop: %d %s, %v", res.StatusCode, data, err)
	}
}

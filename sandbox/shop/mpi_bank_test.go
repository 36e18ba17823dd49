package shop

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// mpi is api for the operations of 1.0.2: a form, and the key as a user's name.
func (b *bank) mpi(op func(url.Values) (int, object)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		key, password, _ := r.BasicAuth()
		if err := r.ParseForm(); err != nil || len(r.URL.RawQuery) > 0 || password != "" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		body := object{}
		for name := range r.PostForm {
			body[name] = r.PostForm.Get(name)
		}
		b.calls = append(b.calls, apiCall{r.URL.Path, key, body})
		if key != testKey {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		status, answer := op(r.PostForm)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// zipped is what the fields PaReq and PaRes carry.
func zipped(text string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(text)) // a bytes.Buffer does not fail
	_ = z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

const bankXID = "MDAwMDAwMDAwMDEyMzQ1Njc4OTA="

// enrolled plays the directory server: the last four digits decide, as in the
// sandbox.
func (b *bank) enrolled(form url.Values) (int, object) {
	card := form.Get("card[number]")
	answer := object{"acs_url": nil, "pareq": nil, "enrolled": nil, "eci": "7", "error": nil}
	switch {
	case !strings.HasPrefix(card, "4"):
		answer["error"] = object{"message": "3-D Secure 1 is not available for this card", "detail": "No directory server" + b.echo}
	case digit4(card, 0) == "0":
		answer["acs_url"], answer["enrolled"], answer["eci"] = b.ACS.URL+"/pareq", "Y", "5"
		answer["pareq"] = zipped(`<ThreeDSecure><Message id="m1"><PAReq><version>1.0.2</version><Purchase><xid>` + bankXID +
			`</xid><purchAmount>` + form.Get("amount") +
			`</purchAmount></Purchase><CH><acctID>card-` + card + `</acctID><expiry>2912</expiry></CH></PAReq></Message></ThreeDSecure>`)
	case digit4(card, 0) == "1":
		answer["enrolled"], answer["eci"] = "N", "6"
	case digit4(card, 0) == "2":
		answer["enrolled"] = "U"
	case digit4(card, 0) == "3":
		answer["error"] = object{"message": "Directory server timeout or connection error", "detail": "Connection timeout"}
	case digit4(card, 0) == "8":
		return http.StatusBadRequest, object{"error": object{"param": "card[number]", "type": "invalid_param", "message": nil}}
	}
	return http.StatusOK, answer
}

// check reads the answer out of the PaRes that paRes has made.
func (b *bank) check(form url.Values) (int, object) {
	text, err := decodePacked(form.Get("pares"))
	if err != nil || elementOf(text, "signature") != "good" {
		return http.StatusBadRequest, object{"error": object{"param": "pares", "type": "invalid_param", "message": nil}}
	}
	answer := object{"cavv": "", "cavv_algorithm": "", "eci": "7"}
	for name, element := range map[string]string{
		"amount": "purchAmount", "currency": "currency", "merchant_id": "merID", "last4": "pan", "status": "status", "xid": "xid",
	} {
		answer[name] = elementOf(text, element)
	}
	switch answer["status"] {
	case "Y":
		answer["cavv"], answer["eci"], answer["cavv_algorithm"] = "AAABBZEEBgAAAAAAAAQGAAAAAAA=", "5", "2"
	case "A":
		answer["cavv"], answer["eci"], answer["cavv_algorithm"] = "CAABBZEEBgAAAAAAAAQGAAAAAAA=", "6", "2"
	}
	return http.StatusOK, answer
}

// paRes is the bank's answer for a card: good, or with another signature.
func paRes(card, status string, changes ...string) string {
	text := fmt.Sprintf(
		`<ThreeDSecure><Message id="m1"><PARes id="p1"><merID>%s</merID><xid>%s</xid><purchAmount>12900</purchAmount><currency>EUR</currency><pan>%s</pan>`+
			`<status>%s</status><cavv>AAABBZEEBgAAAAAAAAQGAAAAAAA=</cavv></PARes><signature>good</signature></Message></ThreeDSecure>`,
		acquirerID, bankXID, card[len(card)-4:], status)
	return zipped(strings.NewReplacer(changes...).Replace(text))
}

// payer is the issuer's page: it posts itself to TermUrl.
func (b *bank) payer(w http.ResponseWriter, r *http.Request) {
	text, err := decodePacked(r.PostFormValue("PaReq"))
	if _, marked := r.PostForm["MD"]; err != nil || !marked {
		http.Error(w, "PaReq, MD", http.StatusBadRequest)
		return
	}
	card := strings.TrimPrefix(elementOf(text, "acctID"), "card-")
	status := map[string]string{"0": "Y", "1": "A", "2": "N", "3": "U", "4": "Y"}[digit4(card, 3)]
	changes := []string{}
	if digit4(card, 3) == "4" {
		changes = []string{">good<", ">bad<"}
	}
	_ = postPage.Execute(w, object{"Action": r.PostFormValue("TermUrl"), "Fields": object{
		"PaRes": paRes(card, status, changes...), "MD": r.PostFormValue("MD")}})
}

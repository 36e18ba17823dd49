package browser

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// oddBodies are what comes from careless or hostile clients. The number in them is
// nowhere in an answer.
func oddBodies() map[string]string {
	const number = "4000001234560103"
	good := `{"acctNumber":"` + number + `","pares":"` + number + `"}`
	wide := func(order func(hi, lo byte) []byte, mark bool) string {
		var b []byte
		text := good
		if mark {
			text = "\ufeff" + text
		}
		for _, u := range utf16.Encode([]rune(text)) {
			b = append(b, order(byte(u>>8), byte(u))...)
		}
		return string(b)
	}
	big := func(hi, lo byte) []byte { return []byte{hi, lo} }
	little := func(hi, lo byte) []byte { return []byte{lo, hi} }
	return map[string]string{
		"empty": "", "blanks": " \r\n\t", "zero byte": "\x00", "gzip": "\x1f\x8b\x08\x00\x00\x00\x00\x00",
		"UTF-16LE": wide(little, false), "UTF-16LE with mark": wide(little, true), "UTF-16BE with mark": wide(big, true), "UTF-8 with mark": "\ufeff" + good,
		"bad UTF-8": "{\"acctNumber\":\"" + number + "\xff\xfe\"}", "bad UTF-8 in a name": "{\"\xc3" + number + "\":1}",
		"overlong": "{\"acctNumber\":\"\xc0\xb4" + number + "\"}", "surrogate": "{\"acctNumber\":\"\xed\xa0\x80\"}", "lone surrogate": `{"acctNumber":"\ud800"}`,
		"zero in a text": `{"acctNumber":"4\u0000` + number + `","pares":"\u0000"}`, "line break in a text": "{\"acctNumber\":\"" + number + "\n\"}",
		"twice":                      `{"acctNumber":"` + number + `","acctNumber":"x","pares":"a","pares":"b"}`,
		"twice in other case":        `{"acctNumber":"` + number + `","ACCTNUMBER":"x"}`,
		"twice by escapes":           `{"acctNumber":"` + number + `","\u0061cctNumber":"x"}`,
		"a number for a name, twice": `{"` + number + `":1,"` + number + `":2}`,
		"long s":                     `{"meſſageType":"` + number + `"}`, "11 deep": strings.Repeat(`{"a":`, 10) + "{}" + strings.Repeat("}", 10),
		"20000 deep": `{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}", "without end": strings.Repeat("[", 60000),
		"array": `["` + number + `"]`, "text": `"` + number + `"`, "digits": number, "null": "null", "two": good + good, "more behind it": good + number,
		"trailing comma": `{"acctNumber":"` + number + `",}`,
		"comment":        "{/*" + number + "*/}", "single quotes": "{'acctNumber':'" + number + "'}",
		"NaN": `{"acctNumber":NaN}`, "cut off": `{"acctNumber":"` + number,
		"object for a text": `{"acctNumber":{"a":"` + number + `"},"pares":{"a":1},"card":[],"threeDSServerTransID":{}}`,
		"digits for a text": `{"acctNumber":` + number + `,"pares":1e999999,"threeDSServerTransID":` + number + `}`,
		"markup":            `{"acctNumber":"<script>` + number + `</script>","ds":"<b>","messageVersion":"<b>","threeDSServerTransID":"<b>","pares":"<b>"}`,
		"1001 members":      `{"acctNumber":"x"` + rig.MoreMembers(1000) + "}", "a long name": `{"` + strings.Repeat("a", 60000) + `":1}`,
		"form": "acctNumber=" + number + "&card[number]=%ff%fe&pares=%zz", "form, broken": "%&=&pares=%00&card[number]=" + number + "&card[number]=" + number,
	}
}

// TestOddBodies: each of them is answered on each path with 400 and an error in JSON
// that says what is wrong and repeats nothing.
func TestOddBodies(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	for _, path := range []string{"/preauth", "/auth", "/postauth", "/enrolled", "/check"} {
		for name, body := range oddBodies() {
			for _, kind := range []string{"application/json", "application/x-www-form-urlencoded"} {
				req, err := http.NewRequest(http.MethodPost, w.API+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", kind)
				req.Header.Set("APIKey", w.APIKey)
				req.SetBasicAuth(w.APIKey, "")
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatalf("%s, %s as %s: %v", path, name, kind, err)
				}
				data, _ := io.ReadAll(res.Body)
				res.Body.Close()
				var told struct {
					ErrorDetail string
					Error       struct{ Type string }
				}
				err = json.Unmarshal(data, &told)
				if h := res.Header; res.StatusCode != 400 || err != nil || told.ErrorDetail == "" && told.Error.Type == "" ||
					h.Get("Content-Type") != "application/json; charset=utf-8" || h.Get("Cache-Control") != "no-store" {
					t.Errorf("%s, %s as %s: %d %v %s", path, name, kind, res.StatusCode, h, data)
				}
				for _, secret := range []string{"400000", "0103", "<", "ſ"} {
					if strings.Contains(string(data), secret) {
						t.Errorf("%s, %s as %s: the answer repeats what was sent: %s", path, name, kind, data)
					}
				}
			}
		}
	}
}

package journal

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// typedPAN is a card number that people type where none belongs.
const typedPAN = "4111111111111111"

// spellingsOf are the ways in which people and programs write a card number.
func spellingsOf(pan string) map[string]string {
	groups := []string{pan[:4], pan[4:8], pan[8:12], pan[12:]}
	all := map[string]string{"digits": pan, "base64": base64.StdEncoding.EncodeToString([]byte(pan)), "hexadecimal": hex.EncodeToString([]byte(pan))}
	for name, separator := range map[string]string{"blanks": " ", "dots": ".", "dashes": "-", "slashes": "/", "underscores": "_"} {
		all[name] = strings.Join(groups, separator)
	}
	all["a text"] = "card " + pan + " of jo"
	return all
}

// groupedForm is the number with whatever stands between its digits.
var groupedForm = regexp.MustCompile(strings.Join(strings.Split(typedPAN, ""), `[^0-9A-Za-z"]{0,3}`))

// restsIn says in which spelling data holds the number, "" if in none.
func restsIn(data []byte) string {
	if found := groupedForm.Find(data); found != nil {
		return "the number"
	}
	for _, name := range []string{"base64", "hexadecimal"} {
		if strings.Contains(string(data), strings.TrimRight(spellingsOf(typedPAN)[name], "=")) {
			return name
		}
	}
	return ""
}

// TestA4NoCardNumberRests: in nine spellings a card number is typed into every field that a person or a request can
// fill, and it is in no file, log line, audit trail, journal, export or backup. A name or a label with one is refused,
// a reference is kept without it, and no answer repeats it.
func TestA4NoCardNumberRests(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{
		Console:  `console: {listen: "127.0.0.1:0", url: "http://localhost:9090"}`,
		Sections: "webhooks: {allow: [127.0.0.0/8], http: true}\n",
	})
	if restsIn([]byte("a 4111/1111 1111_1111 b")) == "" || restsIn([]byte("x "+spellingsOf(typedPAN)["base64"])) == "" {
		t.Fatal("a planted number is not found: the test shows nothing")
	}
	token := strings.TrimSpace(command(s, "", "token", "create", "--name", "ci", "--role", "admin"))
	admin := func(method, path string, body rig.Object) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), method, s.ConsoleURL+"/admin/v1/"+path, strings.NewReader(string(rig.Marshal(body))))
		rig.Must(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		rig.Must(t, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		rig.Must(t, err)
		return res.StatusCode, data
	}
	refuse := func(where string, code int, answer []byte) {
		t.Helper()
		if code != 400 || restsIn(answer) != "" {
			t.Errorf("%s: %d %s, want it refused without the number", where, code, answer)
		}
	}
	for name, text := range spellingsOf(typedPAN) {
		for path, bodies := range map[string][]rig.Object{
			"keys":      {{"merchant": "Shop", "label": text}},
			"merchants": {{"name": text}, {"name": "New", "requestor_name": text}, {"name": "New", "merchant_name": text}},
			"tokens":    {{"name": text, "role": "viewer"}, {"name": "new", "role": "viewer", "merchant": text}},
			"operators": {{"name": text, "role": "viewer"}, {"name": "new", "role": "viewer", "merchant": text}},
			"webhook-endpoints": {{"merchant": "Shop", "url": "https://shop.example/" + strings.ReplaceAll(text, " ", "%20")},
				{"merchant": "Shop", "url": "https://shop.example/", "description": text}},
			"journal/erase": {{"merchant": text}},
		} {
			for _, body := range bodies {
				code, answer := admin("POST", path, body)
				if path == "journal/erase" && code == 200 { // a merchant that nobody has
					code = 400
				}
				refuse(name+" "+path, code, answer)
			}
		}
		for _, field := range []string{"id", "reference", "acs", "reason", "merchant", "scheme", "status", "result", "last4", "cursor"} {
			admin("POST", "authentications/search", rig.Object{field: text})
		}
		admin("POST", "certificates/visa/request", rig.Object{"subject": "CN=" + text})
		admin("GET", "journal/export?merchant="+strings.ReplaceAll(text, " ", "+"), nil)
		for _, args := range [][]string{
			{"key", "create", "--name", text}, {"key", "create", "--name", "Shop", "--label", text}, {"token", "create", "--role", "viewer", "--name", text},
			{"token", "create", "--role", "viewer", "--name", "x", "--merchant", text}, {"operator", "invite", "--role", "viewer", "--name", text},
			{"merchant", "add", text}, {"webhook", "add", "--merchant", text, "https://shop.example/"},
			{"webhook", "add", "--merchant", "Shop", "https://shop.example/" + text}, {"token", "revoke", text},
			{"operator", "remove", text}, {"webhook", "remove", "--merchant", "Shop", text}, {"merchant", "remove", text},
		} {
			var out strings.Builder
			if code := rig.Run(t.Context(), append(args, "--config", s.ConfigFile), strings.NewReader(""), &out, &out); code == 0 {
				t.Errorf("%s %s: %d %s", name, args[:2], code, out.String())
			}
		}
		for _, args := range [][]string{
			{"journal", "search", "--reference", text}, {"journal", "search", "--acs", text},
			{"audit", "search", "--object", text}, {"journal", "export", "--merchant", text},
		} {
			var out strings.Builder
			rig.Run(t.Context(), append(args, "--config", s.ConfigFile), strings.NewReader(""), &out, &out)
		}
		id := s.Preauth(rig.EnrolledPAN).Text("threeDSServerTransID")
		good := rig.BrowserRequest("2.2.0", rig.EnrolledPAN, id, "U")
		res, answer := s.Call("POST", "/auth", s.APIKey, good, "X-Reference", text)
		if restsIn(answer) != "" {
			t.Errorf("%s X-Reference: %d %s", name, res.StatusCode, answer)
		}
		res, answer = s.Call("POST", "/authentications", s.APIKey, rig.ThreeRIRequest("2.2.0", rig.EnrolledPAN,
			"").With(rig.Object{"reference": text, "messageType": nil, "threeDSServerTransID": nil}))
		if res.StatusCode != 201 || restsIn(answer) != "" {
			t.Errorf("%s reference: %d %s", name, res.StatusCode, answer)
		}
		for _, field := range []string{
			"browserUserAgent", "browserAcceptHeader", "merchantName", "threeDSRequestorName", "threeDSRequestorID", "acquirerMerchantID", "cardholderName",
			"email", "acctID", "threeDSRequestorURL", "mcc", "ds", "messageVersion", "purchaseCurrency", "browserLanguage", "billAddrLine1",
		} {
			id := s.Preauth(rig.EnrolledPAN).Text("threeDSServerTransID")
			s.Call("POST", "/auth", s.APIKey,
				rig.BrowserRequest("2.2.0", rig.EnrolledPAN, id, "U").With(rig.Object{field: text}), "Idempotency-Key", text+field,
				"X-Request-Id", text)
		}
		s.Call("POST", "/auth", s.APIKey, good.With(rig.Object{text: text}))
	}
	waittest.Until(t, "the journal", func() bool { return strings.Count(command(s, "", "journal", "export"), `"type":"record"`) > 9*12 })
	written := map[string][]byte{}
	for _, args := range [][]string{
		{"journal", "export"}, {"journal", "export", "--format", "csv"}, {"journal", "search", "--limit", "1000", "--json"}, {"audit", "export"},
		{"audit", "search", "--limit", "10000"}, {"backup", "-"}, {"backup", "--journal", "-"}, {"key", "list"},
		{"token", "list"}, {"operator", "list"}, {"merchant", "list"},
	} {
		written[strings.Join(args, " ")] = []byte(command(s, "", args...))
	}
	for _, file := range rig.ListFiles(t, filepath.Join(filepath.Dir(s.ConfigFile), "data")) {
		data, err := os.ReadFile(file)
		rig.Must(t, err)
		written[filepath.Base(file)] = data
	}
	written["log"] = []byte(proc.Log.String())
	for from, data := range written {
		if in := restsIn(data); in != "" {
			at := groupedForm.FindIndex(data)
			around := ""
			if at != nil {
				around = string(data[max(0, at[0]-200):min(len(data), at[1]+60)])
			}
			t.Errorf("%s holds %s: %q", from, in, around)
		}
	}
}

package rig

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// FindSecret looks for a secret in all the forms in which it might have been written
// down, and names the first one found.
func FindSecret(data []byte, secret string) string { return FindSecretIn(ViewsOf(data), secret) }

// FindSecretIn is FindSecret for a text whose views are there already.
func FindSecretIn(views []View, secret string) string {
	made, ok := knownForms.Load(secret)
	if !ok {
		forms := map[string]string{} // without those that others have in them
		for name, form := range disguises(secret) {
			if strings.HasPrefix(name, "any case") {
				form = strings.ToLower(form)
			}
			forms[form] = name
		}
		made, _ = knownForms.LoadOrStore(secret, forms)
	}
	for _, v := range views {
		for form, name := range made.(map[string]string) {
			in := v.data
			if strings.HasPrefix(name, "any case") {
				in = v.lower
			}
			if bytes.Contains(in, []byte(form)) {
				return strings.TrimPrefix(v.name+", "+name, ", ")
			}
		}
	}
	return ""
}

// knownForms are the disguises of secrets that were made before, by secret: names by form.
var knownForms sync.Map

// A View is a text as somebody reads it who knows an encoding.
type View struct {
	name        string
	data, lower []byte
}

// NewView returns a text as it is, under a name.
func NewView(name string, data []byte) View { return View{name, data, bytes.ToLower(data)} }

var (
	percentForm = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	unicodeForm = regexp.MustCompile(`\\u00[0-9A-Fa-f]{2}`)
	// standardBase64 makes the usual base64 of one for URLs.
	standardBase64 = strings.NewReplacer("-", "+", "_", "/")
	separators     = strings.NewReplacer(" ", "", "-", "", ".", "", "\u00a0", "", "\t", "", "\n", "")
)

// ViewsOf are a text as it is, and what is in it once it is decoded, twice if need be: escapes, base64, hexadecimal,
// and whatever was compressed.
func ViewsOf(data []byte) []View {
	all := []View{NewView("", data)}
	for round, from := 0, 0; round < 2; round++ {
		to := len(all)
		for _, v := range all[from:to] {
			for _, d := range decodings(v.data) {
				all = append(all, NewView(strings.TrimPrefix(v.name+", "+d.name, ", "), d.data))
			}
		}
		from = to
	}
	return append(all, NewView("digits apart", []byte(separators.Replace(string(data)))))
}

// decodings are what a text becomes when one encoding is taken off, for each that it has.
func decodings(data []byte) []View {
	var all []View
	add := func(name string, decoded []byte) {
		if len(decoded) > 0 && !bytes.Equal(decoded, data) {
			all = append(all, View{name: name, data: decoded})
		}
	}
	unhex := func(digits []byte) []byte {
		b, err := hex.DecodeString(string(digits))
		if err != nil {
			return digits
		}
		return b
	}
	add("percent-encoded", percentForm.ReplaceAllFunc(data, func(m []byte) []byte { return unhex(m[1:]) }))
	add("escaped", unicodeForm.ReplaceAllFunc(data, func(m []byte) []byte { return unhex(m[4:]) }))
	add("of HTML", []byte(html.UnescapeString(string(data))))
	var runs, texts []byte
	for _, run := range runsOf(data, "0123456789ABCDEFabcdef", 26) {
		runs = append(append(runs, unhex(run[:len(run)/2*2])...), '\n')
	}
	for _, run := range runsOf(data, base64Alphabet, 18) {
		plain := standardBase64.Replace(string(run[:len(run)/4*4]))
		if b, err := base64.StdEncoding.DecodeString(plain); err == nil {
			texts = append(append(texts, b...), '\n')
		}
	}
	add("in hexadecimal", runs)
	add("in base64", texts)
	add("compressed", inflated(data))
	return all
}

// base64Alphabet has the letters of both kinds of base64.
const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"

// runsOf returns the longest pieces of data that consist of some letters and have a least length. Package regexp takes
// five times as long for that.
func runsOf(data []byte, letters string, least int) (runs [][]byte) {
	var isLetter [256]bool
	for _, c := range []byte(letters) {
		isLetter[c] = true
	}
	for begin, i := 0, 0; i <= len(data); i++ {
		if i < len(data) && isLetter[data[i]] {
			continue
		}
		if i-begin >= least {
			runs = append(runs, data[begin:i])
		}
		begin = i + 1
	}
	return runs
}

// inflated is what is compressed in data: by gzip, by zlib, or bare.
func inflated(data []byte) []byte {
	const most = 1 << 20
	var all []byte
	read := func(r io.Reader, err error) {
		if err == nil {
			text, _ := io.ReadAll(io.LimitReader(r, most)) // what comes before a fault counts
			all = append(append(all, text...), '\n')
		}
	}
	for i := range data {
		rest := data[i:]
		switch {
		case bytes.HasPrefix(rest, []byte{0x1f, 0x8b, 8}):
			r, err := gzip.NewReader(bytes.NewReader(rest))
			read(r, err)
		case len(rest) > 1 && rest[0] == 0x78 && (int(rest[0])<<8|int(rest[1]))%31 == 0:
			r, err := zlib.NewReader(bytes.NewReader(rest))
			read(r, err)
		}
	}
	return all
}

// disguises are the forms of a secret.
func disguises(secret string) map[string]string {
	all := map[string]string{
		"any case: raw": secret, "any case: hexadecimal": hex.EncodeToString([]byte(secret)),
		"any case: URL-encoded": url.QueryEscape(secret), "any case: path-escaped": url.PathEscape(secret),
		"any case: without dashes": strings.ReplaceAll(secret, "-", ""),
	}
	var percent, escaped, half strings.Builder
	for i, c := range []byte(secret) {
		fmt.Fprintf(&percent, "%%%02x", c)
		fmt.Fprintf(&escaped, `\u%04x`, c)
		if i%4 == 3 && i < len(secret)-1 {
			half.WriteByte(c)
			half.WriteByte(' ')
		} else {
			half.WriteByte(c)
		}
	}
	all["any case: every byte URL-encoded"], all["any case: every character escaped"] = percent.String(), escaped.String()
	all["in groups"], all["in dashed groups"] = half.String(), strings.ReplaceAll(half.String(), " ", "-")
	quoted, _ := json.Marshal(secret)
	all["any case: as JSON"] = string(quoted[1 : len(quoted)-1])
	for shift := range 3 {
		// What stays the same of the base64 of the secret amid other bytes.
		padded := append(bytes.Repeat([]byte{0}, shift), secret...)
		text := base64.StdEncoding.EncodeToString(padded)
		from, to := (shift*8+5)/6, len(padded)*8/6
		all[fmt.Sprint("base64, ", shift)] = text[from:to]
		all[fmt.Sprint("base64url, ", shift)] = base64.URLEncoding.EncodeToString(padded)[from:to]
	}
	return all
}

// packed is a text that gzip has compressed.
func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	Must(t, err)
	Must(t, w.Close())
	return b.String()
}

// ParseObject returns the object that a JSON text is.
func ParseObject(t *testing.T, data []byte) Object {
	t.Helper()
	var o Object
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("answer is not JSON: %v: %.200q", err, data)
	}
	return o
}

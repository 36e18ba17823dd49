package messagetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// quote returns text as a JSON string without needless escape sequences.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// text returns a random string of the kind of a row. It has lo to hi characters, and at most
// lo+20 if the kind allows different lengths.
func (s *sampler) text(f *message.Field, lo, hi int) string {
	if hi == 0 {
		hi = lo + 20
	}
	n := lo + s.rand.IntN(min(hi-lo, 20)+1)
	switch f.Kind {
	case message.Digits:
		if f.Range != nil {
			return fmt.Sprintf("%0*d", lo, f.Range.Min+s.rand.IntN(f.Range.Max-f.Range.Min+1))
		}
		return s.digits(n, n)
	case message.Alnum:
		return s.letters(n)
	case message.UUID:
		return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", s.rand.Uint32(), s.rand.IntN(1<<16), s.rand.IntN(1<<12), s.rand.IntN(1<<12), s.rand.Int64N(1<<48))
	case message.URL:
		if f.Browser {
			return "https://" + s.letters(6) + "-x.example/" + s.letters(4) + "?a=b&c=d"
		}
		return "https://" + strings.ToLower(s.letters(6)) + "_x.example/" + s.letters(4) + "?a=b&c=d"
	case message.AppURL:
		return "app.bank://" + s.letters(5) + "/open"
	case message.Email:
		return s.letters(6) + "@mail.example"
	case message.IP:
		return pick(s, fmt.Sprintf("192.0.2.%d", s.rand.IntN(256)), s.ipv6(s.rand.IntN(1<<16)))
	case message.Base64:
		return s.letters(max(lo, min(hi, 28))/4*4-1) + "="
	case message.Base64URL:
		return s.letters(max(n, min(hi, 43)))
	case message.JWS:
		return s.parts(3)
	case message.JWE:
		return s.parts(5)
	case message.OneOf:
		return s.code(f.Codes)
	case message.Text:
		text := s.prose(n)
		if strings.HasSuffix(f.Name, "AddrState") {
			return strings.ToUpper(text)
		}
		return text
	}
	return s.fixed(f.Kind)
}

// ipv6 returns an IPv6 address in the form of the version.
func (s *sampler) ipv6(group int) string {
	if s.version < message.V231 {
		return fmt.Sprintf("2001:0db8:0000:0000:0000:0000:0000:%04x", group)
	}
	return fmt.Sprintf("2001:db8::%x", group)
}

// fixed returns a random string of a kind that fixes the length.
func (s *sampler) fixed(k message.Kind) string {
	date := fmt.Sprintf("20%02d%02d%02d", s.rand.IntN(100), 1+s.rand.IntN(12), 1+s.rand.IntN(28))
	minute := fmt.Sprintf("%s%02d%02d", date, s.rand.IntN(24), s.rand.IntN(60))
	switch k {
	case message.Date:
		return date
	case message.DateTime:
		return fmt.Sprintf("%s%02d", minute, s.rand.IntN(60))
	case message.Minute:
		return minute
	case message.YearMonth:
		return date[2:6]
	case message.Country:
		return pick(s, "208", "840", "036", "372")
	case message.Currency:
		return pick(s, "208", "840", "978", "036")
	case message.CurrencyAlpha:
		return pick(s, "DKK", "USD", "EUR")
	case message.Language:
		return pick(s, "da", "en-GB", "zh-Hant")
	case message.Dotted:
		return message.Versions()[s.rand.IntN(len(message.Versions()))].String()
	case message.Offset:
		return pick(s, "-300", "0", "60", "720")
	}
	panic("messagetest: no values of kind " + k.String())
}

// code returns a random code of a list that a sender may use.
func (s *sampler) code(c *message.Codes) string {
	for {
		if v := c.Values[s.rand.IntN(len(c.Values))]; !v.Tolerated {
			return v.Value
		}
	}
}

// digits returns lo to hi random digits.
func (s *sampler) digits(lo, hi int) string {
	return s.from("0123456789", lo+s.rand.IntN(hi-lo+1))
}

// letters returns n random ASCII letters.
func (s *sampler) letters(n int) string {
	return s.from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", n)
}

// prose returns n random characters of free text. JSON has to escape some of them. From 2.3.1 on they are not only
// ASCII. No blank is the first or the last: around an id it would be a slip.
func (s *sampler) prose(n int) string {
	alphabet := `abc XYZ09-'"\/<&>`
	if s.version >= message.V231 {
		alphabet += "éß漢😀"
	}
	text := s.from(alphabet, n-1) + "z"
	if text[0] == ' ' {
		return "a" + text[1:]
	}
	return text
}

// parts returns n parts of random letters with dots between.
func (s *sampler) parts(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = s.letters(8)
	}
	return strings.Join(parts, ".")
}

// from returns n random characters of alphabet.
func (s *sampler) from(alphabet string, n int) string {
	all := []rune(alphabet)
	out := make([]rune, max(n, 0))
	for i := range out {
		out[i] = all[s.rand.IntN(len(all))]
	}
	return string(out)
}

package message

import (
	"bytes"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// A Kind is the written form of a value.
type Kind uint8

// The kinds. All but the last three are strings.
const (
	Text          Kind = iota
	Digits             // decimal digits
	Alnum              // ASCII letters and digits
	UUID               // RFC 4122, any version, any case
	URL                // http or https, with a host
	AppURL             // any scheme, with a host
	Email              // RFC 5322 addr-spec
	IP                 // IPv4 or IPv6
	Base64             // standard alphabet, padded; white space does not count
	Base64URL          // URL alphabet, padded or not
	Date               // YYYYMMDD
	DateTime           // YYYYMMDDHHMMSS, UTC
	Minute             // YYYYMMDDHHMM, UTC
	YearMonth          // YYMM
	Country            // ISO 3166-1 numeric
	Currency           // ISO 4217 numeric
	CurrencyAlpha      // ISO 4217 letters
	Language           // BCP 47 tag
	OneOf              // a code of a list
	JWS                // three parts in Base64url, padded or not
	JWE                // five parts in Base64url
	Dotted             // major.minor.patch
	Offset             // minutes from UTC, with or without a sign
	Bool
	Object // with a table of its own
	JSON   // an object without one

	kindCount
)

// A form says what belongs to a kind.
type form struct {
	name     string
	min, max int // characters, where the form itself fixes them
	ok       func(b []byte) bool
	iso      func(b []byte) bool // for what is ok: is it in the ISO table
}

var forms = [kindCount]form{
	Text:          {name: "text"},
	Digits:        {name: "digits", ok: allDigits},
	Alnum:         {name: "letters and digits", ok: func(b []byte) bool { return all(b, isAlnum) }},
	UUID:          {name: "UUID", min: 36, max: 36, ok: IsUUID[[]byte]},
	URL:           {name: "URL", ok: func(b []byte) bool { return isURL(b) && (hasScheme(b, "https") || hasScheme(b, "http")) }},
	AppURL:        {name: "URL of an app", ok: isURL},
	Email:         {name: "mail address", ok: isEmail},
	IP:            {name: "IP address", ok: isIP},
	Base64:        {name: "Base64", ok: isBase64},
	Base64URL:     {name: "Base64url", ok: isBase64URL},
	Date:          {name: "YYYYMMDD", min: 8, max: 8, ok: isDate},
	DateTime:      {name: "YYYYMMDDHHMMSS", min: 14, max: 14, ok: isTime},
	Minute:        {name: "YYYYMMDDHHMM", min: 12, max: 12, ok: isTime},
	YearMonth:     {name: "YYMM", min: 4, max: 4, ok: func(b []byte) bool { return allDigits(b) && within(b[2:4], 1, 12) }},
	Country:       {name: "country, ISO 3166-1 numeric", min: 3, max: 3, ok: allDigits, iso: validCountry},
	Currency:      {name: "currency, ISO 4217 numeric", min: 3, max: 3, ok: allDigits, iso: validCurrency},
	CurrencyAlpha: {name: "currency, ISO 4217 letters", min: 3, max: 3, ok: func(b []byte) bool { return all(b, isUpper) }, iso: validCurrencyAlpha},
	Language:      {name: "language tag", ok: func(b []byte) bool { return all(b, func(c byte) bool { return isAlnum(c) || c == '-' }) }},
	OneOf:         {name: "code"},
	JWS:           {name: "compact JWS", ok: func(b []byte) bool { return isCompact(b, 3, isPartOfJWS) }},
	JWE:           {name: "compact JWE", ok: func(b []byte) bool { return isCompact(b, 5, isPartOfJWE) }},
	Dotted:        {name: "major.minor.patch", min: 5, max: 8, ok: isDotted},
	Offset:        {name: "minutes, with or without a sign", ok: isOffset},
	Bool:          {name: "true or false"},
	Object:        {name: "object"},
	JSON:          {name: "any object"},
}

func (k Kind) String() string { return forms[k].name }

// isText says whether values of the kind are strings.
func (k Kind) isText() bool { return k < Bool }

func (k Kind) size() (lo, hi int) { return forms[k].min, forms[k].max }

// check returns what is wrong with a string of the right length, 0 if nothing.
func (k Kind) check(b []byte) Code {
	f := &forms[k]
	switch {
	case f.ok != nil && !f.ok(b):
		return Format
	case f.iso != nil && !f.iso(b):
		return ISOCode
	}
	return 0
}

func all(b []byte, ok func(byte) bool) bool {
	for _, c := range b {
		if !ok(c) {
			return false
		}
	}
	return len(b) > 0
}

func allDigits(b []byte) bool {
	for _, c := range b {
		if c-'0' > 9 {
			return false
		}
	}
	return len(b) > 0
}

func isDigit(c byte) bool { return c-'0' <= 9 }
func isUpper(c byte) bool { return c-'A' <= 'Z'-'A' }
func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isAlnum(c byte) bool { return isDigit(c) || isAlpha(c) }
func isHex(c byte) bool   { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
func isURL64(c byte) bool { return isAlnum(c) || c == '-' || c == '_' }

// number is what a string of digits stands for, or more than any bound.
func number(b []byte) int {
	n := 0
	for _, c := range b {
		n = n*10 + int(c-'0')
		if n > 1<<40 {
			return n
		}
	}
	return n
}

func within(b []byte, lo, hi int) bool {
	n := number(b)
	return lo <= n && n <= hi
}

// IsUUID reports whether id has the form of a transaction id: 36 characters, hexadecimal
// digits in either case and hyphens (RFC 9562).
func IsUUID[T string | []byte](id T) bool {
	for i := range len(id) {
		c := id[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !isHex(c) {
			return false
		}
	}
	return len(id) == 36
}

// hasScheme says whether a URL has a scheme, in any case.
func hasScheme(b []byte, scheme string) bool {
	if len(b) <= len(scheme) || b[len(scheme)] != ':' {
		return false
	}
	for i := range len(scheme) {
		if b[i]|0x20 != scheme[i] {
			return false
		}
	}
	return true
}

// authority is the part of a URL between "//" and the path.
func authority(b []byte) []byte {
	i := bytes.IndexByte(b, ':')
	if i < 0 || !bytes.HasPrefix(b[i:], []byte("://")) {
		return nil
	}
	rest := b[i+3:]
	for i, c := range rest {
		if c == '/' || c == '?' || c == '#' || c == '\\' {
			return rest[:i]
		}
	}
	return rest
}

// host is the host of a URL, without port and credentials.
func host(b []byte) []byte {
	h := authority(b)
	h = h[bytes.LastIndexByte(h, '@')+1:]
	if len(h) > 0 && h[0] == '[' {
		i := bytes.IndexByte(h, ']')
		return h[1:max(i, 1)]
	}
	if i := bytes.LastIndexByte(h, ':'); i >= 0 {
		h = h[:i]
	}
	return h
}

// isSendable says whether a URL is one that we send: of the characters that
// URLs are made of, with a number for a port, without user and password.
func isSendable(b []byte) bool {
	for _, c := range b {
		if c < utf8.RuneSelf && !isAlnum(c) && strings.IndexByte("-._~:/?#[]@!$&'()*+,;=%", c) < 0 {
			return false
		}
	}
	a := authority(b)
	if bytes.IndexByte(a, '@') >= 0 {
		return false
	}
	_, port, ok := bytes.Cut(a[bytes.IndexByte(a, ']')+1:], []byte(":"))
	return !ok || len(port) == 0 || allDigits(port) && within(port, 0, 65535)
}

// isURL says whether b is an absolute URL with a host and without blanks.
func isURL(b []byte) bool {
	if len(b) == 0 || !isAlpha(b[0]) {
		return false
	}
	for _, c := range b[:max(bytes.IndexByte(b, ':'), 0)] {
		if !isAlnum(c) && c != '+' && c != '.' && c != '-' {
			return false
		}
	}
	for _, c := range b {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return len(host(b)) > 0
}

// isLoopback says whether a URL's host is this machine.
func isLoopback(b []byte) bool {
	h := strings.ToLower(string(host(b)))
	if a, err := netip.ParseAddr(h); err == nil {
		return a.IsLoopback()
	}
	return h == "localhost" || strings.HasSuffix(h, ".localhost")
}

// isEmail keeps to the outline of an address: the rules for what stands on
// either side are kept by nobody.
func isEmail(b []byte) bool {
	at := bytes.LastIndexByte(b, '@')
	if at <= 0 || at == len(b)-1 {
		return false
	}
	local, domain := b[:at], b[at+1:]
	quoted := len(local) > 1 && local[0] == '"' && local[len(local)-1] == '"'
	for _, c := range local {
		if c < ' ' || c == 0x7f || !quoted && (c == ' ' || c == '@') {
			return false
		}
	}
	for _, c := range domain {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

func isIP(b []byte) bool {
	if bytes.IndexByte(b, ':') < 0 {
		return isIPv4(b)
	}
	a, err := netip.ParseAddr(string(b))
	return err == nil && a.Zone() == ""
}

func isIPv4(b []byte) bool {
	for part := range 4 {
		i := 0
		for i < len(b) && isDigit(b[i]) {
			i++
		}
		if i == 0 || i > 3 || i > 1 && b[0] == '0' || !within(b[:i], 0, 255) {
			return false
		}
		if b = b[i:]; part == 3 {
			return len(b) == 0
		}
		if len(b) == 0 || b[0] != '.' {
			return false
		}
		b = b[1:]
	}
	return false
}

// isBase64 wants the white space to be gone already.
func isBase64(b []byte) bool {
	body := bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("=")), []byte("="))
	return len(b)%4 == 0 && all(body, func(c byte) bool { return isAlnum(c) || c == '+' || c == '/' })
}

func isBase64URL(b []byte) bool {
	return all(bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("=")), []byte("=")), isURL64)
}

// isCompact says whether b is so many parts with dots between, each of which is ok.
func isCompact(b []byte, parts int, ok func(part []byte) bool) bool {
	n := 0
	for part := range bytes.SplitSeq(b, []byte(".")) {
		if !ok(part) {
			return false
		}
		n++
	}
	return n == parts
}

// isPartOfJWS does not judge how a part is padded: that is the SDK's business.
func isPartOfJWS(b []byte) bool { return all(bytes.TrimRight(b, "="), isURL64) }

func isPartOfJWE(b []byte) bool { return len(b) == 0 || all(b, isURL64) }

func isDate(b []byte) bool {
	if !allDigits(b) || !within(b[4:6], 1, 12) {
		return false
	}
	year, month := number(b[:4]), number(b[4:6])
	days := [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		days = 29
	}
	return within(b[6:8], 1, days)
}

// isTime takes YYYYMMDDHHMM with or without SS.
func isTime(b []byte) bool {
	return allDigits(b) && isDate(b[:8]) && within(b[8:10], 0, 23) && within(b[10:12], 0, 59) && (len(b) == 12 || within(b[12:14], 0, 59))
}

func isDotted(b []byte) bool {
	major, rest, ok := bytes.Cut(b, []byte("."))
	minor, patch, ok2 := bytes.Cut(rest, []byte("."))
	return ok && ok2 && allDigits(major) && allDigits(minor) && allDigits(patch)
}

func isOffset(b []byte) bool {
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		b = b[1:]
	}
	return allDigits(b)
}

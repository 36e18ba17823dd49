package message

import (
	"bytes"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// A Kind is the form in which a value is written.
type Kind uint8

// The kinds. All but the last four are strings.
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
	Number // a JSON number

	kindCount
)

// A kindForm describes the strings of one kind.
type kindForm struct {
	name     string
	min, max int                 // number of characters, if the kind fixes it; otherwise 0
	ok       func(b []byte) bool // reports whether a string has the form; nil means that all have
	iso      func(b []byte) bool // reports whether a string of the form is in the table of the ISO standard; may be nil
}

var kindForms = [kindCount]kindForm{
	Text:   {name: "text"},
	Digits: {name: "digits", ok: allDigits},
	Alnum:  {name: "letters and digits", ok: func(b []byte) bool { return allBytes(b, isAlnum) }},
	UUID:   {name: "UUID", min: 36, max: 36, ok: IsUUID[[]byte]},
	URL: {name: "URL",
		ok: func(b []byte) bool { return isURL(b) && (hasScheme(b, "https") || hasScheme(b, "http")) }},
	AppURL:    {name: "URL of an app", ok: isURL},
	Email:     {name: "mail address", ok: isEmail},
	IP:        {name: "IP address", ok: isIP},
	Base64:    {name: "Base64", ok: isBase64},
	Base64URL: {name: "Base64url", ok: isBase64URL},
	Date:      {name: "YYYYMMDD", min: 8, max: 8, ok: isDate},
	DateTime:  {name: "YYYYMMDDHHMMSS", min: 14, max: 14, ok: isTime},
	Minute:    {name: "YYYYMMDDHHMM", min: 12, max: 12, ok: isTime},
	YearMonth: {name: "YYMM", min: 4, max: 4,
		ok: func(b []byte) bool { return allDigits(b) && isInRange(b[2:4], 1, 12) }},
	Country:  {name: "country, ISO 3166-1 numeric", min: 3, max: 3, ok: allDigits, iso: validCountry},
	Currency: {name: "currency, ISO 4217 numeric", min: 3, max: 3, ok: allDigits, iso: validCurrency},
	CurrencyAlpha: {name: "currency, ISO 4217 letters", min: 3, max: 3,
		ok: func(b []byte) bool { return allBytes(b, isUpper) }, iso: validCurrencyAlpha},
	Language: {name: "language tag",
		ok: func(b []byte) bool { return allBytes(b, func(c byte) bool { return isAlnum(c) || c == '-' }) }},
	OneOf:  {name: "code"},
	JWS:    {name: "compact JWS", ok: func(b []byte) bool { return isCompact(b, 3, isPartOfJWS) }},
	JWE:    {name: "compact JWE", ok: func(b []byte) bool { return isCompact(b, 5, isPartOfJWE) }},
	Dotted: {name: "major.minor.patch", min: 5, max: 8, ok: isDotted},
	Offset: {name: "minutes, with or without a sign", ok: isOffset},
	Bool:   {name: "true or false"},
	Object: {name: "object"},
	JSON:   {name: "any object"},
	Number: {name: "number"},
}

// String returns a few English words that name the kind.
func (k Kind) String() string { return kindForms[k].name }

// isText reports whether values of the kind are strings.
func (k Kind) isText() bool { return k < Bool }

// lengths returns the number of characters that the kind fixes, or 0 and 0.
func (k Kind) lengths() (lo, hi int) { return kindForms[k].min, kindForms[k].max }

// check returns the code of the problem that a string of a valid length has, or 0.
func (k Kind) check(b []byte) Code {
	f := &kindForms[k]
	switch {
	case f.ok != nil && !f.ok(b):
		return Format
	case f.iso != nil && !f.iso(b):
		return ISOCode
	}
	return 0
}

// allBytes reports whether b is not empty and ok returns true for each of its bytes.
func allBytes(b []byte, ok func(byte) bool) bool {
	for _, c := range b {
		if !ok(c) {
			return false
		}
	}
	return len(b) > 0
}

// allDigits reports whether b is not empty and holds nothing but decimal digits.
func allDigits(b []byte) bool {
	for _, c := range b {
		if c-'0' > 9 {
			return false
		}
	}
	return len(b) > 0
}

func isDigit(c byte) bool   { return c-'0' <= 9 }
func isUpper(c byte) bool   { return c-'A' <= 'Z'-'A' }
func isAlpha(c byte) bool   { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isAlnum(c byte) bool   { return isDigit(c) || isAlpha(c) }
func isHex(c byte) bool     { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
func isVisible(c byte) bool { return c > ' ' && c != 0x7f }
func isURL64(c byte) bool   { return isAlnum(c) || c == '-' || c == '_' }

// numberOf returns the number that decimal digits stand for. A number above 2^40 may be
// returned as any other number above 2^40.
func numberOf(b []byte) int {
	n := 0
	for _, c := range b {
		n = n*10 + int(c-'0')
		if n > 1<<40 {
			return n
		}
	}
	return n
}

// isInRange reports whether decimal digits stand for a number from lo to hi.
func isInRange(b []byte, lo, hi int) bool {
	n := numberOf(b)
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

// hasScheme reports whether a URL has a scheme, which is compared without regard to case.
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

// authorityOf returns the part of a URL between "//" and the path.
func authorityOf(b []byte) []byte {
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

// hostOf returns the host of a URL, without port, user and password.
func hostOf(b []byte) []byte {
	h := authorityOf(b)
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

// isSendable reports whether a URL may be sent in an AReq: its ASCII characters are those of
// RFC 3986, its port is a number from 0 to 65535, and it has no user or password.
func isSendable(b []byte) bool {
	for _, c := range b {
		if c < utf8.RuneSelf && !isAlnum(c) && strings.IndexByte("-._~:/?#[]@!$&'()*+,;=%", c) < 0 {
			return false
		}
	}
	a := authorityOf(b)
	if bytes.IndexByte(a, '@') >= 0 {
		return false
	}
	_, port, ok := bytes.Cut(a[bytes.IndexByte(a, ']')+1:], []byte(":"))
	return !ok || len(port) == 0 || allDigits(port) && isInRange(port, 0, 65535)
}

// isURL reports whether b is an absolute URL with a host and without white space.
func isURL(b []byte) bool {
	if len(b) == 0 || !isAlpha(b[0]) {
		return false
	}
	for _, c := range b[:max(bytes.IndexByte(b, ':'), 0)] {
		if !isAlnum(c) && c != '+' && c != '.' && c != '-' {
			return false
		}
	}
	return allBytes(b, isVisible) && len(hostOf(b)) > 0
}

// isLoopback reports whether the host of a URL is a loopback address or localhost.
func isLoopback(b []byte) bool {
	h := strings.ToLower(string(hostOf(b)))
	if a, err := netip.ParseAddr(h); err == nil {
		return a.IsLoopback()
	}
	return h == "localhost" || strings.HasSuffix(h, ".localhost")
}

// isEmail reports whether b has the outline of a mail address: a local part, @ and a domain.
// The rules of RFC 5322 for the two parts are not checked, because few senders follow them.
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
	return allBytes(domain, isVisible)
}

// isIP reports whether b is an IPv4 address, or an IPv6 address without a zone.
func isIP(b []byte) bool {
	if bytes.IndexByte(b, ':') < 0 {
		return isIPv4(b)
	}
	a, err := netip.ParseAddr(string(b))
	return err == nil && a.Zone() == ""
}

// isIPv4 reports whether b is four decimal numbers up to 255 with dots between.
func isIPv4(b []byte) bool {
	for part := range 4 {
		i := 0
		for i < len(b) && isDigit(b[i]) {
			i++
		}
		if i == 0 || i > 3 || i > 1 && b[0] == '0' || !isInRange(b[:i], 0, 255) {
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

// isBase64 reports whether b is padded Base64. White space must have been removed.
func isBase64(b []byte) bool {
	body := bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("=")), []byte("="))
	return len(b)%4 == 0 && allBytes(body, func(c byte) bool { return isAlnum(c) || c == '+' || c == '/' })
}

// isBase64URL reports whether b is Base64url, padded or not.
func isBase64URL(b []byte) bool {
	return allBytes(bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("=")), []byte("=")), isURL64)
}

// isCompact reports whether b has this number of parts with dots between, and ok returns true
// for each part.
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

// isPartOfJWS reports whether b is Base64url. Padding is accepted and not checked, because
// the SDK verifies the signature.
func isPartOfJWS(b []byte) bool { return allBytes(bytes.TrimRight(b, "="), isURL64) }

// isPartOfJWE reports whether b is empty or Base64url without padding.
func isPartOfJWE(b []byte) bool { return len(b) == 0 || allBytes(b, isURL64) }

// isDate reports whether b is a date, YYYYMMDD.
func isDate(b []byte) bool {
	if !allDigits(b) || !isInRange(b[4:6], 1, 12) {
		return false
	}
	year, month := numberOf(b[:4]), numberOf(b[4:6])
	days := [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		days = 29
	}
	return isInRange(b[6:8], 1, days)
}

// isTime reports whether b is YYYYMMDDHHMM or YYYYMMDDHHMMSS.
func isTime(b []byte) bool {
	return allDigits(b) && isDate(b[:8]) && isInRange(b[8:10], 0, 23) && isInRange(b[10:12], 0, 59) &&
		(len(b) == 12 || isInRange(b[12:14], 0, 59))
}

// isDotted reports whether b is three numbers with dots between.
func isDotted(b []byte) bool {
	major, rest, ok := bytes.Cut(b, []byte("."))
	minor, patch, ok2 := bytes.Cut(rest, []byte("."))
	return ok && ok2 && allDigits(major) && allDigits(minor) && allDigits(patch)
}

// isOffset reports whether b is decimal digits, with or without a sign.
func isOffset(b []byte) bool {
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		b = b[1:]
	}
	return allDigits(b)
}

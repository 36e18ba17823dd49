package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/base/iso"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
)

// A kind is a form that a value of the configuration may have.
type kind[T any] struct {
	want   string                       // what such a value is, for faults
	page   string                       // the same for the reference page; "": want
	ofMany string                       // what a list of them is, for the reference page; "": page
	parse  func(text string) (T, error) // its error says what is wrong and never quotes the text
}

// Versions are the protocol versions that this server speaks.
var Versions = []string{"2.1.0", "2.2.0", "2.3.1"}

const maxMerchantName = 100

// CheckMerchantName returns what is wrong with a name that a merchant is to have.
func CheckMerchantName(name string) error {
	_, err := nameOf(maxMerchantName).parse(name)
	return err
}

// StoreURL is where a store is: in a directory of this machine, or in a database
// that nodes share.
type StoreURL struct {
	Dir      string
	Postgres string          // URL; empty: Dir counts
	Engine   postgres.Engine // what the database is; empty means [postgres.Plain]
}

// isSamePlace reports whether u and other name the same directory or database, whatever the engine.
func (u StoreURL) isSamePlace(other StoreURL) bool {
	return u.Dir == other.Dir && u.Postgres == other.Postgres
}

var (
	address  = kind[string]{want: "HOST:PORT", parse: parseAddress}
	httpsURL = kind[string]{want: "https URL", parse: func(s string) (string, error) { return parseURL(s, "https") }}
	httpURL  = kind[string]{
		want: "https or http URL", parse: func(s string) (string, error) { return parseURL(s, "https", "http") },
	}
	consoleURL = kind[string]{want: "https origin, or http origin of this machine", parse: func(s string) (string, error) {
		return parseOrigin(strings.TrimSuffix(s, "/"))
	}}
	issuerURL = kind[string]{want: "https URL, or http URL of this machine", parse: parseIssuer}
	hostName  = kind[string]{want: "host name", ofMany: "list of host names", parse: parseHost}
	network   = kind[string]{
		want: "network such as 10.0.0.0/8", page: "network such as 10.0.0.0/8, or an address",
		ofMany: "list of networks such as 10.0.0.0/8, or addresses", parse: parseNetworkText,
	}
	boolean    = kind[bool]{want: "`true` or `false`", parse: parseBoolean}
	proxyURL   = kind[ProxyURL]{want: "http or https URL with a port, or `direct`", parse: parseProxy}
	rate       = kind[Rate]{want: "rate such as 500/s, 30/m", parse: account.ParseRate}
	fraction   = kind[float64]{want: "number from 0 to 1", parse: parseFraction}
	country    = kind[string]{want: "three digits of ISO 3166-1", parse: parseCountry}
	v1Scheme   = oneOf(scheme.Originals()...)
	schemeWord = kind[string]{
		want:  "word such as visa, or one of your own: " + scheme.WordForm,
		page:  codeWords(scheme.Names()) + ", or a word of your own: " + scheme.WordForm,
		parse: parseSchemeWord,
	}
	version = kind[string]{
		want: "of: " + strings.Join(Versions, ", "), ofMany: "list of " + codeWords(Versions), parse: parseVersion,
	}
)

// codeWord is a word as the reference page shows it.
func codeWord(word string) string {
	if word == "" {
		return ""
	}
	return "`" + word + "`"
}

// codeWords are words as the reference page shows them.
func codeWords(words []string) string { return "`" + strings.Join(words, "`, `") + "`" }

// within is a kind with bounds, which have a unit or none.
func within[T any](want, low, high, unit string, parse func(string) (T, error)) kind[T] {
	page := fmt.Sprintf("%s; %s to %s", want, low, high)
	if unit != "" {
		page = fmt.Sprintf("%s, %s to %s %s", want, low, high, unit)
	}
	return kind[T]{want: want, page: page, parse: parse}
}

// ordered is a kind with bounds that are written as its values are.
func ordered[T cmp.Ordered](want, low, high, malformed string, parse func(string) (T, error)) kind[T] {
	return within(want, low, high, "", func(s string) (T, error) {
		v, err := parse(s)
		if err != nil {
			return v, errors.New(malformed)
		}
		least, _ := parse(low)
		most, _ := parse(high)
		if v < least || v > most {
			return v, fmt.Errorf("out of range (%s to %s are allowed)", low, high)
		}
		return v, nil
	})
}

func duration(low, high string) kind[time.Duration] {
	return ordered("duration such as 300s, 20m, 4h", low, high, "not a duration (such as 500ms, 10s, 20m, 4h)",
		time.ParseDuration)
}

// days is a duration in whole days, such as 400d.
func days(low, high string) kind[time.Duration] {
	return ordered("days such as 30d, 400d", low, high, "not a number of days (such as 30d, 400d)",
		func(s string) (time.Duration, error) {
			number, hasUnit := strings.CutSuffix(s, "d")
			n, err := strconv.ParseUint(number, 10, 16)
			if !hasUnit {
				err = errors.New("no unit")
			}
			return time.Duration(n) * 24 * time.Hour, err
		})
}

// daysOrOff is a kind of [days], or off, which is 0.
func daysOrOff(low, high string) kind[time.Duration] {
	k := days(low, high)
	return kind[time.Duration]{want: "off, or " + k.want, page: "`off`, or " + k.page,
		parse: func(s string) (time.Duration, error) {
			if s == "off" {
				return 0, nil
			}
			d, err := k.parse(s)
			if err != nil {
				err = fmt.Errorf("%w; off keeps none", err)
			}
			return d, err
		}}
}

func size(low, high string) kind[int] {
	return ordered("size in bytes such as 64KiB, 1MiB", low, high,
		"not a size (a whole number of bytes, or with KiB or MiB, such as 64KiB)", parseSize)
}

func count(low, high int) kind[int] {
	return ordered("whole number", strconv.Itoa(low), strconv.Itoa(high), "not a whole number",
		func(s string) (int, error) {
			n, err := strconv.ParseUint(s, 10, 31)
			return int(n), err
		})
}

// parseSchemeWord accepts every word that a directory may have. Whether per_directory has the word of a directory
// is checked when all directories are read.
func parseSchemeWord(s string) (string, error) {
	if !scheme.IsWord(s) {
		return "", fmt.Errorf("not a word for a scheme%s (%s)", hint.For(s, scheme.Names()...), scheme.WordForm)
	}
	return s, nil
}

// text is printable text of so many characters.
func text(least, most int) kind[string] {
	return within("printable text", strconv.Itoa(least), strconv.Itoa(most), "characters", func(s string) (string, error) {
		if n := utf8.RuneCountInString(s); n < least || n > most {
			return "", fmt.Errorf("%d characters long (%d to %d are allowed)", n, least, most)
		}
		if !utf8.ValidString(s) {
			return "", errors.New("not UTF-8")
		}
		if strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return "", errors.New("has space around it or characters that do not print")
		}
		return s, nil
	})
}

// nameOf is printable text of so many characters that has no card number in it: names stand in lists, in the
// audit trail and in backups.
func nameOf(most int) kind[string] {
	name := text(1, most)
	return within("printable text", "1", strconv.Itoa(most), "characters", func(s string) (string, error) {
		if _, err := name.parse(s); err != nil {
			return "", err
		}
		return s, cardnumber.Check(s)
	})
}

// oneOf is one of some words.
func oneOf[Word ~string](list ...Word) kind[Word] {
	var words []string
	for _, word := range list {
		words = append(words, string(word))
	}
	return kind[Word]{want: "one of: " + strings.Join(words, ", "), page: codeWords(words),
		parse: func(s string) (Word, error) {
			if slices.Contains(words, s) {
				return Word(s), nil
			}
			return "", fmt.Errorf("not a known word%s (allowed: %s)", hint.For(s, words...), strings.Join(words, ", "))
		}}
}

// fileKind is the path of a file, relative to that of the configuration, from which wrap
// makes the value.
func fileKind[T any](l *loader, wrap func(path string) T) kind[T] {
	return kind[T]{want: "file, relative to this one", parse: func(s string) (v T, err error) {
		path, err := parsePath(s, l.dir)
		if err != nil {
			return v, err
		}
		return wrap(path), nil
	}}
}

func (l *loader) path() kind[string] { return fileKind(l, func(path string) string { return path }) }

func (l *loader) caFile() kind[CAFile] {
	return fileKind(l, func(path string) CAFile { return CAFile{File: path} })
}

func (l *loader) crlFile() kind[CRLFile] {
	return fileKind(l, func(path string) CRLFile { return CRLFile{File: path} })
}

// secretFile is the path of a file that holds content of a form with a colon in it. A text
// with a colon is that content itself.
func (l *loader) secretFile(content string) kind[string] {
	file := l.path()
	return kind[string]{want: file.want, parse: func(s string) (string, error) {
		if strings.Contains(s[len(filepath.VolumeName(s)):], ":") {
			return "", fmt.Errorf("is not the path of a file, which has no colon in it (%s is what the file holds)", content)
		}
		return file.parse(s)
	}}
}

func (l *loader) storeURL() kind[StoreURL] {
	return kind[StoreURL]{want: "file: and a directory, or postgres:// URL", parse: func(s string) (StoreURL, error) {
		return parseStore(s, l.dir)
	}}
}

func parseVersion(s string) (string, error) {
	if slices.Contains(Versions, s) {
		return s, nil
	}
	return "", fmt.Errorf("not a version this server speaks (allowed: %s)", strings.Join(Versions, ", "))
}

func parseAddress(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", errors.New("not an address to listen on (HOST:PORT, such as 127.0.0.1:8080 or :8080)")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 || port[0] == '+' {
		return "", errors.New("the port is not a number from 0 to 65535")
	}
	if host != "" && net.ParseIP(host) == nil && !hostPattern.MatchString(host) {
		return "", errors.New("the host is neither an IP address nor a name")
	}
	return s, nil
}

// hostPattern is what may stand before a port or in a certificate; underscores
// are no names by the book and are in use all the same.
var hostPattern = regexp.MustCompile(
	`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

// ParseNetwork parses a network, or one address, which is the network of itself alone.
func ParseNetwork(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if addr, errAddr := netip.ParseAddr(s); errAddr == nil {
		p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil || p.Addr().Is4In6() || p.Addr().Zone() != "" {
		return netip.Prefix{}, errors.New("not a network (such as 10.0.0.0/8 or 2001:db8::/32, or one address)")
	}
	return p.Masked(), nil
}

func parseNetworkText(s string) (string, error) {
	p, err := ParseNetwork(s)
	return p.String(), err
}

func parseHost(s string) (string, error) {
	if len(s) > 253 || !hostPattern.MatchString(s) || strings.Contains(s, "://") {
		return "", errors.New("not a host name (such as rreq.visa.example, without scheme, port or *)")
	}
	return strings.ToLower(s), nil
}

func parseURL(s string, schemes ...string) (string, error) {
	allowed := strings.Join(schemes, ":// or ") + "://HOST[:PORT][/PATH]"
	u, err := url.Parse(s)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" {
		return "", fmt.Errorf("not such a URL (%s)", allowed)
	}
	switch {
	case len(s) > 2048:
		return "", errors.New("longer than 2048 characters")
	case u.User != nil:
		return "", errors.New("has a user in it (none is allowed: certificates say who we are)")
	case u.Fragment != "" || strings.HasSuffix(s, "#"):
		return "", errors.New("has a # part (none is allowed: it never travels)")
	case net.ParseIP(u.Hostname()) == nil && !hostPattern.MatchString(u.Hostname()):
		return "", errors.New("the host is neither an IP address nor a name")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "", errors.New("the port is not a number from 1 to 65535")
		}
	}
	return s, nil
}

// parsePath returns a path, which is relative to dir. A text with a line break or a PEM header is the
// secret itself, put where its path belongs: said so, and not repeated.
func parsePath(s, dir string) (string, error) {
	if strings.ContainsAny(s, "\n\x00") || strings.Contains(s, "-----BEGIN") {
		return "", errors.New("is not the path of a file (secrets stay in files of their own)")
	}
	if filepath.IsAbs(s) {
		return filepath.Clean(s), nil
	}
	return filepath.Join(dir, s), nil
}

func parseBoolean(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, errors.New("not a switch (allowed: true, false)")
	}
	return s == "true", nil
}

// parseStore takes file:DIR, or the URL of a database without a secret in it.
func parseStore(s, dir string) (StoreURL, error) {
	if strings.HasPrefix(s, "postgres:") || strings.HasPrefix(s, "postgresql:") {
		return parsePostgres(s, dir)
	}
	path, ok := strings.CutPrefix(s, "file:")
	if !ok || path == "" {
		return StoreURL{}, errors.New("not a store (file: and a directory, such as file:threeds-data, or a postgres:// URL)")
	}
	got, err := parsePath(path, dir)
	if err != nil {
		return StoreURL{}, err
	}
	return StoreURL{Dir: got}, nil
}

// parsePostgres makes the files that the URL names absolute.
func parsePostgres(s, dir string) (StoreURL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" || u.Host == "" && !u.Query().Has("host") || len(u.Path) < 2 {
		return StoreURL{}, errors.New("not such a URL (postgres://USER@HOST[,HOST…][:PORT]/DATABASE[?sslmode=verify-full&…])")
	}
	q, err := url.ParseQuery(strings.ReplaceAll(u.RawQuery, "+", "%2B")) // like libpq: + is no space
	if err != nil {
		return StoreURL{}, errors.New("what follows the ? of the URL cannot be read")
	}
	if _, ok := u.User.Password(); ok || q.Has("password") || q.Has("sslpassword") {
		return StoreURL{},
			errors.New("holds a password (it belongs into a file: passfile=FILE, or sslcert=FILE and sslkey=FILE, after the ?)")
	}
	for _, name := range []string{"passfile", "sslcert", "sslkey", "sslrootcert"} {
		if file := q.Get(name); file != "" && (name != "sslrootcert" || file != "system") {
			path, err := parsePath(file, dir)
			if err != nil {
				return StoreURL{}, fmt.Errorf("%s %w", name, err)
			}
			q.Set(name, path)
		}
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	if err := postgres.Check(u.String()); err != nil {
		return StoreURL{}, err
	}
	return StoreURL{Postgres: u.String()}, nil
}

func parseSize(s string) (int, error) {
	unit := 1
	if digits, ok := strings.CutSuffix(s, "KiB"); ok {
		s, unit = digits, 1<<10
	} else if digits, ok := strings.CutSuffix(s, "MiB"); ok {
		s, unit = digits, 1<<20
	}
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n) * unit, err
}

func parseCountry(s string) (string, error) {
	if !iso.Country(s) {
		return "", errors.New(`not a country (three digits of ISO 3166-1 in quotes, such as "208")`)
	}
	return s, nil
}

package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openthreeds/threeds/internal/iso"
	"github.com/openthreeds/threeds/internal/store/postgres"
)

// A kind is a form that a value of the configuration has. read turns the text
// into the Go value of the field; allowed is the in tag of that field. Its
// error says what is wrong and never quotes the text.
type kind struct {
	doc  string // for the reference page and for complaints
	read func(text, allowed, dir string) (any, error)
}

// kinds are all forms, by the word of the as tag.
var kinds = map[string]kind{
	"text":     {"printable text", readText},
	"word":     {"one of", readWord},
	"address":  {"HOST:PORT", readAddress},
	"https":    {"https URL", func(s, _, _ string) (any, error) { return readURL(s, "https") }},
	"url":      {"https or http URL", func(s, _, _ string) (any, error) { return readURL(s, "https", "http") }},
	"host":     {"host name", readHost},
	"file":     {"file, relative to this one", readFile},
	"secret":   {"file, relative to this one", readSecret},
	"ca":       {"file, relative to this one", readAs(func(path string) any { return CAFile{File: path} })},
	"crls":     {"file, relative to this one", readAs(func(path string) any { return CRLFile{File: path} })},
	"roots":    {"file, relative to this one", readAs(func(path string) any { return RootFile{File: path} })},
	"switch":   {"`true` or `false`", readSwitch},
	"proxy":    {"http or https URL with a port, or `direct`", readProxy},
	"store":    {"file: and a directory, or postgres:// URL", readStore},
	"duration": {"duration such as 300s, 20m, 4h", readDuration},
	"rate":     {"rate such as 500/s, 30/m", readRate},
	"size":     {"size in bytes such as 64KiB, 1MiB", readSize},
	"count":    {"whole number", readCount},
	"fraction": {"number from 0 to 1", readFraction},
	"version":  {"protocol version", readVersion},
	"scheme":   {"scheme", func(s, _, _ string) (any, error) { return readWord(s, schemes, "") }},
	"country":  {"three digits of ISO 3166-1", readCountry},
}

// schemes are the words for the card schemes, as in the API.
const schemes = "visa mastercard amex jcb upi protectbuy sbn standin"

// Schemes are the card schemes, by their names in the API.
func Schemes() []string { return strings.Fields(schemes) }

// CheckMerchantName returns what is wrong with a name that a merchant is to have.
func CheckMerchantName(name string) error {
	_, err := readText(name, "1..100", "")
	return err
}

// StoreURL is where a store is: in a directory of this machine, or in a database
// that nodes share.
type StoreURL struct {
	Dir      string
	Postgres string // URL; empty: Dir counts
}

// Versions are the protocol versions this server speaks.
var Versions = []string{"2.1.0", "2.2.0", "2.3.1"}

func readText(s, allowed, _ string) (any, error) {
	low, high, _ := strings.Cut(allowed, "..")
	least, _ := strconv.Atoi(low)
	most, _ := strconv.Atoi(high)
	if n := utf8.RuneCountInString(s); n < least || n > most {
		return nil, fmt.Errorf("%d characters long (%d to %d are allowed)", n, least, most)
	}
	if !utf8.ValidString(s) {
		return nil, errors.New("not UTF-8")
	}
	if strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, errors.New("has space around it or characters that do not print")
	}
	return s, nil
}

func readWord(s, allowed, _ string) (any, error) {
	words := strings.Fields(allowed)
	if slices.Contains(words, s) {
		return s, nil
	}
	return nil, fmt.Errorf("not a known word%s (allowed: %s)", Hint(s, words...), strings.Join(words, ", "))
}

func readVersion(s, _, _ string) (any, error) {
	if slices.Contains(Versions, s) {
		return s, nil
	}
	return nil, fmt.Errorf("not a version this server speaks (allowed: %s)", strings.Join(Versions, ", "))
}

func readAddress(s, _, _ string) (any, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return nil, errors.New("not an address to listen on (HOST:PORT, such as 127.0.0.1:8080 or :8080)")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 || port[0] == '+' {
		return nil, errors.New("the port is not a number from 0 to 65535")
	}
	if host != "" && net.ParseIP(host) == nil && !hostName.MatchString(host) {
		return nil, errors.New("the host is neither an IP address nor a name")
	}
	return s, nil
}

// hostName is what may stand before a port or in a certificate; underscores
// are no names by the book and are in use all the same.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

func readHost(s, _, _ string) (any, error) {
	if len(s) > 253 || !hostName.MatchString(s) || strings.Contains(s, "://") {
		return nil, errors.New("not a host name (such as rreq.visa.example, without scheme, port or *)")
	}
	return strings.ToLower(s), nil
}

func readURL(s string, schemes ...string) (any, error) {
	allowed := strings.Join(schemes, ":// or ") + "://HOST[:PORT][/PATH]"
	u, err := url.Parse(s)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" {
		return nil, fmt.Errorf("not such a URL (%s)", allowed)
	}
	switch {
	case len(s) > 2048:
		return nil, errors.New("longer than 2048 characters")
	case u.User != nil:
		return nil, errors.New("has a user in it (none is allowed: certificates say who we are)")
	case u.Fragment != "" || strings.HasSuffix(s, "#"):
		return nil, errors.New("has a # part (none is allowed: it never travels)")
	case net.ParseIP(u.Hostname()) == nil && !hostName.MatchString(u.Hostname()):
		return nil, errors.New("the host is neither an IP address nor a name")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, errors.New("the port is not a number from 1 to 65535")
		}
	}
	return s, nil
}

// readFile takes a path. A text with a line break or a PEM header is the
// secret itself, put where its path belongs: said so, and not repeated.
func readFile(s, _, dir string) (any, error) {
	if strings.ContainsAny(s, "\n\x00") || strings.Contains(s, "-----BEGIN") {
		return nil, errors.New("is not the path of a file (secrets stay in files of their own)")
	}
	if filepath.IsAbs(s) {
		return filepath.Clean(s), nil
	}
	return filepath.Join(dir, s), nil
}

// readSecret is readFile for a file of what has a colon in it, of the form allowed. A text
// with a colon is that itself.
func readSecret(s, allowed, dir string) (any, error) {
	if strings.Contains(s[len(filepath.VolumeName(s)):], ":") {
		return nil, fmt.Errorf("is not the path of a file, which has no colon in it (%s is what the file holds)", allowed)
	}
	return readFile(s, "", dir)
}

// readAs is readFile for a file that something is made of later.
func readAs(wrap func(path string) any) func(s, allowed, dir string) (any, error) {
	return func(s, allowed, dir string) (any, error) {
		path, err := readFile(s, allowed, dir)
		if err != nil {
			return nil, err
		}
		return wrap(path.(string)), nil
	}
}

func readSwitch(s, _, _ string) (any, error) {
	if s != "true" && s != "false" {
		return nil, errors.New("not a switch (allowed: true, false)")
	}
	return s == "true", nil
}

// readStore takes file:DIR, or the URL of a database without a secret in it.
func readStore(s, allowed, dir string) (any, error) {
	if strings.HasPrefix(s, "postgres:") || strings.HasPrefix(s, "postgresql:") {
		return readPostgres(s, allowed, dir)
	}
	path, ok := strings.CutPrefix(s, "file:")
	if !ok || path == "" {
		return nil, errors.New("not a store (file: and a directory, such as file:threeds-data, or a postgres:// URL)")
	}
	got, err := readFile(path, allowed, dir)
	if err != nil {
		return nil, err
	}
	return StoreURL{Dir: got.(string)}, nil
}

// readPostgres makes the files that the URL names absolute.
func readPostgres(s, allowed, dir string) (any, error) {
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" || u.Host == "" && !u.Query().Has("host") || len(u.Path) < 2 {
		return nil, errors.New("not such a URL (postgres://USER@HOST[,HOST…][:PORT]/DATABASE[?sslmode=verify-full&…])")
	}
	q, err := url.ParseQuery(strings.ReplaceAll(u.RawQuery, "+", "%2B")) // as libpq has it: + is no space
	if err != nil {
		return nil, errors.New("what follows the ? of the URL cannot be read")
	}
	if _, ok := u.User.Password(); ok || q.Has("password") || q.Has("sslpassword") {
		return nil, errors.New("holds a password (it belongs into a file: passfile=FILE, or sslcert=FILE and sslkey=FILE, after the ?)")
	}
	for _, name := range []string{"passfile", "sslcert", "sslkey", "sslrootcert"} {
		if file := q.Get(name); file != "" && (name != "sslrootcert" || file != "system") {
			path, err := readFile(file, allowed, dir)
			if err != nil {
				return nil, fmt.Errorf("%s %w", name, err)
			}
			q.Set(name, path.(string))
		}
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	if err := postgres.Check(u.String()); err != nil {
		return nil, err
	}
	return StoreURL{Postgres: u.String()}, nil
}

func readDuration(s, allowed, _ string) (any, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return nil, errors.New("not a duration (such as 500ms, 10s, 20m, 4h)")
	}
	low, high, _ := strings.Cut(allowed, "..")
	least, _ := time.ParseDuration(low)
	most, _ := time.ParseDuration(high)
	if d < least || d > most {
		return nil, fmt.Errorf("out of range (%s to %s are allowed)", low, high)
	}
	return d, nil
}

var ratePattern = regexp.MustCompile(`^([1-9][0-9]{0,8})/([smh])$`)

func readRate(s, _, _ string) (any, error) {
	part := ratePattern.FindStringSubmatch(s)
	if part == nil {
		return nil, errors.New("not a rate (a whole number from 1 and /s, /m or /h, such as 500/s)")
	}
	n, _ := strconv.Atoi(part[1])
	return Rate{n, map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[part[2]]}, nil
}

func readSize(s, allowed, _ string) (any, error) {
	n, err := bytesOf(s)
	if err != nil {
		return nil, errors.New("not a size (a whole number of bytes, or with KiB or MiB, such as 64KiB)")
	}
	return within(n, allowed, bytesOf)
}

func bytesOf(s string) (int, error) {
	unit := 1
	if digits, ok := strings.CutSuffix(s, "KiB"); ok {
		s, unit = digits, 1<<10
	} else if digits, ok := strings.CutSuffix(s, "MiB"); ok {
		s, unit = digits, 1<<20
	}
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n) * unit, err
}

func readCount(s, allowed, _ string) (any, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return nil, errors.New("not a whole number")
	}
	return within(int(n), allowed, strconv.Atoi)
}

func within(n int, allowed string, read func(string) (int, error)) (any, error) {
	low, high, _ := strings.Cut(allowed, "..")
	least, _ := read(low)
	most, _ := read(high)
	if n < least || n > most {
		return nil, fmt.Errorf("out of range (%s to %s are allowed)", low, high)
	}
	return n, nil
}

func readCountry(s, _, _ string) (any, error) {
	if !iso.Country(s) {
		return nil, errors.New(`not a country (three digits of ISO 3166-1 in quotes, such as "208")`)
	}
	return s, nil
}

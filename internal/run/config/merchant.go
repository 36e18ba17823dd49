package config

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/state/account"
)

// MaxLogo is the size of the largest logo, in bytes.
const MaxLogo = 64 << 10

var (
	categoryCode = digitsKind(4, 4, "merchant category code, four digits in quotes",
		`not four digits (such as "5411", in quotes)`)
	acquirerBIN   = digitsKind(1, 11, "1 to 11 digits, in quotes", "not 1 to 11 digits (without spaces, in quotes)")
	colour        = kind[string]{want: "`#rrggbb`, in quotes", parse: parseColour}
	merchantGroup = kind[string]{
		want:  "1 to 64 letters, digits, dots, hyphens or underscores",
		parse: func(s string) (string, error) { return s, account.CheckGroup(s) },
	}
	origin = kind[string]{
		want: "https origin such as https://shop.example", ofMany: "list of https origins such as `https://shop.example`",
		parse: parseOrigin,
	}
	colourPattern = regexp.MustCompile(`^#[0-9a-f]{6}$`)
)

// digitsKind is a text of so many digits.
func digitsKind(least, most int, want, wrong string) kind[string] {
	return kind[string]{want: want, parse: func(s string) (string, error) {
		if len(s) < least || len(s) > most || strings.Trim(s, "0123456789") != "" {
			return "", errors.New(wrong)
		}
		return s, nil
	}}
}

func parseColour(s string) (string, error) {
	s = strings.ToLower(s)
	if !colourPattern.MatchString(s) {
		return "", errors.New(`not a colour (# and six hexadecimal digits, such as "#0a5c36")`)
	}
	return s, nil
}

// parseOrigin returns an origin as browsers send it: in small letters, without the port that is the default.
func parseOrigin(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("not an origin (https://HOST[:PORT])")
	}
	isLocal := isLoopback(net.JoinHostPort(u.Hostname(), "0"))
	switch {
	case u.Path != "" || u.RawQuery != "" || u.ForceQuery:
		return "", errors.New("has more than an origin has (https://HOST[:PORT], without a / at the end)")
	case u.Scheme == "http" && !isLocal:
		return "", errors.New("is http, which is only for localhost and loopback addresses (https://HOST[:PORT])")
	}
	if _, err := parseURL(s, "https", "http"); err != nil {
		return "", err
	}
	host := strings.ToLower(u.Host)
	if port := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]; strings.HasSuffix(host, port) {
		host = strings.TrimSuffix(host, port)
	}
	return u.Scheme + "://" + host, nil
}

// loadLogo reads the logo of a merchant.
func (l *loader) loadLogo(f *LogoFile, path string) {
	data, ok := l.openFile(f.File, path)
	if !ok {
		return
	}
	mediaType, err := CheckLogo(data)
	if err != nil {
		l.fault(path, "%s: %v", f.File, err)
		return
	}
	f.Data, f.MediaType = data, mediaType
}

// CheckLogo returns the media type of a logo, or what is wrong with it.
func CheckLogo(data []byte) (mediaType string, err error) {
	if len(data) > MaxLogo {
		return "", fmt.Errorf("larger than %d KiB", MaxLogo>>10)
	}
	if _, err := png.DecodeConfig(bytes.NewReader(data)); err == nil {
		return "image/png", nil
	}
	if err := checkSVG(data); err != nil {
		return "", err
	}
	return "image/svg+xml", nil
}

var errNoLogo = errors.New("neither a PNG nor an SVG")

// checkSVG returns what is wrong with an SVG. Pages show it as an image, so nothing in it runs. A script is refused all
// the same, for the file may be opened by itself.
func checkSVG(data []byte) error {
	d := xml.NewDecoder(bytes.NewReader(data))
	root := ""
	for {
		token, err := d.Token()
		switch {
		case err == io.EOF && root == "svg":
			return nil
		case err != nil:
			return errNoLogo
		}
		switch token := token.(type) {
		case xml.Directive:
			if bytes.Contains(token, []byte("[")) {
				return errors.New("an SVG with declarations of its own (remove the part in brackets of its DOCTYPE)")
			}
		case xml.StartElement:
			if root == "" {
				root = token.Name.Local
			}
			if isActiveElement(token) {
				return errors.New("an SVG with a script, or with content of another kind, in it (export it as a plain drawing)")
			}
		}
	}
}

// isActiveElement reports whether an element of an SVG runs something, or may hold something that does.
func isActiveElement(e xml.StartElement) bool {
	if slices.Contains([]string{"script", "foreignobject", "iframe", "handler"}, strings.ToLower(e.Name.Local)) {
		return true
	}
	return slices.ContainsFunc(e.Attr, func(a xml.Attr) bool {
		value := strings.ToLower(strings.TrimSpace(a.Value))
		return strings.HasPrefix(strings.ToLower(a.Name.Local), "on") || strings.HasPrefix(value, "javascript:")
	})
}

// ParseMerchant reads the profile of one merchant, in YAML or JSON, with the keys and by the rules that an item of
// merchants has in the file. It has no page.logo: see [CheckLogo]. In addition to the well-known schemes, per_directory
// may have the words. The error is [Faults], which have all that is wrong, without places.
func ParseMerchant(data []byte, words []string) (Merchant, error) {
	l := newParser("")
	root, ok := l.parseYAML(data)
	if !ok {
		return Merchant{}, l.faults
	}
	m := readMerchant(l.newSection(root, ""))
	for _, word := range words {
		l.config.Directories = append(l.config.Directories, Directory{Scheme: word})
	}
	l.checkPerDirectory("", m)
	if m.Page.Logo.File != "" {
		l.fault("page.logo", "is a file, which has no place here")
	}
	if err := l.err(); err != nil {
		return Merchant{}, err
	}
	return m, nil
}

// Profile returns the profile of a merchant for package account.
func (m *Merchant) Profile() account.Merchant {
	got := account.Merchant{
		Name: m.Name, Group: m.Group, RequestorID: m.RequestorID, RequestorName: m.RequestorName,
		AcquirerCountry: m.AcquirerCountry, SchemeRules: m.SchemeRules, Bridging: m.Bridging, Transliterate: m.Transliterate,
		Rate: m.Rate, InFlight: m.InFlight,
		MerchantName: m.MerchantName, MCC: m.MCC, MerchantCountry: m.MerchantCountry, RequestorURL: m.RequestorURL,
		Origins: m.Origins,
		Page: account.Page{
			Logo: m.Page.Logo.Data, LogoType: m.Page.Logo.MediaType, Colour: m.Page.Colour, Accent: m.Page.Accent,
		},
		PerDirectory: make(map[string]account.Requestor),
	}
	for word, id := range m.PerDirectory {
		got.PerDirectory[word] = account.Requestor{
			ID: id.RequestorID, Name: id.RequestorName,
			AcquirerBIN: id.AcquirerBIN, AcquirerMerchantID: id.AcquirerMerchantID,
		}
	}
	return got
}

// CheckProfile returns a merchant with values in their usual form, or [Faults] with all that is wrong with it. The
// media type of the logo is found, not taken. Besides the schemes that everybody knows, words may be in PerDirectory.
func CheckProfile(m account.Merchant, words []string) (account.Merchant, error) {
	var faults Faults
	logo := m.Page.Logo
	m.Page.Logo, m.Page.LogoType = nil, ""
	text, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	parsed, err := ParseMerchant(text, words)
	if err != nil && !errors.As(err, &faults) {
		return m, err
	}
	checked := parsed.Profile()
	if len(logo) > 0 {
		checked.Page.Logo = logo
		if checked.Page.LogoType, err = CheckLogo(logo); err != nil {
			faults = append(faults, Fault{Key: "page.logo", Text: err.Error()})
		}
	}
	if len(faults) > 0 {
		return m, faults
	}
	return checked, nil
}

// Registry returns the merchants of the configuration with those of its store.
func (c *Config) Registry(rows merchant.Rows, ring account.Ring) *merchant.Registry {
	r := &merchant.Registry{Store: rows, Ring: ring, CheckProfile: CheckProfile}
	for i := range c.Merchants {
		r.InFile = append(r.InFile, c.Merchants[i].Profile())
	}
	for i := range c.Directories {
		r.Schemes = append(r.Schemes, c.Directories[i].Scheme)
	}
	return r
}

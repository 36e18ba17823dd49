package browserurl_test

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/browserurl"
)

// TestD110BadBrowserURLsAreRefused says of each URL why no browser may be sent there, from a directory
// and from one that is a laboratory's; nil is that a browser may.
func TestD110BadBrowserURLsAreRefused(t *testing.T) {
	var (
		char, escape, scheme  = browserurl.ErrCharacter, browserurl.ErrEscape, browserurl.ErrScheme
		noHost, user, port    = browserurl.ErrNoHost, browserurl.ErrUser, browserurl.ErrPort
		host, loop, linkLocal = browserurl.ErrHost, browserurl.ErrLoopback, browserurl.ErrLinkLocal
		unspecified           = browserurl.ErrUnspecified
	)
	tests := []struct {
		url             string
		strict, fromLab error
	}{
		// Good ones.
		{"https://acs.example", nil, nil},
		{"https://acs.example/", nil, nil},
		{"HTTPS://ACS.Example/Path", nil, nil},
		{"https://acs.example./", nil, nil},
		{"https://acs-1.bank.example:8443/a/b;c=d/?e=f&g[]=h#i?j", nil, nil},
		{"https://acs.example?a=b", nil, nil},
		{"https://acs.example#a", nil, nil},
		{"https://acs.example/%22%3C%3e?a=%20!$&'()*+,;=:@-._~", nil, nil},
		{"https://acs.example/user@bank.example", nil, nil},
		{"https://acs.example/?next=https://other.example:99999/", nil, nil},
		{"https://acs.example:1/", nil, nil},
		{"https://acs.example:65535/", nil, nil},
		{"https://acs.example:0443/", nil, nil},
		{"https://acs.example:/", nil, nil},
		{"https://xn--bnk-5qa.example/", nil, nil},
		{"https://acs/", nil, nil},
		{"https://1acs.2example/", nil, nil},
		{"https://localhost.example/", nil, nil},
		{"https://mylocalhost/", nil, nil},
		{"https://127.0.0.1.example/", nil, nil},
		{"https://0xacs.example/", nil, nil},
		{"https://192.0.2.1/", nil, nil},
		{"https://3221225985/", nil, nil}, // 192.0.2.1
		{"https://10.0.0.1/", nil, nil},
		{"https://172.16.0.1/", nil, nil},
		{"https://192.168.1.1:8443/", nil, nil},
		{"https://128.0.0.1/", nil, nil},
		{"https://[2001:db8::1]/", nil, nil},
		{"https://[2001:DB8::1]:8443/", nil, nil},
		{"https://[fd00::1]/", nil, nil},
		{"https://[::ffff:192.0.2.1]/", nil, nil},

		// The scheme.
		{"", scheme, scheme},
		{"acs.example/", scheme, scheme},
		{"//acs.example/", scheme, scheme},
		{"https:acs.example/", scheme, scheme},
		{"https:/acs.example/", scheme, scheme},
		{`https:\\acs.example/`, scheme, scheme},
		{"http://acs.example/", scheme, nil},
		{"HTTP://acs.example:8080/", scheme, nil},
		{"ftp://acs.example/", scheme, scheme},
		{"javascript:alert(1)", scheme, scheme},
		{"javascript://acs.example/%0aalert(1)", scheme, scheme},
		{"data:text/html,x", scheme, scheme},
		{"file:///etc/passwd", scheme, scheme},
		{"blob:https://acs.example/1", scheme, scheme},
		{" https://acs.example/", scheme, scheme},
		{"\thttps://acs.example/", scheme, scheme},
		{"ht\ntps://acs.example/", scheme, scheme},
		{"\ufeffhttps://acs.example/", scheme, scheme},

		// Characters.
		{`https://acs.example/"onload="x`, char, char},
		{"https://acs.example/<script>", char, char},
		{"https://acs.example/?a=\"", char, char},
		{"https://acs.example/#a>b", char, char},
		{"https://acs.example/#a#b", char, char},
		{"https://acs.example/a b", char, char},
		{"https://acs.example/a\tb", char, char},
		{"https://acs.example/\n", char, char},
		{"https://acs.example/\r\nX: y", char, char},
		{"https://acs.example/\x00", char, char},
		{"https://acs.example/\x7f", char, char},
		{`https://acs.example\@evil.example/`, char, char},
		{`https://acs.example/..\..\x`, char, char},
		{"https://acs.example/{x}", char, char},
		{"https://acs.example/a|b", char, char},
		{"https://acs.example/a^b", char, char},
		{"https://acs.example/`", char, char},
		{"https://acs.example/\u202egpj.exe", char, char},
		{"https://acs.example/\u2066x", char, char},
		{"https://acs.example/caf\u00e9", char, char},
		{"https://acs.example/\xff", char, char},
		{"https://acs.example/%", escape, escape},
		{"https://acs.example/%2", escape, escape},
		{"https://acs.example/%zz", escape, escape},
		{"https://acs.example/?a=%u0041", escape, escape},

		// Users and ports.
		{"https://user@acs.example/", user, user},
		{"https://user:word@acs.example/", user, user},
		{"https://@acs.example/", user, user},
		{"https://bank.example:443@evil.example/", user, user},
		{"https://acs.example:0/", port, port},
		{"https://acs.example:00/", port, port},
		{"https://acs.example:65536/", port, port},
		{"https://acs.example:99999/", port, port},
		{"https://acs.example:184467440737095516160/", port, port},
		{"https://acs.example:x/", port, port},
		{"https://acs.example:+443/", port, port},
		{"https://acs.example:-1/", port, port},
		{"https://acs.example:443:443/", port, port},
		{"https://[2001:db8::1]:99999/", port, port},

		// Hosts that are none.
		{"https://", noHost, noHost},
		{"https:///acs.example/", noHost, noHost},
		{"https://:443/", noHost, noHost},
		{"https://?a", noHost, noHost},
		{"https://./", host, host},
		{"https://.acs.example/", host, host},
		{"https://acs..example/", host, host},
		{"https://acs.example../", host, host},
		{"https://acs_1.example/", host, host},
		{"https://acs example/", host, host},
		{"https://acs\texample/", host, host},
		{"https://%61cs.example/", host, host},
		{"https://acs%2eexample/", host, host},
		{"https://b\u0430nk.example/", host, host}, // Cyrillic
		{"https://b\u00e4nk.example/", host, host},
		{"https://acs\u3002example/", host, host},         // a full stop to browsers
		{"https://\uff11\uff12\uff17.0.0.1/", host, host}, // 127 to browsers
		{"https://\u24db\u24de\u24d2alhost/", host, host}, // loc to browsers
		{"https://acs\u00ad.example/", host, host},        // nothing to browsers
		{"https://xn--localhost-/", host, host},
		{"https://acs.example\"/", host, host},
		{"https://a<b/", host, host},
		{"https://acs,example/", host, host},
		{"https://256.0.0.1/", host, host},
		{"https://1.2.3.4.5/", host, host},
		{"https://acs.1/", host, host},
		{"https://acs.0x1/", host, host},
		{"https://08.0.0.1/", host, host},
		{"https://4294967296/", host, host},
		{"https://99999999999999999999999/", host, host},
		{"https://[2001:db8::1/", port, port},
		{"https://2001:db8::1/", port, port},
		{"https://[acs.example]/", host, host},
		{"https://[]/", host, host},
		{"https://[192.0.2.1]/", host, host},
		{"https://[2001:db8::1]x/", host, host},
		{"https://x[2001:db8::1]/", host, host},
		{"https://[fe80::1%25eth0]/", host, host},
		{"https://[fe80::1%eth0]/", host, host},
		{"https://[v1.fe80]/", host, host},

		// The browser's own machine.
		{"https://localhost/", loop, nil},
		{"https://LOCALHOST:8443/", loop, nil},
		{"https://localhost./", loop, nil},
		{"https://acs.localhost/", loop, nil},
		{"https://acs.localhost./", loop, nil},
		{"http://localhost:8080/", scheme, nil},
		{"https://127.0.0.1/", loop, nil},
		{"https://127.0.0.1./", loop, nil},
		{"https://127.255.255.254/", loop, nil},
		{"https://127.1/", loop, nil},
		{"https://127.0.1/", loop, nil},
		{"https://127.65535/", loop, nil},
		{"https://2130706433/", loop, nil},
		{"https://0x7f000001/", loop, nil},
		{"https://0X7F.1/", loop, nil},
		{"https://0x7f.0x0.0x.0x1/", loop, nil},
		{"https://017700000001/", loop, nil},
		{"https://0177.0.0.01/", loop, nil},
		{"https://00000000177.1/", loop, nil},
		{"https://[::1]/", loop, nil},
		{"https://[0:0:0:0:0:0:0:1]:8443/", loop, nil},
		{"https://[::ffff:127.0.0.1]/", loop, nil},
		{"https://[::ffff:7f00:1]/", loop, nil},

		// Link-local and unspecified, which a laboratory needs as little.
		{"https://169.254.169.254/latest/meta-data", linkLocal, linkLocal},
		{"https://2852039166/", linkLocal, linkLocal},
		{"https://0xa9fea9fe/", linkLocal, linkLocal},
		{"https://[fe80::1]/", linkLocal, linkLocal},
		{"https://[febf::1]/", linkLocal, linkLocal},
		{"https://[::ffff:169.254.0.1]/", linkLocal, linkLocal},
		{"https://[ff02::1]/", linkLocal, linkLocal},
		{"https://224.0.0.1/", linkLocal, linkLocal},
		{"https://0.0.0.0/", unspecified, unspecified},
		{"https://0/", unspecified, unspecified},
		{"https://00.0/", unspecified, unspecified},
		{"https://0x/", unspecified, unspecified},
		{"https://0.0.0.1/", unspecified, unspecified},
		{"https://[::]/", unspecified, unspecified},
		{"https://[::ffff:0.0.0.0]/", unspecified, unspecified},
	}
	for _, tt := range tests {
		for i, lab := range []bool{false, true} {
			want := []error{tt.strict, tt.fromLab}[i]
			if got := (browserurl.Policy{Lab: lab}).Check(tt.url); !errors.Is(got, want) {
				t.Errorf("%q, lab %t: %v, want %v", tt.url, lab, got, want)
			}
		}
	}
}

// FuzzD110BrowserURLs: a URL that a browser may be sent to is one to net/url too, with the
// same meaning. It has https, a host of ASCII, no user, a port that there is, and nothing
// in it that HTML needs to escape in an attribute but the ampersand and the apostrophe.
// What a directory may give, a laboratory's may.
func FuzzD110BrowserURLs(f *testing.F) {
	for _, s := range []string{
		"https://acs.example/a?b=c#d", "HTTPS://acs.example:8443", "https://[::1]:1/", "https://127.1/", "https://0x7f.1/", "https://u@h/", `https://h\@i/`,
		"https://h/%22", "https://h/#", "https://h?", "https://h:/", "https://xn--a-/", "https://h/[a]?[b]#[c]", "https://[::ffff:1.2.3.4]", "http://localhost/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		strict, lab := browserurl.Policy{}.Check(s), browserurl.Policy{Lab: true}.Check(s)
		if strict == nil && lab != nil {
			t.Fatalf("%q is good but not for a laboratory: %v", s, lab)
		}
		if lab != nil {
			return
		}
		u, err := url.Parse(s)
		if err != nil {
			t.Fatalf("%q: net/url: %v", s, err)
		}
		if u.Scheme != "https" && (strict == nil || u.Scheme != "http") {
			t.Errorf("%q has the scheme %s", s, u.Scheme)
		}
		if u.User != nil || u.Hostname() == "" || strings.ContainsFunc(u.Host, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q has the user %v and the host %q", s, u.User, u.Host)
		}
		if strings.ContainsAny(s, "\"<>\\ \t\r\n") {
			t.Errorf("%q has a character that may end an attribute or a tag", s)
		}
		back := u.String()
		if strings.HasSuffix(s, "#") { // which net/url drops with an empty fragment
			back += "#"
		}
		scheme := len(u.Scheme)
		if back[scheme:] != s[scheme:] || !strings.EqualFold(back[:scheme], s[:scheme]) {
			t.Errorf("%q is %q to net/url", s, back)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			addr = addr.Unmap()
			if strict == nil && addr.IsLoopback() || addr.IsUnspecified() || addr.IsLinkLocalUnicast() {
				t.Errorf("%q has the address %s", s, addr)
			}
		}
	})
}

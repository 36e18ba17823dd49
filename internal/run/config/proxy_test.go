package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/difftest"
)

// TestProxyURL: what a forward proxy's URL may be, and that none is quoted that is not.
func TestProxyURL(t *testing.T) {
	for text, want := range map[string]ProxyURL{
		"direct":                    {Direct: true},
		"http://proxy.example:3128": {Address: "proxy.example:3128"},
		"https://192.0.2.7:443/":    {Address: "192.0.2.7:443", TLS: true},
		"http://[2001:db8::7]:8080": {Address: "[2001:db8::7]:8080"},
	} {
		if got, err := parseProxy(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                      "not such a URL",
		"Direct":                                "not such a URL",
		"proxy.example:3128":                    "not such a URL",
		"http://:3128":                          "not such a URL",
		"http://threeds:hush @proxy.example:31": "not such a URL",
		"socks5://proxy.example:1080":           "not such a URL",
		"http://hush@proxy.example:3128":        "holds a user or a password",
		"http://threeds:hush@proxy.example":     "holds a user or a password",
		"http://proxy.example":                  "has no port",
		"http://proxy.example:":                 "has no port",
		"http://proxy.example:0":                "the port is not",
		"http://proxy.example:65536":            "the port is not",
		"http://*.proxy.example:3128":           "the host is neither",
		"http://[fe80::1%25eth0]:3128":          "the host is neither",
		"http://proxy.example:3128/hush":        "has more than",
		"http://proxy.example:3128?":            "has more than",
		"http://proxy.example:3128/?hush":       "has more than",
		"http://proxy.example:3128#hush":        "has more than",
		"http://proxy.example:3128/#":           "has more than",
	} {
		if got, err := parseProxy(text); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %+v, %v; want that it %s", text, got, err, want)
		}
	}
}

// TestProxyCredentials: how a file of them is read, and that nothing of it is quoted.
func TestProxyCredentials(t *testing.T) {
	file, c := fullConfig(t)
	secret := filepath.Join(filepath.Dir(file), "proxy.secret")
	for text, want := range map[string][2]string{
		"threeds:hush":                        {"threeds", "hush"},
		"threeds:hush\n":                      {"threeds", "hush"},
		"threeds:hush\r\n":                    {"threeds", "hush"},
		"threeds:":                            {"threeds", ""},
		"a b:h:\u00fcsh \u20ac ":              {"a b", "h:\u00fcsh \u20ac "},
		"threeds:" + strings.Repeat("x", 992): {"threeds", strings.Repeat("x", 992)},
	} {
		write(t, secret, []byte(text))
		c, _, err := loadConfig(file, noon)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := difftest.Diff(want, [2]string{c.ForwardProxy.User, c.ForwardProxy.Password}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"", "\n", "hush", ":hush", "threeds:hush\n\n", "threeds:hush\nother:hush\n",
		"threeds:hu\x00sh", "threeds:hush" + strings.Repeat("x", 989)} {
		write(t, secret, []byte(text))
		if _, _, err := loadConfig(file, noon); err == nil ||
			!strings.Contains(err.Error(), "forward_proxy.credentials: the file does not hold one line") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if c.ForwardProxy.CA.Pool == nil {
		t.Error("the CA of the proxy is not read")
	}
}

// TestProxyOfTheEnvironment: a variable that other programs go by is pointed out where the
// configuration says nothing of proxies, and changes nothing.
func TestProxyOfTheEnvironment(t *testing.T) {
	_, c := fullConfig(t)
	environment := map[string]string{"https_proxy": "http://hush:hush@proxy.example:3128", "HTTPS_PROXY": "", "HTTP_PROXY": "http://proxy.example:3128"}
	lookup := func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	}
	if got := c.UnreadProxyVariable(lookup); got != "" {
		t.Errorf("with a proxy in the configuration: %s", got)
	}
	c.ForwardProxy, c.Directories[0].ForwardProxy = nil, nil
	if got := c.UnreadProxyVariable(lookup); got != "" {
		t.Errorf("with a word on it for one directory: %s", got)
	}
	c.V1[0].ForwardProxy = nil
	if got := c.UnreadProxyVariable(lookup); got != "https_proxy" {
		t.Errorf("with nothing in the configuration: %q, want https_proxy", got)
	}
	if got := c.UnreadProxyVariable(func(string) (string, bool) { return "", false }); got != "" {
		t.Errorf("with nothing at all: %s", got)
	}
}

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/edge/admin"
	emv "github.com/openthreeds/threeds/message"
)

const (
	adminTimeout = 15 * time.Second // how long the admin API may take for an answer
	maxRecord    = 4 << 20          // the length of the longest record that is read, in bytes
)

// An Admin is the admin API of a server, with a token.
type Admin struct {
	url, token string
	http       *http.Client
}

// NewAdmin returns the admin API at the address of a console, such as https://console.example. Over http the console
// has to be on this machine: the token would be readable on the way.
func NewAdmin(address, token string) (*Admin, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("not the address of a console, such as https://console.example")
	case u.Scheme != "https" && !(u.Scheme == "http" && isThisMachine(u.Hostname())):
		return nil, errors.New("want https, or http to this machine: the token would be readable on the way")
	case token == "":
		return nil, errors.New("want a token of the admin API, too: threeds token create --role viewer makes one")
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Admin{
		strings.TrimRight(u.String(), "/"), token, &http.Client{Timeout: adminTimeout, CheckRedirect: refuse},
	}, nil
}

func isThisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// showRecord returns the record of an authentication as the admin API shows it, which masks it.
func (a *Admin) showRecord(ctx context.Context, args map[string]string) (string, error) {
	id := strings.ToLower(args["id"])
	if !emv.IsUUID(id) {
		return "", errors.New("id: want a threeDSServerTransID, such as 8a880dc0-d2d2-4067-bcb1-b08d1690b26e")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+admin.Prefix+"authentications/"+id, nil)
	if err != nil {
		return "", errors.New("the address of the admin API cannot be used")
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	res, err := a.http.Do(r)
	if err != nil {
		return "", errors.New("the admin API does not answer: is the server running, and is THREEDS_ADMIN_URL its console?")
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxRecord))
	switch {
	case err != nil:
		return "", errors.New("the answer of the admin API broke off")
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return "", fmt.Errorf("the admin API answers %d: the token is not valid, or may not see records", res.StatusCode)
	case res.StatusCode == http.StatusNotFound:
		return "", errors.New("id: the journal has no such record, or the journal is off")
	case res.StatusCode != http.StatusOK:
		return "", fmt.Errorf("the admin API answers %d", res.StatusCode)
	}
	var text bytes.Buffer
	if json.Indent(&text, body, "", "  ") != nil {
		return "", errors.New("the admin API answers with no JSON: is THREEDS_ADMIN_URL the address of the console?")
	}
	return cardnumber.Scrub(text.String()), nil
}

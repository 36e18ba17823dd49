package login

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/openthreeds/threeds/internal/operate/operator"
)

// algorithms are those that ID tokens may be signed with.
func algorithms() []string { return []string{oidc.RS256, oidc.ES256, oidc.EdDSA} }

// issuerTimeout is how long each answer of the issuer is waited for.
const issuerTimeout = 4 * time.Second

// maxIssuerAnswer is the length of the longest answer of an issuer.
const maxIssuerAnswer = 1 << 20

// An issuerClient sends requests to an issuer, by https or to this machine alone.
type issuerClient struct{ transport *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (c issuerClient) RoundTrip(r *http.Request) (*http.Response, error) {
	ip := net.ParseIP(r.URL.Hostname())
	isLocal := r.URL.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if r.URL.Scheme != "https" && !(r.URL.Scheme == "http" && isLocal) {
		return nil, errors.New("the issuer names an address that is not https")
	}
	res, err := c.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxIssuerAnswer), res.Body}
	return res, nil
}

// issuerPause is for how long an issuer that has not answered is not asked again.
const issuerPause = 5 * time.Second

// An issuerCache keeps what an issuer has said of itself, or for a while that it has not.
type issuerCache struct {
	mu       sync.Mutex
	settings *OIDC // that the others are of
	client   *http.Client
	provider *oidc.Provider // nil: it has not answered
	failed   error
	askedAt  time.Time
}

// get returns the issuer of settings, and the client for it. It asks the issuer the first time.
func (c *issuerCache) get(ctx context.Context, settings *OIDC, now time.Time) (*oidc.Provider, *http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.askedAt); c.settings == settings && (c.provider != nil || age >= 0 && age < issuerPause) {
		return c.provider, c.client, c.failed
	}
	client := &http.Client{
		Transport: issuerClient{&http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: settings.Roots}, IdleConnTimeout: time.Minute,
			MaxIdleConnsPerHost: 2,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       issuerTimeout,
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), client), settings.Issuer)
	if err != nil {
		provider, err = nil, fmt.Errorf("issuer: %w", err)
	}
	c.settings, c.client, c.provider, c.failed, c.askedAt = settings, client, provider, err, now
	return provider, client, err
}

// clientOf returns this server as the issuer knows it.
func (s *Service) clientOf(settings *OIDC, provider *oidc.Provider) *oauth2.Config {
	endpoint := provider.Endpoint()
	if settings.ClientSecret == "" {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: settings.ClientID, ClientSecret: settings.ClientSecret, Endpoint: endpoint,
		RedirectURL: s.Settings().URL + "/login/oidc/callback", Scopes: settings.Scopes,
	}
}

// beginOIDC sends a browser to the issuer.
func (s *Service) beginOIDC(w http.ResponseWriter, r *http.Request) {
	settings := s.Settings().OIDC
	if settings == nil {
		s.showMessage(w, http.StatusNotFound, "There is no such page", "There is no login by OpenID Connect here.")
		return
	}
	provider, _, err := s.issuers.get(r.Context(), settings, s.Operators.Now())
	if err != nil {
		s.Log.Error("login by OpenID Connect", "err", err)
		s.showMessage(w, http.StatusBadGateway, "The issuer does not answer",
			"Try again in a minute. The log of the server says why.")
		return
	}
	c := ceremony{
		Next: ownPath(r.URL.Query().Get("next")), Nonce: operator.NewSecret(), Verifier: oauth2.GenerateVerifier(),
		Waiting: r.URL.Query().Get(confirmField),
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(c.Verifier), oidc.Nonce(c.Nonce)}
	if c.Waiting != "" { // OpenID Connect Core 1.0, section 3.1.2.1
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	state := s.sealCeremony(w, r, oidcLogin, c)
	to := s.clientOf(settings, provider).AuthCodeURL(state, options...)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// errNoRole says that no group of a user has a role.
var errNoRole = errors.New("none of the groups has a role")

// errNoGroups says that the issuer did not send the groups of a user.
var errNoGroups = errors.New("it does not say which groups you are in")

// errTwoMerchants says that a user would be of two merchants, or of two groups of merchants, or of one of each.
var errTwoMerchants = errors.New("the groups are of more than one merchant, or group of merchants")

// The rights of a user are a role, for one merchant, for a group of merchants or for all.
type rights struct {
	role            operator.Role
	merchant, group string
}

// rightsOf returns the rights that a user has.
func rightsOf(u *operator.User) rights { return rights{u.Role, u.Merchant, u.Group} }

// rights returns what the groups of a user let them do: the highest role, for one merchant, for a group of merchants or
// for all.
func (o *OIDC) rights(groups []string) (of rights, err error) {
	highest := -1
	for _, group := range groups {
		if found, ok := o.Roles[group]; ok {
			highest = max(highest, slices.Index(operator.Roles(), found))
		}
		own := rights{merchant: o.Merchants[group], group: o.MerchantGroups[group]}
		switch none := (rights{}); {
		case own == none:
		case own.merchant != "" && own.group != "", of != none && of != own:
			return none, errTwoMerchants
		default:
			of = own
		}
	}
	if highest < 0 {
		return rights{}, errNoRole
	}
	of.role = operator.Roles()[highest]
	return of, nil
}

// A subject is who the issuer says that has logged in.
type subject struct {
	id        string // sub
	label     string
	groups    []string
	hasGroups bool // the issuer has sent the groups; the list may be empty
}

// finishOIDC logs in the user that the issuer sends back.
func (s *Service) finishOIDC(w http.ResponseWriter, r *http.Request) {
	settings := s.Settings().OIDC
	query := r.URL.Query()
	if settings == nil {
		s.showMessage(w, http.StatusNotFound, "There is no such page", "There is no login by OpenID Connect here.")
		return
	}
	c, err := s.openCeremony(r, oidcLogin, query.Get("state"))
	if err != nil {
		s.recordFailure(r, "unknown", err.Error())
		s.showMessage(w, http.StatusForbidden, "The login was refused", "It did not work, for "+err.Error()+". Log in again.")
		return
	}
	if query.Has("error") {
		s.recordFailure(r, "unknown", "the issuer refused the login")
		s.showMessage(w, http.StatusForbidden, "The login was refused",
			"The issuer has not let you in. Log in again, or ask an administrator.")
		return
	}
	who, err := s.identify(r, settings, &c)
	if err == nil {
		err = s.spendCeremony(r, &c)
	}
	if err != nil {
		s.Log.Warn("login by OpenID Connect", "err", err)
		if errors.Is(err, errStaleLogin) {
			s.refuseConfirmation(w, r, "unknown", err)
			return
		}
		s.recordFailure(r, "unknown", "the answer of the issuer was not accepted")
		s.showMessage(w, http.StatusForbidden, "The login was refused",
			"The answer of the issuer was not accepted. Log in again. The log of the server says why.")
		return
	}
	if c.Waiting != "" {
		s.showLoggedInAgain(w, r, &c, &who)
		return
	}
	of, err := settings.rights(who.groups)
	if errors.Is(err, errNoRole) && !who.hasGroups {
		err = errNoGroups
		s.Log.Warn("login by OpenID Connect: neither the ID token nor userinfo has the claim of the groups",
			"claim", settings.RoleClaim)
	}
	if err != nil {
		s.recordFailure(r, operator.OIDCPrefix+who.id, err.Error())
		s.showMessage(w, http.StatusForbidden, "You have no role here",
			"The issuer knows you, but "+err.Error()+". Ask an administrator.")
		return
	}
	user, err := s.rememberSubject(r.Context(), who, of)
	if err != nil {
		s.showFailure(w, err)
		return
	}
	s.startSession(w, r, &user, who.groups, c.Next)
}

// identify asks the issuer which user has logged in.
func (s *Service) identify(r *http.Request, settings *OIDC, c *ceremony) (subject, error) {
	query := r.URL.Query()
	if iss := query.Get("iss"); iss != "" && iss != settings.Issuer {
		return subject{}, errors.New("another issuer has sent the browser back")
	}
	provider, client, err := s.issuers.get(r.Context(), settings, s.Operators.Now())
	if err != nil {
		return subject{}, err
	}
	ctx := oidc.ClientContext(r.Context(), client)
	tokens, err := s.clientOf(settings, provider).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(c.Verifier))
	if err != nil {
		return subject{}, describeExchange(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := provider.VerifierContext(ctx, &oidc.Config{
		ClientID: settings.ClientID, SupportedSigningAlgs: algorithms(), Now: s.Operators.Now,
	}).Verify(ctx, raw)
	if err != nil {
		return subject{}, err
	}
	if c.Nonce == "" || subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(c.Nonce)) != 1 {
		return subject{}, errors.New("the ID token has another nonce")
	}
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return subject{}, err
	}
	if err := c.checkFresh(claims); err != nil {
		return subject{}, err
	}
	if azp, ok := claims["azp"]; (ok || len(token.Audience) > 1) && textOf(azp) != settings.ClientID {
		return subject{}, errors.New("the ID token is for another client")
	}
	if token.Subject == "" || len(token.Subject) > 255 ||
		strings.ContainsFunc(token.Subject, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return subject{}, errors.New("the ID token has no sub of printable ASCII")
	}
	if _, has := claims[settings.RoleClaim]; !has {
		if err := addUserInfo(ctx, provider, tokens, token.Subject, claims); err != nil {
			return subject{}, err
		}
	}
	_, hasGroups := claims[settings.RoleClaim]
	return subject{token.Subject, textOf(claims[settings.NameClaim]), textsOf(claims[settings.RoleClaim]), hasGroups}, nil
}

// addUserInfo adds to the claims of an ID token those of the userinfo endpoint, where many issuers return what a scope
// asks for (OpenID Connect Core 1.0, section 5.4). Claims of the ID token win. An issuer without that endpoint returns
// nothing more.
func addUserInfo(ctx context.Context, provider *oidc.Provider, tokens *oauth2.Token, sub string,
	claims map[string]json.RawMessage) error {
	if provider.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return describeUserInfo(err)
	}
	if info.Subject != sub {
		return errors.New("userinfo is of another subject than the ID token")
	}
	var more map[string]json.RawMessage
	if err := info.Claims(&more); err != nil {
		return errors.New("userinfo is no JSON object")
	}
	for name, claim := range more {
		if _, has := claims[name]; !has {
			claims[name] = claim
		}
	}
	return nil
}

// describeUserInfo returns why the issuer gave no claims, without what else it has sent.
func describeUserInfo(err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("userinfo endpoint: %w", err)
	}
	reason, _, _ := strings.Cut(err.Error(), ": ") // what follows may be the answer
	return errors.New("userinfo endpoint: " + reason)
}

// describeExchange returns why the issuer gave no tokens, without what else it has sent.
func describeExchange(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("token endpoint: HTTP %d, error %q", refused.Response.StatusCode, refused.ErrorCode)
	}
	return fmt.Errorf("token endpoint: %w", err)
}

// maxLabel is the length of the longest name of a user that is kept.
const maxLabel = 200

// textOf returns a claim that is a text, else "".
func textOf(claim json.RawMessage) string {
	var text string
	if json.Unmarshal(claim, &text) != nil || len(text) > maxLabel {
		return ""
	}
	return text
}

// textsOf returns a claim that is a list of texts, or one text.
func textsOf(claim json.RawMessage) []string {
	var all []string
	if json.Unmarshal(claim, &all) == nil {
		return all
	}
	if text := textOf(claim); text != "" {
		return []string{text}
	}
	return nil
}

// rememberSubject stores the person who has logged in as a user, with the rights that the groups have now.
func (s *Service) rememberSubject(ctx context.Context, who subject, of rights) (operator.User, error) {
	user := operator.User{
		Name: operator.OIDCPrefix + who.id, Role: of.role, Merchant: of.merchant, Group: of.group, Label: who.label,
	}
	err := s.Operators.AddUser(ctx, &user)
	if errors.Is(err, operator.ErrUserExists) {
		_, user, err = s.Operators.ChangeUser(ctx, user.Name, func(u *operator.User) error {
			u.Role, u.Merchant, u.Group, u.Label = of.role, of.merchant, of.group, who.label
			return nil
		})
	}
	return user, err
}

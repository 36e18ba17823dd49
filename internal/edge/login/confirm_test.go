package login_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/store"
)

// askToErase sends the form of a dangerous act, with a card number, for a visitor.
func (v *visitor) askToErase() answer {
	v.Helper()
	asked := v.post("/erase/card", url.Values{"csrf": {v.csrf()}, "number": {"4000000000000103"}})
	if asked.StatusCode != http.StatusOK || strings.Contains(asked.body, "4000000000000103") ||
		!strings.Contains(asked.body, "Erase?") || !strings.Contains(asked.body, "<b>card</b>") {
		v.Fatalf("the page that asks: HTTP %d %s", asked.StatusCode, asked.body)
	}
	return asked
}

// TestPasskeyConfirmsADangerousAct: the page that asks has nothing of the form in clear. A touch of the person's own
// passkey sends the same form on, whatever else comes with it.
func TestPasskeyConfirmsADangerousAct(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.newOperator("jo", operator.Admin)
	asked := v.askToErase()
	if !strings.Contains(asked.body, encoding.EncodeToString(v.key.id)) {
		t.Errorf("the browser is not told which passkeys the person has: %s", asked.body)
	}
	sent := v.confirm(asked)
	sent.Set("number", "4000000000000111")
	if a := v.post("/erase/card", sent); a.body != "erased 4000000000000103, confirmed by passkey" {
		t.Errorf("HTTP %d %s", a.StatusCode, a.body)
	}
}

// TestConfirmationCountsForOneAct: once, for two minutes, for the person, the browser and the form that it was asked
// for, and by a passkey of this person. Nothing is done otherwise, and the audit trail says so.
func TestConfirmationCountsForOneAct(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(v, other *visitor, asked answer) answer{
		"twice": func(v, _ *visitor, asked answer) answer {
			sent := v.confirm(asked)
			v.post("/erase/card", sent)
			v.key.counter += 5
			sent.Set("csrf", v.csrf())
			return v.post("/erase/card", sent)
		},
		"after two minutes": func(v, _ *visitor, asked answer) answer {
			v.pass(2 * time.Minute)
			return v.post("/erase/card", v.confirm(asked))
		},
		"for another object": func(v, _ *visitor, asked answer) answer { return v.post("/erase/merchant", v.confirm(asked)) },
		"by another person's passkey": func(v, other *visitor, asked answer) answer {
			v.key = other.key
			return v.post("/erase/card", v.confirm(asked))
		},
		"in another person's session": func(v, other *visitor, asked answer) answer {
			sent := v.confirm(asked)
			other.setCookie("threeds-login", v.cookie("threeds-login"))
			sent.Set("csrf", other.csrf())
			return other.post("/erase/card", sent)
		},
		"without the person checked": func(v, _ *visitor, asked answer) answer {
			v.key.flags = userPresent
			return v.post("/erase/card", v.confirm(asked))
		},
		"without a passkey": func(v, _ *visitor, asked answer) answer {
			return v.post("/erase/card", asked.confirmation(v))
		},
		"with what is for a login": func(v, _ *visitor, asked answer) answer {
			sent := v.confirm(asked)
			sent.Set("confirm", v.newVisitor().get("/login").form(v).csrf)
			return v.post("/erase/card", sent)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			v, other := s.newOperator("jo", operator.Admin), s.newOperator("kim", operator.Admin)
			a := spoil(v, other, v.askToErase())
			if a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, "Nothing was changed") {
				t.Errorf("HTTP %d %s", a.StatusCode, a.body)
			}
			trail, err := s.operators.Search(t.Context(), operator.Query{Action: "login.failed"})
			must(t, err)
			if len(trail) != 1 {
				t.Errorf("the audit trail has %+v", trail)
			}
		})
	}
}

// TestFreshLoginConfirmsADangerousAct: the issuer is asked for a new login, and has to say that it is one. The form
// waits in the store, sealed, and counts once.
func TestFreshLoginConfirmsADangerousAct(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	i := newIssuer(s)
	v := s.newVisitor()
	i.logIn(v, "/")
	begin := func() url.Values {
		asked := v.askToErase()
		_, link, _ := strings.Cut(asked.body, `href="/login/oidc?confirm=`)
		link, _, _ = strings.Cut(link, `"`)
		rows, err := s.db.Objects(t.Context(), store.CeremonyObjects)
		must(t, err)
		for _, row := range rows {
			if strings.Contains(string(row.Data), "4000000000000103") || row.ID == link {
				t.Error("the store has the form in clear, or its secret")
			}
		}
		back := i.startAt(v, "/login/oidc?confirm="+link)
		if back.Get("prompt") != "login" || back.Get("max_age") != "0" {
			t.Errorf("the issuer is asked for %v", back)
		}
		return back
	}
	for name, claim := range map[string]any{
		"without a time": nil, "of a login before": s.clock().Add(-time.Minute).Unix(), "that is no time": "now",
	} {
		i.claims["auth_time"] = claim
		if a := i.comeBack(v, begin()); a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, "auth_time") {
			t.Errorf("%s: HTTP %d %s", name, a.StatusCode, a.body)
		}
	}
	i.claims["auth_time"] = s.clock().Unix()
	i.claims["sub"] = "4712"
	if a := i.comeBack(v, begin()); a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, "Nothing was changed") {
		t.Errorf("as another person: HTTP %d %s", a.StatusCode, a.body)
	}
	delete(i.claims, "sub")
	groups := i.claims["groups"]
	i.claims["groups"] = []string{}
	if a := i.comeBack(v, begin()); a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, "Nothing was changed") {
		t.Errorf("as a person who has lost the groups: HTTP %d %s", a.StatusCode, a.body)
	}
	i.claims["groups"] = groups
	sent := i.comeBack(v, begin()).confirmation(t)
	if a := v.post("/erase/card", sent); a.body != "erased 4000000000000103, confirmed by login" {
		t.Errorf("HTTP %d %s", a.StatusCode, a.body)
	}
	if a := v.post("/erase/card", sent); a.StatusCode != http.StatusForbidden {
		t.Errorf("a second time: HTTP %d %s", a.StatusCode, a.body)
	}
}

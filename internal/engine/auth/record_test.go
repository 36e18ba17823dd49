package auth_test

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// TestChangedInTheDatabase: an attacker who can write to the database but has no keys cannot give a result to another
// merchant, keep one alive or replace one.
func TestChangedInTheDatabase(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*store.Txn)
		asks   string // the merchant
	}{
		{"nothing", func(*store.Txn) {}, ""},
		{"owner", func(row *store.Txn) { row.Owner = authtest.Other.Merchant.Name }, "other"},
		{"scheme", func(row *store.Txn) { row.Scheme = "mastercard" }, "shop"},
		{"state", func(row *store.Txn) { row.State = txn.Challenge }, "shop"},
		{"expires", func(row *store.Txn) { row.Expires = row.Expires.Add(time.Hour) }, "shop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := authtest.NewWorld()
			e := w.NewEngine(0)
			w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return authtest.ARes(o, "C"), nil }
			id := authtest.Preauth(t, e, authtest.Shop)
			req := authtest.AReq("2.2.0", id)
			if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err != nil {
				t.Fatal(err)
			}
			if got := e.Receive(t.Context(), []string{"visa"}, authtest.RReq(req, "N", 1).JSON()); authtest.Parse(t, got.Body).Text("messageType") != "RRes" {
				t.Fatalf("answer %s", got.Body)
			}
			row := w.Txns[id]
			tt.change(&row)
			w.Txns[id] = row

			acc := authtest.Shop
			if tt.asks == "other" {
				acc = authtest.Other
			}
			got, err := e.Result(t.Context(), acc, authtest.Object{"threeDSServerTransID": id}.JSON())
			if untouched := tt.asks == ""; (err == nil) != untouched {
				t.Errorf("Result = %s, %v", got, err)
			}
			second := e.Receive(t.Context(), []string{row.Scheme}, authtest.RReq(req, "Y", 2).JSON())
			if authtest.Parse(t, second.Body).Text("messageType") != "Erro" {
				t.Errorf("a second RReq is answered with %s", second.Body)
			}
		})
	}
}

// TestFailedTransactionIsReadable: a transaction that comes to nothing can still be read.
func TestFailedTransactionIsReadable(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	w.Reply = func(string, authtest.Object) ([]byte, error) { return []byte("{"), nil }
	id := authtest.Preauth(t, e, authtest.Shop)
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", id).JSON()); authtest.CodeOf(err) != "101" {
		t.Fatal(err)
	}
	if w.Txns[id].State != txn.Failed {
		t.Fatalf("it is %s", w.Txns[id].State)
	}
	if _, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": id}.JSON()); authtest.CodeOf(err) != "203" {
		t.Errorf("Result: %v, want 203", err)
	}
}

// A journaled store adds an entry to a journal for each row that was written, as it was given.
type journaled struct {
	*authtest.World
	add func(context.Context, store.Txn)
}

func (j journaled) Create(ctx context.Context, t store.Txn) error {
	err := j.World.Create(ctx, t)
	if err == nil {
		j.add(ctx, t)
	}
	return err
}

func (j journaled) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	var last store.Txn
	err := j.World.Update(ctx, was, func(t *store.Txn) error {
		err := change(t)
		last = *t
		return err
	})
	if err == nil {
		j.add(ctx, last)
	}
	return err
}

// TestJ1StepsOfEveryEnding: whatever becomes of an authentication, the journal has its steps in their order, each with
// its time, and the amount. The AReq is there as it left, masked.
func TestJ1StepsOfEveryEnding(t *testing.T) {
	t.Parallel()
	const begun, atTheBank = "request lookup answered areq ares ", "request lookup answered areq ares challenge creq "
	var asked authtest.Object // the AReq
	reply := func(status string) func(*authtest.World) {
		return func(w *authtest.World) {
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				asked = areq
				w.Pass(90 * time.Millisecond)
				return authtest.ARes(areq, status), nil
			}
		}
	}
	result := func(w *authtest.World, e *session.Engine) {
		w.Pass(time.Minute)
		e.Receive(t.Context(), []string{"visa"}, authtest.RReq(asked, "Y", 1).JSON())
	}
	expired := func(w *authtest.World, e *session.Engine, id string) {
		w.Pass(25 * time.Hour)
	}
	auth1 := func(t *testing.T, _ *authtest.World, e *session.Engine) string {
		id := authtest.Preauth(t, e, authtest.Shop)
		_, _, _ = e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", id).JSON())
		return id
	}
	paged := func(end func(p *authtest.Page)) func(*testing.T, *authtest.World, *session.Engine) string {
		return func(t *testing.T, w *authtest.World, _ *session.Engine) string {
			p := w.NewPage(t)
			w.Pass(time.Second)
			end(p)
			return p.ID
		}
	}
	atBank := func(end func(p *authtest.Page, tag string)) func(*testing.T, *authtest.World, *session.Engine) string {
		return paged(func(p *authtest.Page) {
			p.Start()
			p.Await(session.StepChallenge)
			end(p, strings.Split(asked.Text("notificationURL"), "/")[4])
		})
	}
	for _, tt := range []struct {
		name   string
		world  func(*authtest.World)
		do     func(t *testing.T, w *authtest.World, e *session.Engine) string // returns the id
		status string
		want   string
	}{
		{"frictionless", reply("Y"), auth1, "completed", "request lookup areq ares answered"},
		{"challenge", reply("C"), auth1, "challenge", "request lookup areq ares answered challenge"},
		{"challenge and result, fetched twice", reply("C"), func(t *testing.T, w *authtest.World, e *session.Engine) string {
			id := auth1(t, w, e)
			result(w, e)
			for range 2 {
				w.Pass(time.Second)
				if _, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": id}.JSON()); err != nil {
					t.Error(err)
				}
			}
			return id
		}, "completed", "request lookup areq ares answered challenge rreq rres postauth"},
		{"a result that is refused, and a good one", reply("C"), func(t *testing.T, w *authtest.World, e *session.Engine) string {
			id := auth1(t, w, e)
			bad := authtest.RReq(asked, "Y", 1)
			delete(bad, "transStatus")
			e.Receive(t.Context(), []string{"visa"}, bad.JSON())
			result(w, e)
			return id
		}, "completed", "request lookup areq ares answered challenge rreq rreq rres"},
		{"given up by the directory", reply("C"), func(t *testing.T, w *authtest.World, e *session.Engine) string {
			id := auth1(t, w, e)
			w.Pass(time.Minute)
			e.Receive(t.Context(), []string{"visa"}, authtest.Object{
				"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "402", "errorComponent": "D",
				"errorDescription": "x", "errorDetail": "y", "threeDSServerTransID": id,
			}.JSON())
			return id
		}, "failed", "request lookup areq ares answered challenge erro"},
		{"a challenge that nobody ends", reply("C"), func(t *testing.T, w *authtest.World, e *session.Engine) string {
			id := auth1(t, w, e)
			expired(w, e, id)
			return id
		}, "expired", "request lookup areq ares answered challenge expired"},
		{"decoupled", func(w *authtest.World) {
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "D"), nil }
		}, func(t *testing.T, w *authtest.World, e *session.Engine) string {
			id := authtest.Preauth(t, e, authtest.Shop)
			o := authtest.AReq("2.2.0", id)
			o["threeDSRequestorDecReqInd"], o["threeDSRequestorDecMaxTime"] = "Y", "00010"
			_, _, _ = e.Authenticate(t.Context(), authtest.Shop, o.JSON())
			return id
		}, "decoupled", "request lookup areq ares answered"},
		{"no answer", func(w *authtest.World) {
			w.Reply = func(string, authtest.Object) ([]byte, error) { return nil, context.DeadlineExceeded }
		}, auth1, "failed", "request lookup areq erro answered"},
		{"an answer that is refused", func(w *authtest.World) {
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				o := authtest.AResObject(areq, "Y")
				delete(o, "acsTransID")
				return o.JSON(), nil
			}
		}, auth1, "failed", "request lookup areq ares erro answered"},
		{"Erro for an answer", func(w *authtest.World) {
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				return authtest.Object{
					"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "405", "errorComponent": "D",
					"errorDescription": "x", "errorDetail": "y", "threeDSServerTransID": areq["threeDSServerTransID"],
				}.JSON(), nil
			}
		}, auth1, "failed", "request lookup areq erro answered"},
		{"3RI", reply("Y"), func(t *testing.T, _ *authtest.World, e *session.Engine) string {
			a, _, err := e.Create(t.Context(), authtest.Profiled, authtest.ThreeRI().JSON())
			if err != nil {
				t.Fatal(authtest.Told(err))
			}
			return a.ID
		}, "completed", "request lookup areq ares answered"},
		{"not enrolled", func(w *authtest.World) { w.Hits = nil }, func(t *testing.T, w *authtest.World, _ *session.Engine) string {
			a, _, err := w.NewBrowserEngine().Create(t.Context(), authtest.Profiled, authtest.Four().JSON())
			if err != nil {
				t.Fatal(authtest.Told(err))
			}
			return a.ID
		}, "completed", "request lookup answered"},
		{"an agent", reply("Y"), func(t *testing.T, w *authtest.World, _ *session.Engine) string {
			e, d, a := w.NewAgent(t)
			w.Pass(time.Second)
			if _, err := e.AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID, authtest.AgentBrowser().JSON()); err != nil {
				t.Error(authtest.Told(err))
			}
			return a.ID
		}, "completed", "request lookup answered request areq ares answered"},
		{"a page, frictionless, and asked for", reply("Y"), paged(func(p *authtest.Page) {
			p.Start()
			p.Await(session.StepEnd)
			p.Pass(time.Second)
			for range 2 {
				if _, err := p.Authentication(t.Context(), authtest.Profiled, p.ID); err != nil {
					t.Error(err)
				}
			}
		}), "completed", begun + "answered"},
		{"a page with a 3DS Method", func(w *authtest.World) {
			reply("Y")(w)
			w.Hits = []ranges.Hit{{Scheme: "visa", Info: authtest.AllVersions("https://acs.example/method")}}
		}, paged(func(p *authtest.Page) {
			p.Start()
			p.Pass(11 * time.Second)
			p.Await(session.StepEnd)
		}), "completed", "request lookup answered method areq ares"},
		{"a page, result before the return", reply("C"), atBank(func(p *authtest.Page, tag string) {
			result(p.World, p.Engine)
			p.Pass(time.Second)
			_, _ = p.EndBrowserChallenge(t.Context(), tag)
		}), "completed", atTheBank + "rreq rres cres"},
		{"a page, return before the result", reply("C"), atBank(func(p *authtest.Page, tag string) {
			p.Pass(time.Second)
			_, _ = p.EndBrowserChallenge(t.Context(), tag)
			result(p.World, p.Engine)
		}), "completed", atTheBank + "cres rreq rres"},
		{"a page, left at the bank", reply("C"), atBank(func(p *authtest.Page, _ string) { expired(p.World, p.Engine, p.ID) }), "expired",
			atTheBank + "expired"},
		{"a page that never comes", reply("Y"), paged(func(p *authtest.Page) { p.Pass(31 * time.Minute) }), "expired",
			"request lookup answered expired"},
		{"cancelled before the browser comes", reply("Y"), paged(func(p *authtest.Page) {
			_, _ = p.Cancel(t.Context(), authtest.Profiled, p.ID)
		}), "cancelled", "request lookup answered cancelled answered"},
		{"a page with SPC, and a challenge", func(w *authtest.World) { w.Hits = authtest.SPCWorld().Hits },
			func(t *testing.T, w *authtest.World, _ *session.Engine) string {
				p, sent := authtest.NewSPCPage(t, w, "C")
				p.Pass(time.Second)
				if _, err := p.Answer(p.Engine, session.SPCAnswer{Incomplete: "02"}); err != nil {
					t.Fatal(err)
				}
				p.Await(session.StepChallenge)
				p.Pass(time.Second)
				p.Receive(t.Context(), []string{"visa"}, authtest.RReq(sent.List()[1], "Y", 1).JSON())
				return p.ID
			}, "completed", begun + "spc spc.answer areq ares challenge creq rreq rres"},
		{"cancelled, and a late result", reply("C"), atBank(func(p *authtest.Page, _ string) {
			_, _ = p.Cancel(t.Context(), authtest.Profiled, p.ID)
			result(p.World, p.Engine)
		}), "cancelled", atTheBank + "cancelled answered rreq rres"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := authtest.NewWorld()
			tt.world(w)
			st, err := journal.OpenFiles(t.TempDir(), journal.NewKeys())
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			write := func(entries ...journal.Entry) {
				if _, err := st.Write(context.WithoutCancel(t.Context()), entries); err != nil {
					t.Error(err)
				}
			}
			var group tasks.Group
			defer group.End()
			w.Journal = func(e *session.Engine) {
				e.Tasks = &group
				e.AddToJournal = func(entry journal.Entry) { write(entry) }
				e.Store = journaled{w, func(ctx context.Context, row store.Txn) {
					now := w.Clock() // once: a shopper's goroutine may pass time meanwhile
					entries := e.JournalEntries(row, now, false, auth.SentMessage(ctx))
					row.Plain = nil
					fromRow := e.JournalEntries(row, now, false, auth.SentMessage(ctx))
					if got, want := asJSON(t, entries), asJSON(t, fromRow); got != want {
						t.Errorf("the entry of what was sealed is\n%s\nand that of the row\n%s", got, want)
					}
					write(entries...)
				}}
			}
			e := w.NewEngine(0)
			id := tt.do(t, w, e)
			group.End() // what is done for a page is in the journal, too
			row, err := w.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			write(e.JournalEntries(row, w.Clock(), true, nil)...) // the sweep adds what nothing was written for
			d, err := st.Show(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			var steps []string
			for i, s := range d.Steps {
				steps = append(steps, s.Step)
				if s.At.Before(d.Created) || s.At.After(w.Clock()) || i > 0 && s.At.Before(d.Steps[i-1].At) || s.MS != s.At.Sub(d.Created).Milliseconds() {
					t.Errorf("%s is at %s, %d ms", s.Step, s.At, s.MS)
				}
				switch s.Step {
				case "erro":
					isRelayed := strings.HasPrefix(strings.Join(s.Findings, ""), journal.RelayedErro)
					if len(s.Message) == 0 && isRelayed != (tt.name == "Erro for an answer") {
						t.Errorf("who sent the Erro: %q", s.Findings)
					}
				case "areq", "ares", "rreq", "creq":
					m, err := message.Parse(s.Message, message.Limits{})
					if kind, _ := m.Type(); err != nil || !strings.EqualFold(kind.String(), s.Step) {
						t.Errorf("%s has the message %s", s.Step, s.Message)
					}
					if strings.Contains(string(s.Message), authtest.PAN) || strings.Contains(string(s.Message), authtest.Value) {
						t.Errorf("%s shows a secret", s.Step)
					}
					if s.Step == "areq" && (m.Text("mcc") == "" || m.Text("acctNumber") == "") {
						t.Errorf("the AReq is %s", s.Message)
					}
				}
			}
			if got := strings.Join(steps, " "); got != tt.want || d.Status != tt.status {
				t.Errorf("%s: %s, want %s: %s", d.Status, got, tt.status, tt.want)
			}
			if d.Amount == "" || d.Currency != "978" || d.Card.Last4 == "" {
				t.Errorf("amount %q, currency %q, last four digits %q", d.Amount, d.Currency, d.Card.Last4)
			}
		})
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// A countingSealer counts what it opens.
type countingSealer struct {
	txn.Sealer
	opened *int
}

func (s countingSealer) Open(name string, sealed []byte) ([]byte, error) {
	*s.opened++
	return s.Sealer.Open(name, sealed)
}

// TestJ1EntriesAreMadeOfWhatWasSealed: the writer of the journal opens no row that was just written, and what happens
// to an authentication afterwards changes nothing of the entry.
func TestJ1EntriesAreMadeOfWhatWasSealed(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "C"), nil }
	var later []func() []journal.Entry
	opened := 0
	w.Journal = func(e *session.Engine) {
		e.Sealer, e.AddToJournal = countingSealer{e.Sealer, &opened}, func(journal.Entry) {}
		e.Store = journaled{w, func(ctx context.Context, row store.Txn) {
			sent, at := auth.SentMessage(ctx), w.Clock()
			later = append(later, func() []journal.Entry { return e.JournalEntries(row, at, false, sent) })
		}}
	}
	e := w.NewEngine(0)
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop)).JSON()); err != nil {
		t.Fatal(err)
	}
	opened = 0
	w.Pass(25 * time.Hour) // the challenge is over when the writer comes to the entries
	var kinds []journal.Kind
	for _, build := range later {
		for _, entry := range build() {
			kinds = append(kinds, entry.Kind)
		}
	}
	if want := []journal.Kind{journal.Claimed, journal.Answered}; !slices.Equal(kinds, want) || opened != 0 {
		t.Errorf("the entries are %q, want %q; %d rows were opened for them, want none", kinds, want, opened)
	}
}

// TestD126WithheldValuesSayHowLongTheyWere: where the journal hides a value of a message, it shows the length. For an
// authentication value it also shows a keyed hash, which is the same for the same value and differs for another one.
func TestD126WithheldValuesSayHowLongTheyWere(t *testing.T) {
	t.Parallel()
	keys := journal.NewKeys()
	run := func(authenticationValue string) (areqText, aresText string) {
		w := authtest.NewWorld()
		w.Reply = func(_ string, o authtest.Object) ([]byte, error) {
			answer := authtest.AResObject(o, "Y")
			answer["authenticationValue"] = authenticationValue
			return answer.JSON(), nil
		}
		var entries []journal.Entry
		w.Journal = func(e *session.Engine) {
			e.CardHash, e.AddToJournal = keys.CardHash, func(journal.Entry) {}
			e.Store = journaled{w, func(ctx context.Context, t store.Txn) {
				entries = append(entries, e.JournalEntries(t, w.Clock(), false, auth.SentMessage(ctx))...)
			}}
		}
		e := w.NewEngine(0)
		request := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
		request["email"], request["mobilePhone"] = "ann@shop.example", authtest.Object{"cc": "49", "subscriber": "3012345"}
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, request.JSON()); err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			for _, s := range entry.Steps {
				switch s.Step {
				case "areq":
					areqText = string(s.Message)
				case "ares":
					aresText = string(s.Message)
				}
			}
		}
		return areqText, aresText
	}
	other := "BBBCCCJZUwAAAAAAUFlTAAAAAAA="
	areqText, first := run(authtest.Value)
	_, again := run(authtest.Value)
	_, changed := run(other)
	hashForm := regexp.MustCompile(`"authenticationValue":"\[withheld, 28 bytes\] hash ([0-9a-f]{8})"`)
	hashOf := func(text string) string {
		found := hashForm.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("the ARes is %s", text)
		}
		return found[1]
	}
	if hashOf(first) != hashOf(again) || hashOf(first) == hashOf(changed) {
		t.Errorf("the hashes are %s, %s and, of another value, %s", hashOf(first), hashOf(again), hashOf(changed))
	}
	for _, want := range []string{`"email":"[withheld, 16 bytes]"`, `"mobilePhone":"[withheld, `, `"browserIP":"[withheld, `} {
		if !strings.Contains(areqText, want) {
			t.Errorf("the AReq has no %s: %s", want, areqText)
		}
	}
	for _, secret := range []string{"***\"", authtest.PAN, "ann@", "3012345"} {
		if strings.Contains(areqText+first, secret) {
			t.Errorf("%q is in %s %s", secret, areqText, first)
		}
	}
}

// TestD126PersonalHasNoSecret: the journal gets the personal data of an AReq where the operator asked for it, and never
// a card number in one of them, an authentication value or another secret.
func TestD126PersonalHasNoSecret(t *testing.T) {
	t.Parallel()
	const foreign = "5555 5555 5555 4444"
	spaced := authtest.PAN[:4] + " " + authtest.PAN[4:8] + "-" + authtest.PAN[8:12] + "/" + authtest.PAN[12:]
	run := func(isOn bool, change authtest.Object) (message, personal string) {
		w := authtest.NewWorld()
		w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return authtest.ARes(o, "Y"), nil }
		w.Journal = func(e *session.Engine) {
			e.AddToJournal, e.JournalsPersonal = func(journal.Entry) {}, isOn
			e.Store = journaled{w, func(ctx context.Context, t store.Txn) {
				for _, entry := range e.JournalEntries(t, w.Clock(), false, auth.SentMessage(ctx)) {
					for _, s := range entry.Steps {
						if s.Step == "areq" {
							message, personal = string(s.Message), string(s.Personal)
						}
					}
				}
			}}
		}
		e := w.NewEngine(0)
		request := authtest.AReq("2.3.1", authtest.Preauth(t, e, authtest.Shop))
		request["acquirerCountryCode"], request["acquirerCountryCodeSource"], request["acceptLanguage"] = "208", "01", []any{"en"}
		for name, value := range change {
			request[name] = value
		}
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, request.JSON()); err != nil {
			t.Fatal(err)
		}
		return message, personal
	}
	good := authtest.Object{
		"cardholderName": "Ann Example", "email": "ann@shop.example", "mobilePhone": authtest.Object{"cc": "49", "subscriber": "3012345"},
		"billAddrLine1": "1 Long Lane", "browserIP": "212.184.123.145", "acctID": "0f8fad5b-d9cb-469f-a165-70867728950e",
		"merchantRiskIndicator": authtest.Object{"deliveryEmailAddress": "bob@shop.example", "shipIndicator": "01"},
		"cardSecurityCode":      "737", "cardExpiryDate": "3011", "taxId": "tax 1",
		"threeDSRequestorAuthenticationInfo": []any{authtest.Object{"threeDSReqAuthData": authtest.Value}},
	}
	if message, personal := run(false, good); personal != "" || !strings.Contains(message, `"email":"[withheld, 16 bytes]"`) {
		t.Errorf("nobody asked for %s; the message is %s", personal, message)
	}
	message, personal := run(true, good)
	var got map[string]string
	if err := json.Unmarshal([]byte(personal), &got); err != nil {
		t.Fatalf("%v: %s", err, personal)
	}
	want := map[string]string{
		"cardholderName": "Ann Example", "email": "ann@shop.example", "mobilePhone.cc": "49", "mobilePhone.subscriber": "3012345",
		"billAddrLine1": "1 Long Lane", "browserIP": "212.184.123.145", "acctID": "0f8fad5b-d9cb-469f-a165-70867728950e",
		"merchantRiskIndicator.deliveryEmailAddress": "bob@shop.example",
	}
	if !maps.Equal(got, want) {
		t.Errorf("they are %q, want %q", got, want)
	}
	if strings.Contains(message, "ann@") {
		t.Errorf("the message is %s", message)
	}
	for name, change := range map[string]authtest.Object{
		"the number":                 {"cardholderName": authtest.PAN},
		"the number with separators": {"cardholderName": "Ann " + spaced},
		"the number in an account":   {"acctID": "a" + authtest.PAN + "b"},
		"the number in a telephone":  {"mobilePhone": authtest.Object{"cc": authtest.PAN[:2], "subscriber": authtest.PAN[2:]}},
		"the number in an address":   {"billAddrLine1": spaced},
		"another number":             {"cardholderName": foreign},
		"an authentication value":    {"acctID": authtest.Value},
		"such a value in an address": {"shipAddrLine1": "cavv " + authtest.Value},
	} {
		change["email"] = "ann@shop.example"
		if _, personal := run(true, change); personal != `{"email":"ann@shop.example","browserIP":"192.0.2.1"}` &&
			personal != `{"browserIP":"192.0.2.1","email":"ann@shop.example"}` {
			t.Errorf("%s: %s", name, personal)
		}
	}
}

package auth_test

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// TestChangedInTheDatabase: whoever can write to the database, but has no keys, gets
// no result to another merchant, keeps none alive and has none replaced.
func TestChangedInTheDatabase(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*store.Txn)
		asks   string // the merchant
	}{
		{"nothing", func(*store.Txn) {}, ""},
		{"owner", func(row *store.Txn) { row.Owner = other.Merchant.Name }, "other"},
		{"scheme", func(row *store.Txn) { row.Scheme = "mastercard" }, "shop"},
		{"state", func(row *store.Txn) { row.State = txn.Challenge }, "shop"},
		{"expires", func(row *store.Txn) { row.Expires = row.Expires.Add(time.Hour) }, "shop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			e := w.engine(0)
			w.reply = func(_ string, o object) ([]byte, error) { return ares(o, "C"), nil }
			id := preauth(t, e, shop)
			req := areq("2.2.0", id)
			if _, _, err := e.Authenticate(t.Context(), shop, req.json()); err != nil {
				t.Fatal(err)
			}
			if got := e.Receive(t.Context(), []string{"visa"}, rreq(req, "N", 1).json()); parse(t, got.Body).text("messageType") != "RRes" {
				t.Fatalf("answer %s", got.Body)
			}
			row := w.txns[id]
			tt.change(&row)
			w.txns[id] = row

			acc := shop
			if tt.asks == "other" {
				acc = other
			}
			got, err := e.Result(t.Context(), acc, object{"threeDSServerTransID": id}.json())
			if untouched := tt.asks == ""; (err == nil) != untouched {
				t.Errorf("Result = %s, %v", got, err)
			}
			second := e.Receive(t.Context(), []string{row.Scheme}, rreq(req, "Y", 2).json())
			if parse(t, second.Body).text("messageType") != "Erro" {
				t.Errorf("a second RReq is answered with %s", second.Body)
			}
		})
	}
}

// TestFailedTransactionIsReadable: a transaction that comes to nothing can still be read.
func TestFailedTransactionIsReadable(t *testing.T) {
	w := newWorld()
	e := w.engine(0)
	w.reply = func(string, object) ([]byte, error) { return []byte("{"), nil }
	id := preauth(t, e, shop)
	if _, _, err := e.Authenticate(t.Context(), shop, areq("2.2.0", id).json()); codeOf(err) != "101" {
		t.Fatal(err)
	}
	if w.txns[id].State != txn.Failed {
		t.Fatalf("it is %s", w.txns[id].State)
	}
	if _, err := e.Result(t.Context(), shop, object{"threeDSServerTransID": id}.json()); codeOf(err) != "203" {
		t.Errorf("Result: %v, want 203", err)
	}
}

// A journaled store adds an entry to a journal for each row that was written.
type journaled struct {
	*world
	add func(context.Context, store.Txn)
}

func (j journaled) Create(ctx context.Context, t store.Txn) error {
	err := j.world.Create(ctx, t)
	if err == nil {
		j.add(ctx, t)
	}
	return err
}

func (j journaled) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	err := j.world.Update(ctx, was, change)
	if now, gone := j.world.Get(ctx, was.ID); err == nil && gone == nil {
		j.add(ctx, now)
	}
	return err
}

// TestJ1StepsOfEveryEnding: whatever becomes of an authentication, the journal has its steps in their order, each with its
// time, and the amount. The AReq is there as it left, masked.
func TestJ1StepsOfEveryEnding(t *testing.T) {
	t.Parallel()
	const begun, atTheBank = "request lookup answered areq ares ", "request lookup answered areq ares challenge creq "
	var asked object // the AReq
	reply := func(status string) func(*world) {
		return func(w *world) {
			w.reply = func(_ string, areq object) ([]byte, error) {
				asked = areq
				w.pass(90 * time.Millisecond)
				return ares(areq, status), nil
			}
		}
	}
	result := func(w *world, e *auth.Engine) {
		w.pass(time.Minute)
		e.Receive(t.Context(), []string{"visa"}, rreq(asked, "Y", 1).json())
	}
	expired := func(w *world, e *auth.Engine, id string) {
		w.pass(25 * time.Hour)
	}
	auth1 := func(t *testing.T, _ *world, e *auth.Engine) string {
		id := preauth(t, e, shop)
		_, _, _ = e.Authenticate(t.Context(), shop, areq("2.2.0", id).json())
		return id
	}
	paged := func(end func(p *pageTest)) func(*testing.T, *world, *auth.Engine) string {
		return func(t *testing.T, w *world, _ *auth.Engine) string {
			p := w.newPage(t)
			w.pass(time.Second)
			end(p)
			return p.id
		}
	}
	atBank := func(end func(p *pageTest, tag string)) func(*testing.T, *world, *auth.Engine) string {
		return paged(func(p *pageTest) {
			p.startBrowser()
			p.await(auth.StepChallenge)
			end(p, strings.Split(asked.text("notificationURL"), "/")[4])
		})
	}
	for _, tt := range []struct {
		name   string
		world  func(*world)
		do     func(t *testing.T, w *world, e *auth.Engine) string // returns the id
		status string
		want   string
	}{
		{"frictionless", reply("Y"), auth1, "completed", "request lookup areq ares answered"},
		{"challenge", reply("C"), auth1, "challenge", "request lookup areq ares answered challenge"},
		{"challenge and result, fetched twice", reply("C"), func(t *testing.T, w *world, e *auth.Engine) string {
			id := auth1(t, w, e)
			result(w, e)
			for range 2 {
				w.pass(time.Second)
				if _, err := e.Result(t.Context(), shop, object{"threeDSServerTransID": id}.json()); err != nil {
					t.Error(err)
				}
			}
			return id
		}, "completed", "request lookup areq ares answered challenge rreq rres postauth"},
		{"a result that is refused, and a good one", reply("C"), func(t *testing.T, w *world, e *auth.Engine) string {
			id := auth1(t, w, e)
			bad := rreq(asked, "Y", 1)
			delete(bad, "transStatus")
			e.Receive(t.Context(), []string{"visa"}, bad.json())
			result(w, e)
			return id
		}, "completed", "request lookup areq ares answered challenge rreq rreq rres"},
		{"given up by the directory", reply("C"), func(t *testing.T, w *world, e *auth.Engine) string {
			id := auth1(t, w, e)
			w.pass(time.Minute)
			e.Receive(t.Context(), []string{"visa"}, object{
				"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "402", "errorComponent": "D",
				"errorDescription": "x", "errorDetail": "y", "threeDSServerTransID": id,
			}.json())
			return id
		}, "failed", "request lookup areq ares answered challenge erro"},
		{"a challenge that nobody ends", reply("C"), func(t *testing.T, w *world, e *auth.Engine) string {
			id := auth1(t, w, e)
			expired(w, e, id)
			return id
		}, "expired", "request lookup areq ares answered challenge expired"},
		{"decoupled", func(w *world) {
			w.reply = func(_ string, areq object) ([]byte, error) { return ares(areq, "D"), nil }
		}, func(t *testing.T, w *world, e *auth.Engine) string {
			id := preauth(t, e, shop)
			o := areq("2.2.0", id)
			o["threeDSRequestorDecReqInd"], o["threeDSRequestorDecMaxTime"] = "Y", "00010"
			_, _, _ = e.Authenticate(t.Context(), shop, o.json())
			return id
		}, "decoupled", "request lookup areq ares answered"},
		{"no answer", func(w *world) {
			w.reply = func(string, object) ([]byte, error) { return nil, context.DeadlineExceeded }
		}, auth1, "failed", "request lookup areq erro answered"},
		{"an answer that is refused", func(w *world) {
			w.reply = func(_ string, areq object) ([]byte, error) {
				o := aresObject(areq, "Y")
				delete(o, "acsTransID")
				return o.json(), nil
			}
		}, auth1, "failed", "request lookup areq ares erro answered"},
		{"Erro for an answer", func(w *world) {
			w.reply = func(_ string, areq object) ([]byte, error) {
				return object{
					"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "405", "errorComponent": "D",
					"errorDescription": "x", "errorDetail": "y", "threeDSServerTransID": areq["threeDSServerTransID"],
				}.json(), nil
			}
		}, auth1, "failed", "request lookup areq erro answered"},
		{"3RI", reply("Y"), func(t *testing.T, _ *world, e *auth.Engine) string {
			a, _, err := e.Create(t.Context(), profiled, threeRI().json())
			if err != nil {
				t.Fatal(told(err))
			}
			return a.ID
		}, "completed", "request lookup areq ares answered"},
		{"not enrolled", func(w *world) { w.hits = nil }, func(t *testing.T, w *world, _ *auth.Engine) string {
			a, _, err := w.browserEngine().Create(t.Context(), profiled, four().json())
			if err != nil {
				t.Fatal(told(err))
			}
			return a.ID
		}, "completed", "request lookup answered"},
		{"an agent", reply("Y"), func(t *testing.T, w *world, _ *auth.Engine) string {
			e, d, a := w.newAgent(t)
			w.pass(time.Second)
			if _, err := e.AuthenticateForAgent(t.Context(), profiled, d, a.ID, agentBrowser().json()); err != nil {
				t.Error(told(err))
			}
			return a.ID
		}, "completed", "request lookup answered request areq ares answered"},
		{"a page, frictionless, and asked for", reply("Y"), paged(func(p *pageTest) {
			p.startBrowser()
			p.await(auth.StepEnd)
			p.pass(time.Second)
			for range 2 {
				if _, err := p.Authentication(t.Context(), profiled, p.id); err != nil {
					t.Error(err)
				}
			}
		}), "completed", begun + "answered"},
		{"a page with a 3DS Method", func(w *world) {
			reply("Y")(w)
			w.hits = []ranges.Hit{{Scheme: "visa", Info: allVersions("https://acs.example/method")}}
		}, paged(func(p *pageTest) {
			p.startBrowser()
			p.pass(11 * time.Second)
			p.await(auth.StepEnd)
		}), "completed", "request lookup answered method areq ares"},
		{"a page, result before the return", reply("C"), atBank(func(p *pageTest, tag string) {
			result(p.world, p.Engine)
			p.pass(time.Second)
			_, _ = p.EndBrowserChallenge(t.Context(), tag)
		}), "completed", atTheBank + "rreq rres cres"},
		{"a page, return before the result", reply("C"), atBank(func(p *pageTest, tag string) {
			p.pass(time.Second)
			_, _ = p.EndBrowserChallenge(t.Context(), tag)
			result(p.world, p.Engine)
		}), "completed", atTheBank + "cres rreq rres"},
		{"a page, left at the bank", reply("C"), atBank(func(p *pageTest, _ string) { expired(p.world, p.Engine, p.id) }), "expired",
			atTheBank + "expired"},
		{"a page that never comes", reply("Y"), paged(func(p *pageTest) { p.pass(31 * time.Minute) }), "expired",
			"request lookup answered expired"},
		{"cancelled before the browser comes", reply("Y"), paged(func(p *pageTest) {
			_, _ = p.Cancel(t.Context(), profiled, p.id)
		}), "cancelled", "request lookup answered cancelled answered"},
		{"a page with SPC, and a challenge", func(w *world) { w.hits = spcWorld().hits }, func(t *testing.T, w *world, _ *auth.Engine) string {
			p, sent := spcPage(t, w, "C")
			p.pass(time.Second)
			if _, err := p.answer(p.Engine, auth.SPCAnswer{Incomplete: "02"}); err != nil {
				t.Fatal(err)
			}
			p.await(auth.StepChallenge)
			p.pass(time.Second)
			p.Receive(t.Context(), []string{"visa"}, rreq(sent.list()[1], "Y", 1).json())
			return p.id
		}, "completed", begun + "spc spc.answer areq ares challenge creq rreq rres"},
		{"cancelled, and a late result", reply("C"), atBank(func(p *pageTest, _ string) {
			_, _ = p.Cancel(t.Context(), profiled, p.id)
			result(p.world, p.Engine)
		}), "cancelled", atTheBank + "cancelled answered rreq rres"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
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
			w.journal = func(e *auth.Engine) {
				e.Tasks = &group
				e.AddToJournal = func(entry journal.Entry) { write(entry) }
				e.Store = journaled{w, func(ctx context.Context, t store.Txn) {
					write(e.JournalEntries(t, w.clock(), false, auth.SentMessage(ctx))...)
				}}
			}
			e := w.engine(0)
			id := tt.do(t, w, e)
			group.End() // what is done for a page is in the journal, too
			row, err := w.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			write(e.JournalEntries(row, w.clock(), true, nil)...) // the sweep adds what nothing was written for
			d, err := st.Show(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			var steps []string
			for i, s := range d.Steps {
				steps = append(steps, s.Step)
				if s.At.Before(d.Created) || s.At.After(w.clock()) || i > 0 && s.At.Before(d.Steps[i-1].At) || s.MS != s.At.Sub(d.Created).Milliseconds() {
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
					if strings.Contains(string(s.Message), pan) || strings.Contains(string(s.Message), value) {
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

// TestD126WithheldValuesSayHowLongTheyWere: what the journal does not show of a message says its length, and an
// authentication value has a keyed hash beside it: the same for the same value, another for another one.
func TestD126WithheldValuesSayHowLongTheyWere(t *testing.T) {
	t.Parallel()
	keys := journal.NewKeys()
	run := func(authenticationValue string) (areqText, aresText string) {
		w := newWorld()
		w.reply = func(_ string, o object) ([]byte, error) {
			answer := aresObject(o, "Y")
			answer["authenticationValue"] = authenticationValue
			return answer.json(), nil
		}
		var entries []journal.Entry
		w.journal = func(e *auth.Engine) {
			e.CardHash, e.AddToJournal = keys.CardHash, func(journal.Entry) {}
			e.Store = journaled{w, func(ctx context.Context, t store.Txn) {
				entries = append(entries, e.JournalEntries(t, w.clock(), false, auth.SentMessage(ctx))...)
			}}
		}
		e := w.engine(0)
		request := areq("2.2.0", preauth(t, e, shop))
		request["email"], request["mobilePhone"] = "ann@shop.example", object{"cc": "49", "subscriber": "3012345"}
		if _, _, err := e.Authenticate(t.Context(), shop, request.json()); err != nil {
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
	areqText, first := run(value)
	_, again := run(value)
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
	for _, secret := range []string{"***\"", pan, "ann@", "3012345"} {
		if strings.Contains(areqText+first, secret) {
			t.Errorf("%q is in %s %s", secret, areqText, first)
		}
	}
}

// TestD126PersonalHasNoSecret: the journal gets the personal data of an AReq where the operator asked for it, and never a
// card number in one of them, an authentication value or another secret.
func TestD126PersonalHasNoSecret(t *testing.T) {
	t.Parallel()
	const foreign = "5555 5555 5555 4444"
	spaced := pan[:4] + " " + pan[4:8] + "-" + pan[8:12] + "/" + pan[12:]
	run := func(isOn bool, change object) (message, personal string) {
		w := newWorld()
		w.reply = func(_ string, o object) ([]byte, error) { return ares(o, "Y"), nil }
		w.journal = func(e *auth.Engine) {
			e.AddToJournal, e.JournalsPersonal = func(journal.Entry) {}, isOn
			e.Store = journaled{w, func(ctx context.Context, t store.Txn) {
				for _, entry := range e.JournalEntries(t, w.clock(), false, auth.SentMessage(ctx)) {
					for _, s := range entry.Steps {
						if s.Step == "areq" {
							message, personal = string(s.Message), string(s.Personal)
						}
					}
				}
			}}
		}
		e := w.engine(0)
		request := areq("2.3.1", preauth(t, e, shop))
		request["acquirerCountryCode"], request["acquirerCountryCodeSource"], request["acceptLanguage"] = "208", "01", []any{"en"}
		for name, value := range change {
			request[name] = value
		}
		if _, _, err := e.Authenticate(t.Context(), shop, request.json()); err != nil {
			t.Fatal(err)
		}
		return message, personal
	}
	good := object{
		"cardholderName": "Ann Example", "email": "ann@shop.example", "mobilePhone": object{"cc": "49", "subscriber": "3012345"},
		"billAddrLine1": "1 Long Lane", "browserIP": "212.184.123.145", "acctID": "0f8fad5b-d9cb-469f-a165-70867728950e",
		"merchantRiskIndicator": object{"deliveryEmailAddress": "bob@shop.example", "shipIndicator": "01"},
		"cardSecurityCode":      "737", "cardExpiryDate": "3011", "taxId": "tax 1",
		"threeDSRequestorAuthenticationInfo": []any{object{"threeDSReqAuthData": value}},
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
	for name, change := range map[string]object{
		"the number":                 {"cardholderName": pan},
		"the number with separators": {"cardholderName": "Ann " + spaced},
		"the number in an account":   {"acctID": "a" + pan + "b"},
		"the number in a telephone":  {"mobilePhone": object{"cc": pan[:2], "subscriber": pan[2:]}},
		"the number in an address":   {"billAddrLine1": spaced},
		"another number":             {"cardholderName": foreign},
		"an authentication value":    {"acctID": value},
		"such a value in an address": {"shipAddrLine1": "cavv " + value},
	} {
		change["email"] = "ann@shop.example"
		if _, personal := run(true, change); personal != `{"email":"ann@shop.example","browserIP":"192.0.2.1"}` && personal != `{"browserIP":"192.0.2.1","email":"ann@shop.example"}` {
			t.Errorf("%s: %s", name, personal)
		}
	}
}

package auth_test

import (
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/store"
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
		{"state", func(row *store.Txn) { row.State = auth.Challenge }, "shop"},
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
	if w.txns[id].State != auth.Failed {
		t.Fatalf("it is %s", w.txns[id].State)
	}
	if _, err := e.Result(t.Context(), shop, object{"threeDSServerTransID": id}.json()); codeOf(err) != "203" {
		t.Errorf("Result: %v, want 203", err)
	}
}

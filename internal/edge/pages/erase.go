package pages

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// serveErase answers the form, which may take long.
func (h *Handler) serveErase(w http.ResponseWriter, r *http.Request) {
	admin.AllowEraseTime(w)
	h.serve(w, r, eraseByForm, "journal erase")
}

// An eraseView is the data of the page. Of a card it has the last digits alone.
type eraseView struct {
	Fault    string
	Merchant string // as it was typed
	Asked    *erasure
	Erased   *ops.Erased
}

// An erasure is what has to be confirmed.
type erasure struct {
	Name     string // what is erased, in words
	IsCard   bool
	Merchant string
	Proof    string // what proveCard returns for the card that was typed
	Found    int    // authentications in the journal, at most maxByCard
	HasMore  bool
	Newest   time.Time
	Held     []journal.HeldBack // what stays for legal holds
}

// proveCard returns a value that the confirmation has in place of the card number, so that no other card can be
// confirmed with it. Without the session the value reveals nothing.
func proveCard(s *operator.Session, number string) string {
	mac := hmac.New(sha256.New, s.Key)
	mac.Write([]byte("erase " + number))
	return hex.EncodeToString(mac.Sum(nil))
}

// digitsOf returns a card number without what people type between its digits.
func digitsOf(typed string) string {
	return strings.NewReplacer(" ", "", "-", "", ".", "").Replace(typed)
}

func erasePage(*Handler, *visit) (result, error) { return showErase(&eraseView{}), nil }

// showErase shows the page; with a fault nothing was erased.
func showErase(view *eraseView) result {
	return result{template: "erase", title: "Erase", data: view, status: faultStatus(view.Fault)}
}

// eraseByForm asks whether to erase what was typed, and erases it when it was typed again.
func eraseByForm(h *Handler, v *visit) (result, error) {
	form := v.PostForm
	number, name := digitsOf(form.Get("card")), strings.TrimSpace(form.Get("merchant"))
	view := &eraseView{Merchant: name}
	switch {
	case cardnumber.MayBe(name):
		view.Merchant, view.Fault = "",
			"That may be a whole card number, and names of merchants stand in the audit trail. Type it as a card. Nothing was erased."
	case (number == "") == (name == ""):
		view.Fault = "Type either a card number or a merchant. Nothing was erased."
	case number != "" && (!cardnumber.MayBe(number) || len(number) < 13):
		view.Fault = "A card number has 13 to 19 digits; found " + strconv.Itoa(len(number)) +
			" characters. Nothing was erased."
	case form.Get("do") != "erase":
		return h.askToErase(v, number, name)
	case v.session.Actor.Confirmed.Act == "journal erase": // the form has come this far before it was confirmed
		return h.eraseConfirmed(v, number, name)
	case number != "" && !hmac.Equal([]byte(form.Get("proof")), []byte(proveCard(v.session, number))),
		name != "" && name != form.Get("proof"):
		view.Fault = "What was typed to confirm is not what was typed before. Nothing was erased."
	default:
		return h.eraseConfirmed(v, number, name)
	}
	return showErase(view), nil
}

// askToErase shows what would go.
func (h *Handler) askToErase(v *visit, number, name string) (result, error) {
	asked := &erasure{Name: name, Merchant: name, Proof: name, IsCard: number != ""}
	q := admin.RecordQuery{Merchant: name, Limit: maxByCard}
	if asked.IsCard {
		asked.Name, asked.Proof = "the card ending in "+number[len(number)-4:], proveCard(v.session, number)
		q = admin.RecordQuery{AcctNumber: number, Limit: maxByCard}
	}
	page, err := h.Admin.FindRecords(v.Context(), v.session.Actor, q)
	if err != nil {
		return result{}, err
	}
	if asked.Found, asked.HasMore = len(page.Data), page.Next != ""; asked.Found > 0 {
		asked.Newest = page.Data[0].Created
	}
	if asked.Held, err = h.Acts.CountHeld(v.Context(), v.session.Actor, number, name); err != nil {
		return result{}, err
	}
	return showErase(&eraseView{Asked: asked}), nil
}

// eraseConfirmed erases, and says how much that was.
func (h *Handler) eraseConfirmed(v *visit, number, name string) (result, error) {
	done, err := h.Acts.EraseJournal(v.Context(), v.session.Actor, number, name)
	fault, err := faultOf(err)
	if err != nil {
		return result{}, err
	}
	if fault != "" {
		return showErase(&eraseView{Merchant: name, Fault: fault}), nil
	}
	return showErase(&eraseView{Erased: &done}), nil
}

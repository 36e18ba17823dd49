package sandbox

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestB10AxeFindsNothingOnTheSteps: the page of the shop that makes each step itself, from the checkout to
// each kind of end, with its dialog, and with all that it keeps closed opened. internal/run/playground has the
// other pages of the shop.
func TestB10AxeFindsNothingOnTheSteps(t *testing.T) {
	axe := browsertest.NewAxe(t)
	tb := openSteps(t, nil)
	tb.do(browsertest.WaitVisible(testID("pay")))
	axe.Check(tb.ctx, "checkout")
	const openDetails = `for (const d of document.querySelectorAll("details")) d.open = true`
	tb.do(chromedp.Evaluate[chromedp.Void](openDetails))
	axe.CheckViews(tb.ctx, "checkout and cards")

	tb.pay("12")
	tb.do(browsertest.WaitVisible(chromedp.CSS("#card-fault")))
	axe.CheckViews(tb.ctx, "faults")

	tb.pay("4000000000000183")
	tb.do(browsertest.Poll(`document.getElementById("progress-text").textContent.includes("app of your bank")`))
	axe.CheckViews(tb.ctx, "decoupled")
	areq, _ := tb.bank.lastCall("/auth")
	tb.bank.finish(areq["threeDSServerTransID"].(string), "Y", "")
	tb.ends("authenticated", "Y", "05")
	tb.do(chromedp.Click(testID("again")))

	tb.pay("4000000000000072")
	tb.bankPage()
	axe.CheckViews(tb.ctx, "challenge")
	tb.inChallenge("approve")
	tb.ends("authenticated", "Y", "05")
	axe.Check(tb.ctx, "authenticated")
	tb.do(chromedp.Evaluate[chromedp.Void](openDetails))
	axe.CheckViews(tb.ctx, "authenticated, opened")
	for card, end := range map[string]struct {
		word        string
		status, eci string
	}{
		"9000100111111111": {"not enrolled", "none", "none"},
		"4000000000000063": {"error", "none", "none"},
		"4102010000000002": {"failed", "N", "7"},
	} {
		tb.do(chromedp.Click(testID("again")))
		tb.pay(card)
		tb.ends(end.word, end.status, end.eci)
		axe.CheckViews(tb.ctx, end.word)
	}

	// The page that a notice comes to without a payment.
	tb.do(chromedp.Evaluate[chromedp.Void](`
		document.body.insertAdjacentHTML("beforeend", '<form method="post" action="/notify/challenge" class="odd"></form>');
		document.querySelector(".odd").submit();
	`))
	if err := browsertest.Wait(tb.ctx, func() (bool, error) {
		return chromedp.Run(tb.ctx, chromedp.Evaluate[bool](`document.readyState === "complete" && !!document.getElementById("way-back")`))
	}); err != nil {
		t.Fatal(err)
	}
	axe.CheckViews(tb.ctx, "notice")
}

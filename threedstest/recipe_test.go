package threedstest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/threedstest"
)

// payment is what a shop sends for a card.
func payment(card string) map[string]any {
	return map[string]any{
		"acctNumber": card, "cardExpiryDate": "3012", "purchaseAmount": "1250", "purchaseCurrency": "EUR",
		"extensions": map[string]any{"travelIndustry": map[string]any{"agencyIndicator": "N"}},
	}
}

func TestPayments(t *testing.T) {
	server := threedstest.NewServer(t)
	for _, c := range []struct {
		card, press string // what is pressed at the bank
		want        api.Result
	}{
		{"4000000000002103", "", "authenticated"},
		{"4000000000002113", "", "not_authenticated"},
		{"4000000000002172", "submit", "authenticated"},
		{"4000000000002172", "cancel", "abandoned"},
	} {
		started, err := server.Client().Authenticate(t.Context(), payment(c.card), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.PlayShopper(t.Context(), started.Browser.URL, c.press); err != nil {
			t.Fatal(err)
		}
		ended, err := server.Client().Authentication(t.Context(), started.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		if ended.Outcome.Result != c.want {
			t.Errorf("%s %s: %s, want %s", c.card, c.press, ended.Outcome.Result, c.want)
		}
		areq := server.Sandbox.Received(started.ID)[0] // what the directory server received first
		if areq.Type != "AReq" || !strings.Contains(areq.Body, `"agencyIndicator":"N"`) {
			t.Errorf("%s without the extension: %s", areq.Type, areq.Body)
		}
	}
}

// TestRecipeOfTheDocs: the test that docs/testing.md prints is the one above.
func TestRecipeOfTheDocs(t *testing.T) {
	t.Parallel()
	printed, ok := printedFiles(t, filepath.Join("..", "docs", "testing.md"))["shop_test.go"]
	if !ok {
		t.Fatal("docs/testing.md does not print shop_test.go")
	}
	here, err := os.ReadFile("recipe_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, lines, _ := strings.Cut(string(printed), "// payment is")
	if lines == "" || !strings.Contains(string(here), "// payment is"+lines) {
		t.Errorf("docs/testing.md prints\n%s\nwhich is not in recipe_test.go", printed)
	}
}

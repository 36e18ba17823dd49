package page

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestD67MarksOfTheIssuersPagesAreStable: tests of shops find the fields and buttons of the issuer's pages by these
// names, and each button does what its name says.
func TestD67MarksOfTheIssuersPagesAreStable(t *testing.T) {
	t.Parallel()
	tag := regexp.MustCompile(`<(input|button)\b[^>]*data-testid="(challenge-[a-z]+)"[^>]*>`)
	value := regexp.MustCompile(` value="([a-z]+)"`)
	for page, want := range map[string][]string{
		"code":    {"input challenge-code", "button challenge-submit submit", "button challenge-cancel cancel"},
		"outside": {"button challenge-submit submit", "button challenge-cancel cancel"},
		"app":     {"button challenge-pass pass", "button challenge-fail fail", "button challenge-cancel cancel"},
	} {
		text, err := os.ReadFile("files/" + page + ".html")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range tag.FindAllSubmatch(text, -1) {
			is := string(m[1]) + " " + string(m[2])
			if v := value.FindSubmatch(m[0]); v != nil {
				is += " " + string(v[1])
			}
			got = append(got, is)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the page %s has %q, want %q", page, got, want)
		}
	}
}

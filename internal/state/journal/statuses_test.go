package journal

import (
	"strings"
	"testing"
)

// TestO8UnknownWordsOfClosedListsAreRefused: a status or a result that no record has is an error that names the field
// and the words, and not a search that finds nothing.
func TestO8UnknownWordsOfClosedListsAreRefused(t *testing.T) {
	for _, test := range []struct {
		query Query
		want  string // how the error begins; "" if there is none
	}{
		{Query{}, ""},
		{Query{Status: "refused", Result: "not_enrolled"}, ""},
		{Query{Status: "completed", Merchant: "anything", Scheme: "own"}, ""},
		{Query{Status: "Y"}, "status: want one of requires_browser, in_progress, "},
		{Query{Status: "Completed"}, "status: want one of "},
		{Query{Result: "authorised"}, "result: want one of authenticated, "},
	} {
		err := test.query.Check()
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.query, err, test.want)
		}
	}
}

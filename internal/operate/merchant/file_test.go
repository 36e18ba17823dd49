package merchant_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/state/account"
)

// TestFileOfMerchantsGoesThereAndBack: each setting, in both formats, whatever a name looks like. No text of CSV is a
// formula.
func TestFileOfMerchantsGoesThereAndBack(t *testing.T) {
	t.Parallel()
	all := []account.Merchant{
		{
			Name: "=SUM(A1)", MerchantName: `The "Shop", Ltd`, MCC: "0742", MerchantCountry: "208", RequestorURL: "https://shop.example",
			RequestorID: "'-1", RequestorName: "''=x", AcquirerCountry: "276", SchemeRules: "enforce", Bridging: true, Transliterate: true,
			Rate: account.Rate{Count: 30, Per: time.Minute}, InFlight: 50, Origins: []string{"https://a.example", "https://b.example"},
			Page: account.Page{Logo: []byte{0, 1, 0xff}, Colour: "#0a5c36", Accent: "#ffb000"},
			PerDirectory: map[string]account.Requestor{
				"visa": {ID: "v", Name: "V", AcquirerBIN: "0012345", AcquirerMerchantID: "007"}, "own": {AcquirerBIN: "7"},
			},
		},
		{Name: "日本\nline"}, {Name: "'quoted'"},
	}
	for _, format := range []merchant.Format{merchant.JSON, merchant.CSV} {
		var file bytes.Buffer
		if err := merchant.Write(&file, format, all); err != nil {
			t.Fatal(err)
		}
		if format == merchant.CSV && strings.Contains(file.String(), "\n=") {
			t.Errorf("a formula: %s", &file)
		}
		entries, faults := merchant.Read(file.Bytes(), format)
		var got []account.Merchant
		for _, e := range entries {
			got = append(got, e.Merchant)
		}
		if diff := difftest.Diff(all, got); len(faults) > 0 || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", format, faults, diff)
		}
	}
}

// TestFileOfMerchantsNamesFaultsByLine: all of them, by the line on which their merchant begins.
func TestFileOfMerchantsNamesFaultsByLine(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{
		"name,mcc\nA,1\n\"B\nb\",1\nC\nD,1,2\n": {"5 : wrong number of fields", "6 : wrong number of fields"},
		"name,bridging,per_directory.visa.acquirer\nA,,\n": {
			"1 per_directory.visa.acquirer: want per_directory.SCHEME.KEY with one of acquirer_bin, acquirer_merchant_id, requestor_id, requestor_name"},
		"name,bridging,page.logo,in_flight\nA,maybe,?,x\n": {
			"2 bridging: want true or false", "2 page.logo: want the file in base64", "2 in_flight: want a whole number"},
		"name,name\n": {"1 name: is there twice"},
		"":            {"1 : the first line has no keys, such as name,mcc,merchant_country"},
		`{}`:          {"1 : want an array of merchants in JSON"},
		"[\n\n{\"name\": 1},\n {\"page\": {\"color\": \"x\"}, \"nmae\": \"\"},\n7]": {
			"3 name: has the wrong type", "4 nmae: unknown key, did you mean \"name\"?", "4 page: has an unknown key in it",
			"5 : is no object of JSON: nothing after it was read"},
		"[{\"name\": \"A\"}\n": {"1 : the array has no end"},
	} {
		format := merchant.CSV
		if strings.HasPrefix(file, "[") || strings.HasPrefix(file, "{") {
			format = merchant.JSON
		}
		_, faults := merchant.Read([]byte(file), format)
		var got []string
		for _, f := range faults {
			got = append(got, strings.Join([]string{string(rune('0' + f.Line)), f.Key + ": " + f.Text}, " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q:\n%q, want\n%q", file, got, want)
		}
	}
}

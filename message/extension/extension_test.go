package extension_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// samples are extensions as public sources show them, with values of our own: by word and type of
// the message, the data.
var samples = map[string]map[message.Type]string{
	"visaAcquirerCountry": {message.AReq: `{"acquirerCountryCode":"250"}`},
	"visaDAF": {
		message.AReq: `{"version":"1.0","authPayProcessReqInd":"01"}`,
		message.ARes: `{"version":"1.0","authPayCredStatus":"Y","authPayProcessReqInd":"01","dafAdvice":"02"}`,
		message.RReq: `{"version":"1.0","authPayCredStatus":"B"}`,
	},
	"mastercardAcsRBA": {
		message.ARes: `{"A000000004-acsRBA":{"status":"success","decision":"low risk","score":"120","reasonCode1":"A","reasonCode2":"BB"}}`,
		message.RReq: `{"A000000004-acsRBA":{"status":"success","decision":"high risk","score":"900","reasonCode1":"C"}}`,
	},
	"mastercardMerchantData": {message.AReq: `{"A000000004-merchantData":{"acquirerCountryCode":"276","secureCorporatePayment":"N","merchantFraudRate":"2"}}`},
	"cbAvAlgo":               {message.ARes: `{"A000000042_CB-AVALGO":"A"}`, message.RReq: `{"A000000042_CB-AVALGO":"0"}`},
	"cbExemption":            {message.ARes: `{"A000000042_CB-EXEMPTION":"QABA"}`, message.RReq: `{"A000000042_CB-EXEMPTION":"AAAB"}`},
	"cbItems":                {message.AReq: `{"A000000042_CB-ITEMS":"07"}`},
	"cbScore": {
		message.AReq: `{"A000000042_CB-SCORE":"41"}`, message.ARes: `{"A000000042_CB-SCORE":"9"}`, message.RReq: `{"A000000042_CB-SCORE":"99"}`,
	},
	"cbUseCase":     {message.AReq: `{"A000000042_CB-USECASE":"03"}`},
	"mirRbaScoring": {message.ARes: `{"totalScore":-120,"ruleSets":[{"ruleSetId":7,"score":-120,"description":"Seldom used device"}]}`},
	"deviceAcknowledgement": {
		message.AReq: `{"version":"2.0","sdkType":"02","splitSdkType":{"sdkVariant":"01","limitedInd":"Y"},"splitSdkServerID":"split-1",` +
			`"sdkSignatureTimestamp":"20261125190000","sdkServerSignedContent":"eyJhIjoxfQ.eyJiIjoyfQ.c2ln","sdkAuthenticationType":["02","07"]}`,
		message.ARes: `{"version":"1.0","authenticationMethod":"10","deviceInfoRecognisedVersion":"1.4","deviceUserInterfaceMode":"01"}`,
	},
	"travelIndustry": {message.AReq: `{"agencyIndicator":"Y","air":{"airlineTicketInfo":{"currencyMismatchIndicator":"N","ticketAmount":"41200","ticketCount":"02",` +
		`"ticketCurrency":"978"},"itineraryInfo":{"flightIndicator":"02","segments":[{"departureAirport":"LIS","departureDate":"20270301","departureTime":"0715",` +
		`"arrivalAirport":"VIE","arrivalDate":"20270301","arrivalTime":"1150","operatingCarrier":"TP"},{"departureAirport":"VIE","departureDate":"20270308"}]}},` +
		`"car":{"companyInfo":{"name":"Hire","phone":{"cc":"43","subscriber":"1234567"}}},"hotel":{"name":"Inn"},"travellers":[{"name":"A Person"}]}`},
	"bridging": {
		message.AReq: `{"version":"2.0","recurringData":{"recurringAmount":"999","recurringCurrency":"978","recurringExponent":"2","recurringDate":"20270101",` +
			`"recurringInd":{"amountInd":"01","frequencyInd":"02"}},"addData":{"threeDSRequestorAuthenticationInd":"08","threeRIInd":"15","transChar":["01","02"]}}`,
		message.ARes: `{"version":"2.0","addData":{"authenticationMethod":["10"],"transChallengeExemption":"05"}}`,
		message.RReq: `{"version":"1.0","addData":{"authenticationMethod":["02","14"]}}`,
		message.CReq: `{"version":"1.0","challengeData":{"oobContinue":"02"}}`,
		message.CRes: `{"version":"1.0","challengeData":{"oobAppURL":"https://bank.example/app"}}`,
	},
}

// withExtension returns a message of a type with one extension.
func withExtension(t testing.TB, kind message.Type, e *extension.Extension, data string) *message.Message {
	t.Helper()
	m, err := message.Parse(
		fmt.Appendf(nil, `{"messageType":%q,"messageVersion":"2.2.0","messageExtension":[{"criticalityIndicator":false,"data":%s,"id":%q,"name":%q}]}`,
			kind, data, idOf(e), e.Name), message.Limits{Depth: -1, Members: -1})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// idOf returns the id of an extension: one of ours if it is not public.
func idOf(e *extension.Extension) string {
	if e.ID == "" {
		return e.RID + "-ours"
	}
	return e.ID
}

// eachSample calls check for each sample, and fails if an extension has none for a message that
// carries it.
func eachSample(t *testing.T, check func(t *testing.T, kind message.Type, e *extension.Extension, data string)) {
	for _, e := range extension.All() {
		for _, kind := range e.Types() {
			t.Run(e.Word+"/"+kind.String(), func(t *testing.T) {
				t.Parallel()
				data, ok := samples[e.Word][kind]
				if !ok {
					t.Fatal("no sample")
				}
				check(t, kind, e, data)
			})
		}
	}
}

func TestSamplesAreValidAndExplained(t *testing.T) {
	eachSample(t, func(t *testing.T, kind message.Type, e *extension.Extension, data string) {
		m := withExtension(t, kind, e, data)
		if found := extension.Check(m); len(found) > 0 {
			t.Errorf("%v", found)
		}
		all := extension.Describe(m)
		if len(all) != 1 || all[0].ID != idOf(e) || all[0].Name != e.Name || all[0].Doc == "" || all[0].Others != 0 || len(all[0].Elements) == 0 {
			t.Fatalf("%+v", all)
		}
		if version := m.Text("messageExtension[0].data.version"); all[0].Version != version {
			t.Errorf("version %q, want %q", all[0].Version, version)
		}
		for _, x := range all[0].Elements {
			if x.Doc == "" || x.Value == "" || !strings.HasPrefix(string(x.Path), "messageExtension[0].data.") {
				t.Errorf("%+v", x)
			}
			if x.Value == "***" && !isSecret[x.Path[strings.LastIndex(string(x.Path), ".")+1:]] {
				t.Errorf("%s is not shown", x.Path)
			}
		}
	})
}

// isSecret are the elements of the samples that must not be shown.
var isSecret = map[message.Path]bool{"sdkServerSignedContent": true, "car": true, "hotel": true, "travellers": true, "challengeData": true}

// TestMutationsAreRefusedWithPath breaks each sample in 1,000 ways. Each must be refused with a path
// to what was broken.
func TestMutationsAreRefusedWithPath(t *testing.T) {
	eachSample(t, func(t *testing.T, kind message.Type, e *extension.Extension, data string) {
		rows := rowsOf(e, withExtension(t, kind, e, data))
		random := rand.New(rand.NewPCG(30, 3))
		for n := range 1000 {
			row := rows[random.IntN(len(rows))]
			broken := mutate(t, random, data, row)
			m := withExtension(t, kind, e, broken)
			found := extension.Check(m)
			if !slices.ContainsFunc(found, func(p message.Problem) bool {
				return strings.HasPrefix(string(p.Path), string(row.path)) && p.Note == string(p.Path)
			}) {
				t.Fatalf("mutation %d of %s: %v: %s", n, row.path, found, broken)
			}
			for _, p := range found {
				if p.Code != message.Format && p.Code != message.Missing && p.Code != message.ISOCode && p.Code != message.Duplicate {
					t.Fatalf("mutation %d of %s: code %v", n, row.path, p.Code)
				}
			}
		}
	})
}

// A brokenRow is a value of a sample that can be broken.
type brokenRow struct {
	path message.Path
	*message.Field
}

// rowsOf returns the values of the only extension of m that have a row.
func rowsOf(e *extension.Extension, m *message.Message) []brokenRow {
	kind, _ := m.Type()
	path := message.Path("messageExtension[0].data")
	if e.Keyed {
		path += message.Path("." + e.ID)
	}
	var rows []brokenRow
	m.DescribeObject(path, e.Table(kind), func(path message.Path, f *message.Field, _ string) {
		rows = append(rows, brokenRow{path, f})
	})
	return rows
}

// mutate returns data with one value replaced by one that its row does not allow.
func mutate(t *testing.T, random *rand.Rand, data string, row brokenRow) string {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(data), &tree); err != nil {
		t.Fatal(err)
	}
	setAt(tree, strings.TrimPrefix(string(row.path), "messageExtension[0].data."), badValue(random, row.Field))
	broken, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(broken)
}

// badValue returns a value that a row does not allow.
func badValue(random *rand.Rand, f *message.Field) any {
	all := []any{nil, true, map[string]any{}, []any{random.IntN(1000)}, ""}
	switch {
	case f.Kind == message.JSON:
		return []any{nil, true, random.IntN(1000), strings.Repeat("x", 1+random.IntN(9))}[random.IntN(4)]
	case f.Kind == message.Number:
		all = append(all, fmt.Sprint(random.IntN(1000)), []any{1})
	default:
		all = append(all, random.IntN(100_000), map[string]any{"a": random.IntN(10)})
		limit := f.Max
		if f.Array {
			limit = f.ItemMax
		}
		if limit > 0 {
			all = append(all, strings.Repeat("7", limit+1+random.IntN(20)))
		}
		if f.Kind != message.Text {
			all = append(all, strings.Repeat("?", 1+random.IntN(max(limit, 1))))
		}
	}
	return all[random.IntN(len(all))]
}

// setAt sets the value at a path in a tree of JSON values.
func setAt(tree any, path string, value any) {
	first, rest, more := strings.Cut(path, ".")
	object := tree.(map[string]any)
	name, index, isItem := strings.Cut(first, "[")
	switch {
	case !more:
		object[first] = value
	case isItem:
		var i int
		fmt.Sscanf(index, "%d]", &i)
		setAt(object[name].([]any)[i], rest, value)
	default:
		setAt(object[name], rest, value)
	}
}

// TestUnknownExtensionsAreNoFaults: an id, a version or a member that is not in the list is not a fault.
func TestUnknownExtensionsAreNoFaults(t *testing.T) {
	bridging := extension.ByID(extension.BridgingID)
	for _, m := range []*message.Message{
		withExtension(t, message.AReq, &extension.Extension{ID: "A000000999-x", Name: "x"}, `{"version":7,"agencyIndicator":"?"}`),
		withExtension(t, message.AReq, bridging, `{"version":"3.0","addData":7}`),
		withExtension(t, message.AReq, bridging, `{"version":"2.0","fileData":7}`),
		withExtension(t, message.AReq, &extension.Extension{ID: "A000000999-x", Name: "x"}, `{"authPayProcessReqInd":7}`), // another RID
		withExtension(t, message.PRes, bridging, `{"version":"2.0","addData":7}`),
	} {
		if found := extension.Check(m); len(found) > 0 {
			t.Errorf("%s: %v", m.Bytes(), found)
		}
	}
	if all := extension.Describe(withExtension(t, message.AReq, &extension.Extension{ID: "A000000999-x", Name: "x"}, `{}`)); all != nil {
		t.Errorf("%+v", all)
	}
}

// TestCheckSentAcceptsMissing: what a requestor writes itself may lack members, as before the tables.
func TestCheckSentAcceptsMissing(t *testing.T) {
	e := extension.ByWord("deviceAcknowledgement")
	if found := extension.CheckSent(withExtension(t, message.AReq, e, `{"a":"b"}`)); len(found) > 0 {
		t.Errorf("%v", found)
	}
	found := extension.CheckSent(withExtension(t, message.AReq, e, `{"sdkType":"zz"}`))
	if len(found) != 1 || found[0].Code != message.Format || found[0].Note != "messageExtension[0].data.sdkType" {
		t.Errorf("%v", found)
	}
}

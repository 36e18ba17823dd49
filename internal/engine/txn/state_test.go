package txn

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// TestAdvance tries every pair of states (I4): changes go one way only, except for SPC, and final states stay.
func TestAdvance(t *testing.T) {
	all := []store.State{Sent, Challenge, Final, Failed, Result}
	good := map[[2]store.State]bool{
		{Sent, Challenge}: true, {Sent, Final}: true, {Sent, Failed}: true,
		{Challenge, Result}: true, {Challenge, Failed}: true,
		{Challenge, Sent}: true, // for the second AReq of SPC, which claimSecond alone permits
	}
	for _, from := range all {
		for _, to := range all {
			row := store.Txn{State: from}
			err := Advance(&row, to)
			want := from
			if good[[2]store.State{from, to}] {
				want = to
			}
			if row.State != want || (err == nil) != (want == to && from != to) || err != nil && !errors.Is(err, ErrArrow) {
				t.Errorf("advance %s to %s = %v, state %s; want %s", from, to, err, row.State, want)
			}
		}
	}
}

// unsealed seals nothing.
type unsealed struct{}

func (unsealed) Seal(_ string, plain []byte) []byte         { return plain }
func (unsealed) Open(_ string, data []byte) ([]byte, error) { return data, nil }
func (unsealed) Digest(data string) []byte                  { return []byte(data) }
func (unsealed) IsDigest(digest []byte, data string) bool   { return string(digest) == data }

// TestRecordForm: what is kept is plain JSON, as another library reads and writes it.
func TestRecordForm(t *testing.T) {
	e := &Rows{Sealer: unsealed{}}
	for _, tt := range []struct {
		written string // by encoding/json
		want    Record
	}{
		{`{"Version":"2.1.0","Sent":1,"AReq":"e30="}`, Record{Version: "2.1.0", Sent: 1, AReq: []byte("{}")}},
		{
			`{"Version":"2.3.1","Sent":1125899906842624,"Until":2,"AReq":"eyJhIjoiPMO8PiJ9",` +
				`"Purchase":{"Values":{"mcc":"","merchantName":"\"A \u0026 \u003cB\u003e ü\\u0001\""},"Card":"AQ=="},` +
				`"ARes":"AP8=","RReq":"cg==","Erro":"ZQ==","Decoupled":true,"Gone":true,"Undelivered":true,"Refused":true,"Changes":["a","\"\u003c"],"Unkept":[{"element":"b","rule":"require"}]}`,
			Record{
				Version: "2.3.1", Sent: 1 << 50, Until: 2, AReq: []byte(`{"a":"<ü>"}`), ARes: []byte{0, 255}, RReq: []byte("r"), Erro: []byte("e"),
				Purchase:  &Purchase{Values: map[string]string{"merchantName": `"A & <B> ü\u0001"`, "mcc": ""}, Card: []byte{1}},
				Decoupled: true, Gone: true, Undelivered: true, Refused: true, Changes: []string{"a", `"<`}, Unkept: []journal.Rule{{Element: "b", Rule: "require"}},
			},
		},
	} {
		if got, err := e.Unseal(&store.Txn{Data: []byte(tt.written)}); err != nil || !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("%s is read as %+v, %v; want %+v", tt.written, got, err, tt.want)
		}
		var row store.Txn
		if err := e.Seal(&row, &tt.want); err != nil {
			t.Fatal(err)
		}
		var got Record
		if err := json.Unmarshal(row.Data, &got); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("encoding/json reads %s as %+v, %v; want %+v", row.Data, got, err, tt.want)
		}
	}
}

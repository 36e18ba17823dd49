package record_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
)

// nameSealer puts the name before the text, so that it can tell whether the name has changed.
type nameSealer struct{}

var errName = errors.New("another name")

func (nameSealer) Seal(name string, plain []byte) []byte { return append([]byte(name+"|"), plain...) }

func (nameSealer) Open(name string, sealed []byte) ([]byte, error) {
	plain, ok := strings.CutPrefix(string(sealed), name+"|")
	if !ok {
		return nil, errName
	}
	return []byte(plain), nil
}

func TestOpenReadsWhatSealWrote(t *testing.T) {
	type kept struct {
		Text  string
		Bytes []byte `json:",omitempty"`
	}
	row := store.Txn{ID: "id", Owner: "Shop", Scheme: "visa", State: "open"}
	want := kept{"ü", []byte{0, 1}}
	if err := record.Seal(nameSealer{}, &row, want); err != nil {
		t.Fatal(err)
	}
	var got kept
	if err := record.Open(nameSealer{}, &row, &got); err != nil || got.Text != want.Text || string(got.Bytes) != string(want.Bytes) {
		t.Errorf("Open reads %+v, %v, want %+v", got, err, want)
	}
	row.Owner = "Other"
	if err := record.Open(nameSealer{}, &row, &got); !errors.Is(err, errName) {
		t.Errorf("with another owner: %v, want %v", err, errName)
	}
}

func TestSealNeedsJSON(t *testing.T) {
	if err := record.Seal(nameSealer{}, &store.Txn{ID: "id"}, make(chan int)); err == nil || !strings.Contains(err.Error(), "id") {
		t.Errorf("Seal of a channel: %v, want an error that names the row", err)
	}
}

func TestMoment(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_789_000, time.FixedZone("", 3600))
	if got, want := record.Moment(at), time.Date(2026, 1, 2, 2, 4, 5, 6_000_000, time.UTC); got != want {
		t.Errorf("Moment(%v) = %v, want %v", at, got, want)
	}
}

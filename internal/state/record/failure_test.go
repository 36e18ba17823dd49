package record_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
)

// neverDue is a limit that allows no line.
type neverDue struct{}

func (neverDue) Due(time.Time) (int, bool) { return 0, false }

// TestD105UnreadableRowsAreAlwaysLogged: the limit is for a store that is away. A row that does not open may have been
// changed, and the line has its id.
func TestD105UnreadableRowsAreAlwaysLogged(t *testing.T) {
	row := store.Txn{ID: "id", Data: []byte("damaged")}
	unreadable := record.Open(nameSealer{}, &row, new(struct{}))
	for _, test := range []struct {
		limit record.LogLimit
		err   error
		want  bool
	}{
		{neverDue{}, errors.New("no route to host"), false}, {neverDue{}, unreadable, true},
		{nil, errors.New("no route to host"), true}, {nil, unreadable, true},
	} {
		var log strings.Builder
		record.LogFailure(context.Background(), slog.New(slog.NewJSONHandler(&log, nil)), test.limit, time.Now(), "not read", test.err, "id", row.ID)
		if got := strings.Contains(log.String(), `"msg":"not read","id":"id","err":`); got != test.want {
			t.Errorf("%v with the limit %v: %q", test.err, test.limit, log.String())
		}
	}
	if !errors.Is(unreadable, record.ErrUnreadable) || !errors.Is(unreadable, errName) {
		t.Errorf("the error of a damaged row is %v", unreadable)
	}
}

package journal_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestJ1FileOpenedByTwoAtOnce: who opens the file of a month while another process makes it waits for that.
func TestJ1FileOpenedByTwoAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		dir, keys, begin := t.TempDir(), journal.NewKeys(), make(chan struct{})
		var opened sync.WaitGroup
		for i := range 8 {
			st, err := journal.OpenFiles(dir, keys)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			opened.Go(func() {
				<-begin
				var err error
				if i%2 == 0 {
					_, err = st.Write(t.Context(), []journal.Entry{entry(keys, i, journal.Claimed)})
				} else {
					_, err = st.Search(t.Context(), journal.Query{})
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		opened.Wait()
	}
}

// TestJ8LineWithoutEnd: a file that is no export is refused after some megabytes, however long it is.
func TestJ8LineWithoutEnd(t *testing.T) {
	t.Parallel()
	read := 0
	_, err := journal.Verify(readerFunc(func(p []byte) (int, error) {
		read += len(p)
		return len(p), nil
	}), journal.NewKeys().PublicKey())
	if wrong, ok := errors.AsType[*journal.LineError](err); !ok || wrong.Line != 1 || read > 32<<20 {
		t.Errorf("%v after %d bytes", err, read)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

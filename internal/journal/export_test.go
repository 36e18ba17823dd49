package journal

import (
	"database/sql"
	"testing"
)

// Databases returns the databases of a store.
func Databases(t *testing.T, st Store) (all []*sql.DB) {
	t.Helper()
	if st, ok := st.(*tableStore); ok {
		return []*sql.DB{st.DB}
	}
	if err := st.(*fileStore).each(t.Context(), func(db *database) (bool, error) {
		all = append(all, db.DB)
		return false, nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

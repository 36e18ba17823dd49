package uuid_test

import (
	"regexp"
	"testing"

	"github.com/openthreeds/threeds/internal/base/uuid"
)

func TestNewIsRandomAndOfVersion4(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := make(map[string]bool)
	for range 1000 {
		id := uuid.New()
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("%s, which was made before: %t", id, seen[id])
		}
		seen[id] = true
	}
}

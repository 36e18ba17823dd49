package sandbox

import (
	"testing"

	"github.com/openthreeds/threeds/sandbox/internal/cards"
)

func TestCardTable(t *testing.T) {
	if _, err := cards.Read(CardTable()); err != nil {
		t.Fatal(err)
	}
}

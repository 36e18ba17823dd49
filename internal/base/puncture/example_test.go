package puncture_test

import (
	"fmt"

	"github.com/openthreeds/threeds/internal/base/puncture"
)

// A file of keys keeps the state of a tree. After a key is forgotten, the new state takes the place of the old one.
func ExampleTree() {
	tree := puncture.New()
	before, _ := tree.Key(42)
	tree.Forget(7)
	state, err := tree.MarshalBinary()
	if err != nil {
		panic(err)
	}
	var later puncture.Tree
	if err := later.UnmarshalBinary(state); err != nil {
		panic(err)
	}
	after, _ := later.Key(42)
	_, isThere := later.Key(7)
	fmt.Println(before == after, isThere)
	// Output: true false
}

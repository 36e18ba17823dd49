package browser

import "github.com/openthreeds/threeds/internal/edge/browser/enginetest"

type (
	fakeEngine = enginetest.Engine
	fakeRow    = enginetest.Row
)

func newFakeEngine() *fakeEngine { return enginetest.NewEngine() }

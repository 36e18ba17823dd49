package mpi

import "context"

// Load asks for card ranges once.
func (e *Engine) Load(ctx context.Context, scheme string, by Asker) error {
	return e.load(ctx, &Directory{Scheme: scheme, CardRanges: &by})
}

package account

import (
	"context"
	"time"
)

// Refresh reads the rows of the store once.
func (c *KeyCache) Refresh(ctx context.Context) error {
	_, err := c.refresh(ctx, time.Minute)
	return err
}

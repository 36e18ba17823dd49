package auth

import (
	"context"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// logOtherBridging logs that an ARes has the Bridging extension in another version than its AReq. The
// version has to be the same in both, so the issuer may have read the AReq by another one.
func (e *Engine) logOtherBridging(ctx context.Context, c *claim, ares *message.Message) {
	got := extension.VersionOf(ares, extension.BridgingID)
	if c.bridging != "" && got != "" && got != c.bridging {
		e.Log.WarnContext(ctx, "Bridging extension of another version in the answer", "threeDSServerTransID", c.id, "scheme", c.Peer.Scheme,
			"sent", c.bridging)
	}
}
